#include "device_encode.h"

#include <algorithm>

#include "cuda/frame_encoder.h"

namespace tfcompress {
namespace device {

DeviceSlots::DeviceSlots(const Slots& slots, bool in_place, const Stream& stream) {
  for (const std::vector<float>& slot : slots) {
    before_.push_back(std::make_unique<DeviceVector<float>>(slot, stream));
    if (!in_place) after_.push_back(std::make_unique<DeviceVector<float>>(slot.size()));
    const DeviceVector<float>& after = in_place ? *before_.back() : *after_.back();
    views_.push_back({before_.back()->data_dev(), after.data_dev()});
  }
}

Slots DeviceSlots::ToHost(const Vectors& vectors, const Stream& stream) {
  Slots slots;
  for (const auto& vector : vectors) slots.push_back(vector->ToHost(stream));
  return slots;
}

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
  return EncodeSideBySide(compressor, {gradient}, {slots}, options, stream)[0];
}

std::vector<Encoded> EncodeSideBySide(const Compressor& compressor,
                                      const std::vector<HostGradient>& gradients,
                                      const std::vector<Slots>& slots, const EncodeOptions& options,
                                      const Stream& stream) {
  std::vector<Encoded> encoded(gradients.size());
  std::vector<uint64_t> sizes;
  for (const HostGradient& gradient : gradients) sizes.push_back(gradient.n);
  const auto encoder = FrameEncoder::Make(compressor, gradients[0].dtype, sizes);
  for (Encoded& each : encoded) each.status = encoder.status();
  if (!encoder.ok()) return encoded;
  std::vector<std::unique_ptr<DeviceVector<unsigned char>>> gradients_dev, frames;
  std::vector<std::unique_ptr<DeviceSlots>> slots_dev;
  std::vector<FrameInput> inputs;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const size_t max_bytes = encoder.value().max_frame_bytes(i);
    gradients_dev.push_back(
        std::make_unique<DeviceVector<unsigned char>>(gradients[i].bytes, stream));
    frames.push_back(
        std::make_unique<DeviceVector<unsigned char>>(options.frame_begin + max_bytes));
    slots_dev.push_back(std::make_unique<DeviceSlots>(slots[i], options.in_place, stream));
    inputs.push_back({gradients_dev[i]->data_dev(),
                      slots_dev[i]->views(),
                      options.seed + i,
                      {frames[i]->data_dev() + options.frame_begin, max_bytes}});
  }
  const DeviceVector<unsigned char> workspace(encoder.value().workspace_bytes());
  std::vector<EncodeState> states(gradients.size());
  const Status launched =
      encoder.value().Launch(inputs, workspace.buffer(), stream.get(), states.data());
  stream.Synchronize();
  for (size_t i = 0; i < gradients.size(); ++i) {
    uint64_t num_bytes = 0;
    encoded[i].status = launched.ok() ? FrameEncoder::ReadLength(states[i], &num_bytes) : launched;
    if (!encoded[i].status.ok()) continue;
    const Bytes bytes = frames[i]->ToHost(stream);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(options.frame_begin);
    encoded[i].frame.assign(begin, begin + static_cast<std::ptrdiff_t>(num_bytes));
    encoded[i].slots = slots_dev[i]->After(stream);
    EXPECT_TRUE(options.in_place || SameBits(slots_dev[i]->Before(stream), slots[i]));
  }
  return encoded;
}

bool SameBits(const Slots& a, const Slots& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return SameBits(x, y); });
}

}  // namespace device
}  // namespace tfcompress
