// Brings tables of parts to the device as parameters of kernels: no memory of the host has to wait
// until the stream has read it.
#ifndef TFCOMPRESS_CUDA_WRITE_PARTS_H_
#define TFCOMPRESS_CUDA_WRITE_PARTS_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/span.h"
#include "core/status.h"
#include "cuda/launch.h"

namespace tfcompress {
namespace device {

// Bytes that the parameters of a kernel have together: some, which all launches copy quickly, or as
// many as there may be. And those beside a chunk of parts.
inline constexpr size_t kSomeParameterBytes = 4096;
inline constexpr size_t kMostParameterBytes = CUDART_VERSION < 12010 ? 4096 : 32764;
inline constexpr size_t kOtherParameterBytes = 96;

// As many parts as a launch takes along.
template <typename T, size_t kParameterBytes>
struct PartChunk {
  static_assert(std::is_trivially_copyable_v<T>);
  static constexpr size_t kSize = (kParameterBytes - kOtherParameterBytes) / sizeof(T);
  static_assert(kSize > 0);
  T parts[kSize];
};

template <typename T, typename Begin, size_t kParameterBytes>
__global__ void WritePartsKernel(const __grid_constant__ PartChunk<T, kParameterBytes> chunk,
                                 uint32_t count, Begin begin, T* parts_dev) {
  for (uint64_t i = ThisThread(); i < count; i += NumThreads()) {
    parts_dev[i] = chunk.parts[i];
    begin(chunk.parts[i]);
  }
}

template <size_t kParameterBytes, typename T, typename Begin>
Status WriteChunks(const char* name, Span<const T> parts, const Begin& begin, T* parts_dev,
                   cudaStream_t stream) {
  using Chunk = PartChunk<T, kParameterBytes>;
  static_assert(sizeof(uint32_t) + sizeof(Begin) + sizeof(T*) + 3 * alignof(std::max_align_t) <=
                kOtherParameterBytes);
  for (size_t first = 0; first < parts.size(); first += Chunk::kSize) {
    const size_t count = std::min(Chunk::kSize, parts.size() - first);
    Chunk chunk{};
    std::copy_n(parts.data() + first, count, chunk.parts);
    TFC_RETURN_IF_ERROR(Launch(name, WritePartsKernel<T, Begin, kParameterBytes>, 1, kWarpThreads,
                               stream, chunk, static_cast<uint32_t>(count), begin,
                               parts_dev + first));
  }
  return OkStatus();
}

// For parts that have nothing to begin.
struct BeginNothing {
  template <typename T>
  __device__ void operator()(const T&) const {}
};

// Writes the table to parts_dev, and calls begin(part) on the device for each part.
template <typename T, typename Begin>
Status WriteParts(const char* name, Span<const T> parts, const Begin& begin, T* parts_dev,
                  cudaStream_t stream) {
  if (parts.size() <= PartChunk<T, kSomeParameterBytes>::kSize)
    return WriteChunks<kSomeParameterBytes>(name, parts, begin, parts_dev, stream);
  return WriteChunks<kMostParameterBytes>(name, parts, begin, parts_dev, stream);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_WRITE_PARTS_H_
