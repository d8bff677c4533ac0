// Launching kernels and dividing work among their threads.
#ifndef TFCOMPRESS_CUDA_LAUNCH_H_
#define TFCOMPRESS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cuda/ceil_div.h"
#include "cuda/cuda_status.h"
#include "cuda/parts.h"
#include "cuda/resident_blocks.h"

namespace tfcompress {
namespace device {

inline constexpr unsigned kWarpThreads = 32;
inline constexpr unsigned kBlockWarps = kBlockThreads / kWarpThreads;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// Launches a grid of blocks of `num_threads` threads; parameters convert as in a call.
template <typename... Parameters, typename... Arguments>
Status Launch(const char* name, void (*kernel)(Parameters...), dim3 grid, unsigned num_threads,
              cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(num_threads);
  config.stream = stream;
  return FromCuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}

template <typename... Parameters, typename... Arguments>
Status Launch(const char* name, void (*kernel)(Parameters...), uint64_t num_blocks,
              unsigned num_threads, cudaStream_t stream, const Arguments&... arguments) {
  return Launch(name, kernel, dim3(static_cast<unsigned>(num_blocks)), num_threads, stream,
                arguments...);
}

// For kernels that work on the part blockIdx.y of a table of `num_parts`, and loop over its items
// with ThisThread() and NumThreads(). Every part gets as many blocks as make the largest one busy:
// its share of some rounds of those that run at the same time. Blocks without items cost little,
// but not nothing.
template <typename... Parameters, typename... Arguments>
Status LaunchParts(const char* name, void (*kernel)(Parameters...), const PartItems& items,
                   uint64_t num_parts, cudaStream_t stream, const Arguments&... arguments) {
  constexpr uint64_t kMostBlocks = 1 << 18;
  if (items.total == 0 || num_parts == 0) return OkStatus();
  uint64_t num_resident;
  TFC_RETURN_IF_ERROR(ResidentBlocks(reinterpret_cast<const void*>(kernel), &num_resident));
  const uint64_t share = CeilDiv(items.num_rounds * num_resident * items.largest, items.total);
  const uint64_t num_blocks =
      std::min({share, CeilDiv(items.largest, kBlockThreads), CeilDiv(kMostBlocks, num_parts)});
  return Launch(name, kernel,
                dim3(static_cast<unsigned>(num_blocks), static_cast<unsigned>(num_parts)),
                kBlockThreads, stream, arguments...);
}

// For kernels that loop with ThisThread() and NumThreads() over `count` items: no more blocks than
// the device runs at the same time.
template <typename... Parameters, typename... Arguments>
Status LaunchThreads(const char* name, void (*kernel)(Parameters...), uint64_t count,
                     cudaStream_t stream, const Arguments&... arguments) {
  return LaunchParts(name, kernel, {count, count, 1}, 1, stream, arguments...);
}

// For kernels that loop with ThisWarp() and NumWarps() over `count` tiles.
template <typename... Parameters, typename... Arguments>
Status LaunchWarps(const char* name, void (*kernel)(Parameters...), uint64_t count,
                   cudaStream_t stream, const Arguments&... arguments) {
  return LaunchThreads(name, kernel, count * kWarpThreads, stream, arguments...);
}

__device__ inline uint64_t ThisThread() {
  return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline uint64_t NumThreads() { return static_cast<uint64_t>(gridDim.x) * blockDim.x; }
__device__ inline uint64_t ThisWarp() { return ThisThread() / kWarpThreads; }
__device__ inline uint64_t NumWarps() { return NumThreads() / kWarpThreads; }
__device__ inline unsigned ThisLane() { return threadIdx.x % kWarpThreads; }

// Blocks of the grid's row that have some of `count` items if each thread takes one at a time; one
// at least.
__device__ inline uint32_t NumBusyBlocks(uint64_t count) {
  const uint64_t wanted = CeilDiv(count, kBlockThreads);
  if (wanted == 0) return 1;
  return static_cast<uint32_t>(wanted < gridDim.x ? wanted : gridDim.x);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_LAUNCH_H_
