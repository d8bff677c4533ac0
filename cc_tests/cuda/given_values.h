// Values on the device in the form that codecs take, for tests.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_GIVEN_VALUES_H_
#define TFCOMPRESS_CC_TESTS_CUDA_GIVEN_VALUES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/value_statistics.h"
#include "device_memory.h"

namespace tfcompress {
namespace device {

// All elements of a vector; or, if `listed`, stored backwards and addressed by a list of indices.
class GivenValues {
 public:
  GivenValues(const std::vector<float>& values, bool listed, const Stream& stream)
      : values_(listed ? std::vector<float>(values.rbegin(), values.rend()) : values, stream),
        indices_(Backwards(values.size()), stream),
        count_({static_cast<uint32_t>(values.size())}, stream),
        listed_(listed) {}

  SelectedValues selected() const {
    return {{values_.data_dev(), DType::kFloat32, static_cast<uint32_t>(values_.size())},
            listed_ ? indices_.data_dev() : nullptr};
  }
  const uint32_t* count_dev() const { return count_.data_dev(); }

 private:
  static std::vector<uint32_t> Backwards(size_t count) {
    std::vector<uint32_t> indices(count);
    for (size_t i = 0; i < count; ++i) indices[i] = static_cast<uint32_t>(count - 1 - i);
    return indices;
  }

  DeviceVector<float> values_;
  DeviceVector<uint32_t> indices_, count_;
  bool listed_;
};

// Frames that send given lists of values, alternately all elements of a vector and listed ones,
// with room for `spare` more values each.
class GivenFrames {
 public:
  GivenFrames(const std::vector<std::vector<float>>& lists, uint32_t spare, const Stream& stream)
      : states_(States(lists), stream), extremes_(lists.size()) {
    EXPECT_EQ(
        cudaMemsetAsync(extremes_.data_dev(), 0, lists.size() * sizeof(Extremes), stream.get()),
        cudaSuccess);
    for (size_t i = 0; i < lists.size(); ++i) {
      values_.push_back(std::make_unique<GivenValues>(lists[i], i % 2 == 1, stream));
      EncodedFrame frame{};
      frame.state_dev = states_.data_dev() + i;
      frame.extremes_dev = extremes_.data_dev() + i;
      frame.max_sent = static_cast<uint32_t>(lists[i].size()) + spare;
      frame.values = values_[i]->selected();
      frames_.push_back(frame);
    }
  }

  // To be completed before it is copied to the device.
  std::vector<EncodedFrame>& on_host() { return frames_; }
  Parts<EncodedFrame> Table(const Stream& stream) {
    table_ = std::make_unique<DeviceVector<EncodedFrame>>(frames_, stream);
    return {frames_, table_->data_dev()};
  }

 private:
  static std::vector<EncodeState> States(const std::vector<std::vector<float>>& lists) {
    std::vector<EncodeState> states;
    for (const std::vector<float>& values : lists) {
      EncodeState state{};
      state.k = static_cast<uint32_t>(values.size());
      states.push_back(state);
    }
    return states;
  }

  DeviceVector<EncodeState> states_;
  DeviceVector<Extremes> extremes_;
  std::vector<std::unique_ptr<GivenValues>> values_;
  std::vector<EncodedFrame> frames_;
  std::unique_ptr<DeviceVector<EncodedFrame>> table_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_GIVEN_VALUES_H_
