// What a rank does in a step under one spec: it encodes its gradients side by side, and sums what
// all ranks sent.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_BENCH_CODEC_STEP_H_
#define TFCOMPRESS_CC_TESTS_CUDA_BENCH_CODEC_STEP_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/frame_encoder.h"
#include "cuda/linear_coder.h"
#include "cuda/owned_memory.h"
#include "cuda/sum_decoder.h"
#include "pinned_memory.h"
#include "step_arrays.h"

namespace tfcompress {
namespace device {

// All tensors of the arrays, one frame for each.
class CodecStep {
 public:
  // Borrows the arrays.
  CodecStep(const StepArrays& arrays, cudaStream_t stream) : arrays_(arrays), stream_(stream) {}

  // Fails if a part of the spec has no device variant. To be called once.
  Status Make(const std::string& spec);
  // Encodes the gradients of all ranks, from memories of zeros, for Sum. To be called once.
  Status Gather();

  // Encodes the gradients of a rank.
  Status Encode(int rank) const;
  // Copies the frames of the last rank that encoded to one packet on the host: by one kernel, or by
  // a copy for each, of the lengths that the host has read. After MakePacket, which is to be called
  // once.
  Status MakePacket();
  Status CopyFrames() const;
  Status CopyEachFrame() const;
  // Reads the headers on the host and sums on the device.
  Status Sum();
  // Sums, without the headers.
  Status LaunchSum() const;
  // Waits, and fails if a frame that was summed is broken.
  Status CheckSum() const;

  size_t workspace_bytes() const { return workspace_.buffer().num_bytes; }         // To encode.
  uint64_t packet_bytes() const { return packets_.size() / arrays_.num_ranks(); }  // Mean of ranks.
  int num_slots() const { return num_slots_; }

 private:
  Status AllocateToEncode();
  Result<uint64_t> CopyFrame(size_t tensor, unsigned char* to) const;  // Returns its length.
  Status Append(size_t tensor);                                        // To the packets, its frame.
  DeviceBuffer FrameOf(size_t tensor) const;
  EncodeState* states() const { return static_cast<EncodeState*>(states_.data()); }
  Status ReadHeaders();

  const StepArrays& arrays_;
  cudaStream_t stream_;
  int num_slots_ = 0;
  std::optional<FrameEncoder> encoder_;
  std::vector<uint64_t> frame_begins_;
  OwnedMemory frames_, workspace_;
  PinnedMemory states_;
  PinnedMemory packet_;  // Of one rank, with room for frames of any length.
  Bytes packets_;
  OwnedMemory packets_dev_, sum_workspace_;
  PinnedMemory sum_host_;
  std::optional<SumDecoder> decoder_;
};

// The first tensor of the arrays, under a linear codec: its payload is encoded, and the elements
// are recovered from it as from a sum.
class LinearStep {
 public:
  LinearStep(const StepArrays& arrays, cudaStream_t stream) : arrays_(arrays), stream_(stream) {}

  // To be called once.
  Status Make(const std::string& spec);
  Status Encode() const;
  Status Recover() const;

  size_t workspace_bytes() const { return encode_workspace_.buffer().num_bytes; }
  uint64_t payload_bytes() const { return payload_.buffer().num_bytes; }

 private:
  const StepArrays& arrays_;
  cudaStream_t stream_;
  std::optional<LinearCoder> coder_;
  OwnedMemory encode_workspace_, recover_workspace_, payload_, indices_, values_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_BENCH_CODEC_STEP_H_
