#include "device_encode.h"

#include <algorithm>
#include <cstring>

#include "contract_inputs.h"
#include "cuda/frame_encoder.h"

namespace tfcompress {
namespace device {

namespace {

// Slots on the device: one vector each, or two.
class DeviceSlots {
 public:
  DeviceSlots(const Slots& slots, bool in_place, const Stream& stream) {
    for (const std::vector<float>& slot : slots) {
      before_.push_back(std::make_unique<DeviceVector<float>>(slot, stream));
      if (!in_place) after_.push_back(std::make_unique<DeviceVector<float>>(slot.size()));
      const DeviceVector<float>& after = in_place ? *before_.back() : *after_.back();
      views_.push_back({before_.back()->data_dev(), after.data_dev()});
    }
  }

  const std::vector<DeviceSlot>& views() const { return views_; }
  Slots Before(const Stream& stream) const { return ToHost(before_, stream); }
  Slots After(const Stream& stream) const {
    return ToHost(after_.empty() ? before_ : after_, stream);
  }

 private:
  using Vectors = std::vector<std::unique_ptr<DeviceVector<float>>>;

  static Slots ToHost(const Vectors& vectors, const Stream& stream) {
    Slots slots;
    for (const auto& vector : vectors) slots.push_back(vector->ToHost(stream));
    return slots;
  }

  Vectors before_;
  Vectors after_;
  std::vector<DeviceSlot> views_;
};

}  // namespace

HostGradient::HostGradient(const std::vector<float>& values, DType dtype)
    : dtype(dtype), n(values.size()), bytes(values.size() * DTypeBytes(dtype)) {
  NarrowFromFloat(values, dtype, SerialExecutor(), bytes.data());
}

std::shared_ptr<const Compressor> Parse(const std::string& spec) {
  const auto compressor = Compressor::FromSpec(spec);
  EXPECT_TRUE(compressor.ok()) << compressor.status().message();
  return compressor.value();
}

Slots SomeSlots(const Compressor& compressor, size_t n) {
  Slots slots(static_cast<size_t>(compressor.memory().num_slots()));
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = Gradient(n, 77 + i);
  return slots;
}

Encoded EncodeOnHost(const Compressor& compressor, const HostGradient& gradient, const Slots& slots,
                     uint64_t seed) {
  Encoded encoded;
  encoded.slots = slots;
  std::vector<float*> vectors;
  for (std::vector<float>& slot : encoded.slots) vectors.push_back(slot.data());
  encoded.status =
      EncodeFrame(compressor, gradient.view(), Span<float* const>(vectors), {seed}, &encoded.frame);
  return encoded;
}

Encoded EncodeOnDevice(const Compressor& compressor, const HostGradient& gradient,
                       const Slots& slots, const EncodeOptions& options, const Stream& stream) {
  Encoded encoded;
  const auto encoder = FrameEncoder::Make(compressor, gradient.dtype, gradient.n);
  encoded.status = encoder.status();
  if (!encoder.ok()) return encoded;
  const DeviceVector<unsigned char> gradient_dev(gradient.bytes, stream);
  const DeviceVector<unsigned char> workspace(encoder.value().workspace_bytes());
  const size_t max_bytes = encoder.value().max_frame_bytes();
  const DeviceVector<unsigned char> frame(options.frame_begin + max_bytes);
  const DeviceSlots device_slots(slots, options.in_place, stream);
  uint64_t num_bytes = 0;
  encoded.status = encoder.value().Encode(
      gradient_dev.data_dev(), device_slots.views(), options.seed, workspace.buffer(),
      {frame.data_dev() + options.frame_begin, max_bytes}, stream.get(), &num_bytes);
  if (!encoded.status.ok()) return encoded;
  const Bytes bytes = frame.ToHost(stream);
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(options.frame_begin);
  encoded.frame.assign(begin, begin + static_cast<std::ptrdiff_t>(num_bytes));
  encoded.slots = device_slots.After(stream);
  EXPECT_TRUE(options.in_place || SameBits(device_slots.Before(stream), slots));
  return encoded;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool SameBits(const Slots& a, const Slots& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return SameBits(x, y); });
}

}  // namespace device
}  // namespace tfcompress
