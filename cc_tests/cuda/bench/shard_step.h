// What a rank does in a sharded step under one spec: it encodes the pieces of other ranks and, when
// it has summed its own, that sum; and it decodes what the others sent of its piece, and all sums.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_BENCH_SHARD_STEP_H_
#define TFCOMPRESS_CC_TESTS_CUDA_BENCH_SHARD_STEP_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "cuda/frame_encoder.h"
#include "cuda/owned_memory.h"
#include "cuda/piece_decoder.h"
#include "cuda/pieces.h"
#include "cuda/sum_decoder.h"
#include "pinned_memory.h"
#include "step_arrays.h"

namespace tfcompress {
namespace device {

// The first tensor of the arrays, as rank 0 sees it.
class ShardStep {
 public:
  // Borrows the arrays.
  ShardStep(const StepArrays& arrays, cudaStream_t stream) : arrays_(arrays), stream_(stream) {}

  // Fails if a part of the spec has no device variant. To be called once, as Exchange.
  Status Make(const std::string& spec);
  // Makes what the other ranks send, from memories of zeros.
  Status Exchange();

  // Encodes the pieces, and what is in the own piece's slots plus the others' sum.
  Status Encode() const;
  // Reads the headers on the host, and sums and decodes on the device.
  Status Sum();
  // Sums and decodes, without the headers.
  Status LaunchSum() const;
  // Waits, and fails if a frame is broken.
  Status CheckSum() const;

  size_t workspace_bytes() const { return workspace_.buffer().num_bytes; }  // To encode.
  // What the rank sends in both hops.
  uint64_t sent_bytes() const { return sent_bytes_; }
  int num_slots() const { return num_slots_; }

 private:
  std::vector<DeviceSlot> WholeSlots() const;
  Status EncodePieces(size_t rank) const;
  // Encodes the sum of a piece, which is its gradient here.
  Status EncodeSum(size_t rank) const;
  Status Append(const void* frame_dev, uint64_t num_bytes, Bytes* packets) const;
  Status Upload(const Bytes& packets, OwnedMemory* memory) const;
  Status ReadHeaders();
  int64_t PieceSize(size_t rank) const { return cuts_[rank + 1] - cuts_[rank]; }
  EncodeState* states() const { return static_cast<EncodeState*>(states_.data()); }

  const StepArrays& arrays_;
  cudaStream_t stream_;
  int num_slots_ = 0;
  uint64_t sent_bytes_ = 0;
  std::vector<int64_t> cuts_;
  MemorySpec memory_;
  // By rank; on one rank there are no pieces of others.
  std::vector<DividedTensor> divided_;
  std::vector<std::optional<FrameEncoder>> pieces_;
  std::vector<FrameEncoder> sums_;
  uint64_t piece_bytes_ = 0;  // Of the buffer of a piece's frame.
  OwnedMemory workspace_, frames_, sum_frame_;
  PinnedMemory states_;
  Bytes received_, gathered_;
  OwnedMemory received_dev_, gathered_dev_, sum_workspace_;
  PinnedMemory received_host_, gathered_host_;
  std::optional<SumDecoder> own_;
  std::optional<PieceDecoder> all_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_BENCH_SHARD_STEP_H_
