// A frame with nothing but its first section, for tests of codes that are written to words before.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_SECTION_FRAME_H_
#define TFCOMPRESS_CC_TESTS_CUDA_SECTION_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/frame.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "device_memory.h"

namespace tfcompress {
namespace device {

// Of k elements. The section has *num_bytes_dev bytes, which are `num_bytes`, at an odd address.
class SectionFrame {
 public:
  SectionFrame(uint32_t k, uint32_t* words_dev, const uint64_t* num_bytes_dev, uint64_t num_bytes,
               const Stream& stream)
      : data_(kOffset + num_bytes),
        state_({StateOf(k)}, stream),
        frames_({FrameOf(k, words_dev, num_bytes_dev)}),
        frames_dev_(frames_, stream) {}

  Parts<EncodedFrame> parts() const { return {frames_, frames_dev_.data_dev()}; }
  Bytes Section(const Stream& stream) const {
    const Bytes data = data_.ToHost(stream);
    return Bytes(data.begin() + kOffset, data.end());
  }

 private:
  static constexpr std::ptrdiff_t kOffset = kFrameHeaderBytes / 2 * 2 + 1;

  static EncodeState StateOf(uint32_t k) {
    EncodeState state{};
    state.k = k;
    return state;
  }
  EncodedFrame FrameOf(uint32_t k, uint32_t* words_dev, const uint64_t* num_bytes_dev) const {
    EncodedFrame frame{};
    frame.state_dev = state_.data_dev();
    frame.max_k = k;
    frame.code_words_dev = words_dev;
    frame.lengths.num_payload_bytes_dev = num_bytes_dev;
    frame.data_dev = data_.data_dev() + kOffset - kFrameHeaderBytes;
    return frame;
  }

  DeviceVector<unsigned char> data_;
  DeviceVector<EncodeState> state_;
  std::vector<EncodedFrame> frames_;
  DeviceVector<EncodedFrame> frames_dev_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_SECTION_FRAME_H_
