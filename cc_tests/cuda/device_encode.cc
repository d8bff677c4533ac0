#include "device_encode.h"

#include <cstring>

#include "cuda/frame_encoder.h"

namespace tfcompress {
namespace device {

HostGradient::HostGradient(const std::vector<float>& values, DType dtype)
    : dtype(dtype), n(values.size()), bytes(values.size() * DTypeBytes(dtype)) {
  NarrowFromFloat(values, dtype, SerialExecutor(), bytes.data());
}

std::shared_ptr<const Compressor> Parse(const std::string& spec) {
  const auto compressor = Compressor::FromSpec(spec);
  EXPECT_TRUE(compressor.ok()) << compressor.status().message();
  return compressor.value();
}

Encoded EncodeOnHost(const Compressor& compressor, const HostGradient& gradient,
                     const std::vector<float>& slot, uint64_t seed) {
  Encoded encoded;
  encoded.slot = slot;
  std::vector<float*> slots;
  if (compressor.memory().num_slots() > 0) slots.push_back(encoded.slot.data());
  encoded.status =
      EncodeFrame(compressor, gradient.view(), Span<float* const>(slots), {seed}, &encoded.frame);
  return encoded;
}

Encoded EncodeOnDevice(const Compressor& compressor, const HostGradient& gradient,
                       const std::vector<float>& slot, const EncodeOptions& options,
                       const Stream& stream) {
  Encoded encoded;
  const auto encoder = FrameEncoder::Make(compressor, gradient.dtype, gradient.n);
  encoded.status = encoder.status();
  if (!encoder.ok()) return encoded;
  const DeviceVector<unsigned char> gradient_dev(gradient.bytes, stream);
  const DeviceVector<unsigned char> workspace(encoder.value().workspace_bytes());
  const size_t max_bytes = encoder.value().max_frame_bytes();
  const DeviceVector<unsigned char> frame(options.frame_begin + max_bytes);
  const DeviceVector<float> before(slot, stream);
  const DeviceVector<float> other(slot.size());
  const DeviceVector<float>& after = options.in_place ? before : other;
  DeviceSlot device_slot;
  if (compressor.memory().num_slots() > 0) device_slot = {before.data_dev(), after.data_dev()};
  uint64_t num_bytes = 0;
  encoded.status = encoder.value().Encode(
      gradient_dev.data_dev(), device_slot, options.seed, workspace.buffer(),
      {frame.data_dev() + options.frame_begin, max_bytes}, stream.get(), &num_bytes);
  if (!encoded.status.ok()) return encoded;
  const Bytes bytes = frame.ToHost(stream);
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(options.frame_begin);
  encoded.frame.assign(begin, begin + static_cast<std::ptrdiff_t>(num_bytes));
  encoded.slot = after.ToHost(stream);
  EXPECT_TRUE(options.in_place || SameBits(before.ToHost(stream), slot));
  return encoded;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace device
}  // namespace tfcompress
