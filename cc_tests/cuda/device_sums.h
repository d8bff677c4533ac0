// Sums packets of several ranks on the device and with the core, for tests that compare both.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_DEVICE_SUMS_H_
#define TFCOMPRESS_CC_TESTS_CUDA_DEVICE_SUMS_H_

#include <string>
#include <vector>

#include "core/pipeline.h"
#include "cuda/sum_decoder.h"
#include "device_encode.h"
#include "device_memory.h"

namespace tfcompress {
namespace device {

// One tensor of a packet.
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
// `offset` is the offset of the packets in device memory; it may be odd.
Sums SumOnDevice(const Bytes& packets, int num_ranks, float scale,
                 const std::vector<TensorSpec>& tensors, const Stream& stream, size_t offset = 0,
                 Span<DecodeStats> stats = {},
                 uint64_t most_group_bytes = SumDecoder::kMostGroupBytes);
// Makes a frame of `spec`, of k of n elements, with the value section `section` and a correct
// checksum.
Bytes FrameWithValues(const std::string& spec, uint32_t n, uint32_t k, const Bytes& section);
// Expects both the core and the device to refuse a frame with DataLoss.
void ExpectRefused(const Bytes& frame, const std::vector<TensorSpec>& tensors,
                   const Stream& stream);
void ExpectSameSums(const Bytes& packets, int num_ranks, float scale,
                    const std::vector<TensorSpec>& tensors, const Stream& stream, size_t offset = 0,
                    uint64_t most_group_bytes = SumDecoder::kMostGroupBytes);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_DEVICE_SUMS_H_
