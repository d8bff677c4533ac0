// Packets of several ranks, summed on the device beside the core, for tests.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_DEVICE_SUMS_H_
#define TFCOMPRESS_CC_TESTS_CUDA_DEVICE_SUMS_H_

#include <string>
#include <vector>

#include "core/pipeline.h"
#include "device_encode.h"
#include "device_memory.h"

namespace tfcompress {
namespace device {

// What a packet holds of one tensor.
struct TensorSpec {
  DType dtype;
  uint64_t n;
};

// Appends the core's frame of a gradient; the memory begins with zeros.
void Append(const std::string& spec, const HostGradient& gradient, uint64_t seed, Bytes* packet);

struct Sums {
  Status status;
  std::vector<Bytes> tensors;
};

Sums SumOnHost(const Bytes& packets, int num_ranks, float scale,
               const std::vector<TensorSpec>& tensors);
// The packets lie at an odd offset in device memory where `offset` is one.
Sums SumOnDevice(const Bytes& packets, int num_ranks, float scale,
                 const std::vector<TensorSpec>& tensors, const Stream& stream, size_t offset = 0,
                 Span<DecodeStats> stats = {});
// A frame of `spec`, of k of n elements, whose value section is `section`, as if it were whole.
Bytes FrameWithValues(const std::string& spec, uint32_t n, uint32_t k, const Bytes& section);
// Both the core and the device refuse a frame as damaged.
void ExpectRefused(const Bytes& frame, const std::vector<TensorSpec>& tensors,
                   const Stream& stream);
void ExpectSameSums(const Bytes& packets, int num_ranks, float scale,
                    const std::vector<TensorSpec>& tensors, const Stream& stream,
                    size_t offset = 0);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_DEVICE_SUMS_H_
