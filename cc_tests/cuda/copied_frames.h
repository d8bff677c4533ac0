// Tensors that are encoded side by side, and whose frames are copied before anyone has waited.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_COPIED_FRAMES_H_
#define TFCOMPRESS_CC_TESTS_CUDA_COPIED_FRAMES_H_

#include <memory>
#include <string>
#include <vector>

#include "cuda/frame_encoder.h"
#include "cuda/stream_timer.h"
#include "device_encode.h"
#include "device_memory.h"
#include "pinned_memory.h"

namespace tfcompress {
namespace device {

class CopiedFrames {
 public:
  // Of a spec without a memory.
  CopiedFrames(const std::string& spec, const std::vector<uint64_t>& sizes)
      : compressor_(Parse(spec)),
        encoder_(FrameEncoder::Make(*compressor_, DType::kFloat32, sizes).value()),
        workspace_(encoder_.workspace_bytes()) {
    ExpectOk(states_.Allocate(sizes.size() * sizeof(EncodeState)));
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<float> gradient = Gradient(sizes[i], i + 1);
      expected_.push_back(EncodeOnHost(*compressor_, {gradient, DType::kFloat32}, {}, 1).frame);
      gradients_.push_back(std::make_unique<DeviceVector<float>>(gradient, stream_));
      frames_.push_back(std::make_unique<DeviceVector<unsigned char>>(encoder_.max_frame_bytes(i)));
      inputs_.push_back({gradients_[i]->data_dev(), {}, 1, frames_[i]->buffer()});
    }
  }

  ~CopiedFrames() { stream_.Synchronize(); }
  CopiedFrames(const CopiedFrames&) = delete;
  CopiedFrames& operator=(const CopiedFrames&) = delete;

  void Launch() {
    ExpectOk(timer_.Start(stream_.get()));
    auto* const states = static_cast<EncodeState*>(states_.data());
    ExpectOk(encoder_.Launch(inputs_, workspace_.buffer(), stream_.get(), states));
    ExpectOk(timer_.Stop(stream_.get()));
  }
  Status Copy(const std::vector<FramePlace>& places, PacketMemory memory) const {
    TFC_RETURN_IF_ERROR(timer_.MakeWait(copies_.get()));
    return encoder_.CopyFrames(places, memory, workspace_.buffer(), copies_.get());
  }
  // Waits for the copies, behind which there is nothing.
  void CopyTo(const std::vector<FramePlace>& places, PacketMemory memory) const {
    ExpectOk(Copy(places, memory));
    copies_.Synchronize();
    int64_t nanoseconds = 0;
    ExpectOk(timer_.Wait(&nanoseconds));
  }

  // Returns what the host encodes as the frames [first, end), one after the other.
  Bytes Joined(size_t first, size_t end) const {
    Bytes joined;
    for (size_t i = first; i < end; ++i)
      joined.insert(joined.end(), expected_[i].begin(), expected_[i].end());
    return joined;
  }

 private:
  const Stream stream_, copies_;
  const std::shared_ptr<const Compressor> compressor_;
  const FrameEncoder encoder_;
  const DeviceVector<unsigned char> workspace_;
  std::vector<std::unique_ptr<DeviceVector<float>>> gradients_;
  std::vector<std::unique_ptr<DeviceVector<unsigned char>>> frames_;
  std::vector<FrameInput> inputs_;
  PinnedMemory states_;
  std::vector<Bytes> expected_;
  StreamTimer timer_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_COPIED_FRAMES_H_
