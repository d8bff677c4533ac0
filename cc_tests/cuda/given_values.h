// Values on the device in the form that codecs take, for tests.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_GIVEN_VALUES_H_
#define TFCOMPRESS_CC_TESTS_CUDA_GIVEN_VALUES_H_

#include <cstdint>
#include <vector>

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

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_GIVEN_VALUES_H_
