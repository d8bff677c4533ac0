// Encodes the frames of several calls together on the device.
#ifndef TFCOMPRESS_TF_CUDA_JOINT_ENCODING_H_
#define TFCOMPRESS_TF_CUDA_JOINT_ENCODING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/frame_encoder.h"
#include "cuda/stream_timer.h"
#include "tensorflow/core/framework/tensor.h"
#include "tf/cuda/device_memory.h"
#include "tf/cuda/encode_call.h"

namespace tfcompress {

// Allocates the memory of a packet where packets are; on the host it is pinned.
absl::Status AllocatePacket(tensorflow::OpKernelContext* ctx, uint64_t num_bytes,
                            tensorflow::Tensor* packet);

// Encodes calls that are alike, by the memory and the stream of the first.
class JointEncoding {
 public:
  // Fails as FrameEncoder::Make does.
  static Result<JointEncoding> Make(const EncodeCalls& calls);

  // Fails where several calls take more memory of the device than they should, or than is free:
  // they need not wait for memory, since fewer of them take less.
  absl::Status Allocate();
  // Encodes, waits, and finishes the calls. Sets the status of each, but for an error of all.
  absl::Status Run();

 private:
  explicit JointEncoding(const EncodeCalls& calls)
      : calls_(calls), ctx_(calls.front()->ctx), packets_(calls.size()) {}

  absl::Status AllocateFrames(bool is_alone);
  absl::Status AllocatePacketOf(size_t call, uint64_t num_bytes);
  void AllocateLongestPackets();
  absl::Status Launch();
  absl::Status CopyFrames(const device::StreamTimer* encoding);
  absl::Status OutputPacket(size_t call, EncodedCounts* counts);

  device::EncodeState* states() { return static_cast<device::EncodeState*>(states_owner_.data()); }

  EncodeCalls calls_;
  tensorflow::OpKernelContext* ctx_;
  std::optional<device::FrameEncoder> encoder_;  // Of the frames of all calls, if they have any.
  std::vector<size_t> first_frames_;             // Of each call, and the number of all.
  OwnedBuffer workspace_, frames_;
  tensorflow::Tensor states_owner_;
  std::vector<device::DeviceBuffer> buffers_;  // Of the frames.
  // Whether frames are copied before the host knows their lengths.
  bool copies_ahead_ = false;
  std::vector<tensorflow::Tensor> packets_;  // Of the calls.
  std::vector<device::FramePlace> places_;   // Of the frames in them.
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_JOINT_ENCODING_H_
