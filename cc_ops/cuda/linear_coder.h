// LinearCodec on the device: writes the same payloads as the core for the same seed, and recovers
// the same elements from their sum.
#ifndef TFCOMPRESS_CUDA_LINEAR_CODER_H_
#define TFCOMPRESS_CUDA_LINEAR_CODER_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "core/linear_compressor.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/count_sketch.h"
#include "cuda/device_variants.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct Marks;

// Encodes and recovers vectors of one size under one codec; the caller handles the memory and the
// second round. Immutable: one coder serves several streams, with a workspace for each. Callers
// make one for each use: that parses a spec and sizes workspaces. Nothing here waits for the
// device.
class LinearCoder {
 public:
  // Fails with InvalidArgument if the codec has no device variant (the message names it), or if the
  // vector is too large.
  static Result<LinearCoder> Make(const LinearCompressor& compressor, uint64_t n);

  uint64_t payload_size() const { return payload_size_; }      // In floats.
  uint64_t num_candidates() const { return num_candidates_; }  // Elements that Recover yields.
  size_t encode_workspace_bytes() const { return encode_workspace_bytes_; }
  size_t recover_workspace_bytes() const { return recover_workspace_bytes_; }

  // Fails with InvalidArgument for the recovery `heavymix`, which has no device variant. Recover
  // checks this first.
  Status CheckRecovers() const;

  // Overwrites payload_dev with the payload of the parts, n elements end to end. NaN or Inf among
  // them makes every float of the payload NaN. Fails with InvalidArgument, before anything is
  // launched, if the size differs from n, or if a buffer is missing or too small.
  Status Encode(Span<const DevicePart> parts, uint64_t seed, const DeviceBuffer& workspace,
                float* payload_dev, cudaStream_t stream) const;

  // Overwrites indices_dev, ascending, and values_dev with the candidates of the sum of payloads.
  // NaN or Inf in it makes all values NaN, at the first indices.
  Status Recover(const float* summed_dev, uint64_t seed, const DeviceBuffer& workspace,
                 uint32_t* indices_dev, float* values_dev, cudaStream_t stream) const;

 private:
  struct Buffers;

  LinearCoder() = default;
  Status Parse(const LinearCompressor& compressor);
  void TakeToEncode(Workspace* workspace, Buffers* buffers) const;
  void TakeToRecover(Workspace* workspace, Buffers* buffers) const;
  Status ListSeeded(uint64_t seed, const Marks& marks, uint32_t* indices_dev,
                    cudaStream_t stream) const;
  Status Sample(Span<const DevicePart> parts, uint64_t seed, const Buffers& buffers,
                float* payload_dev, cudaStream_t stream) const;
  Status SelectEstimates(const float* summed_dev, uint64_t seed, const Buffers& buffers,
                         uint32_t* indices_dev, cudaStream_t stream) const;

  LinearKind kind_;
  int rows_ = 0;  // Shape of a sketch, as are the columns.
  uint32_t columns_ = 0;
  uint32_t n_;
  uint32_t payload_size_;
  uint32_t num_candidates_;
  std::string spec_;
  bool is_heavymix_ = false;
  size_t encode_workspace_bytes_;
  size_t recover_workspace_bytes_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_LINEAR_CODER_H_
