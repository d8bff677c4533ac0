// Compensator computes the same slots and the same finite flag as the core.
#include "cuda/compensator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/codec.h"
#include "core/registry.h"
#include "core/spec.h"
#include "cuda/device_variants.h"
#include "device_encode.h"
#include "device_inputs.h"

namespace tfcompress {
namespace device {
namespace {

struct Compensated {
  bool finite = false;
  Slots slots;
};

Compensated CompensateOnHost(const Memory& memory, const HostGradient& gradient,
                             const Slots& slots) {
  std::vector<float> widened;
  const Span<const float> given =
      ViewAsFloat(gradient.bytes.data(), gradient.dtype, gradient.n, nullptr, &widened);
  Compensated after{false, slots};
  std::vector<const float*> before;
  std::vector<float*> written;
  for (const auto& slot : slots) before.push_back(slot.data());
  for (auto& slot : after.slots) written.push_back(slot.data());
  memory.Compensate(given, {before, written}, {0, nullptr}, &after.finite);
  return after;
}

Compensated CompensateOnDevice(const std::string& memory, const HostGradient& gradient,
                               const Slots& slots, bool in_place, const Stream& stream) {
  const auto made = Compensator::Make(memory, gradient.dtype, gradient.n);
  EXPECT_TRUE(made.ok()) << made.status().message();
  const DeviceVector<unsigned char> gradient_dev(gradient.bytes, stream);
  const DeviceSlots slots_dev(slots, in_place, stream);
  const DeviceVector<unsigned char> workspace(made.value().workspace_bytes());
  const DeviceVector<unsigned char> finite(sizeof(bool));
  ExpectOk(made.value().Compensate(gradient_dev.data_dev(), slots_dev.views(), workspace.buffer(),
                                   reinterpret_cast<bool*>(finite.data_dev()), stream.get()));
  return {finite.ToHost(stream)[0] != 0, slots_dev.After(stream)};
}

void ExpectSame(const std::string& memory, const HostGradient& gradient, const Slots& slots,
                const Stream& stream) {
  const auto part = ParsePart<Memory>("memory", memory);
  ASSERT_TRUE(part.ok()) << part.status().message();
  const Compensated expected = CompensateOnHost(*part.value().object, gradient, slots);
  for (bool in_place : {false, true}) {
    const Compensated actual = CompensateOnDevice(memory, gradient, slots, in_place, stream);
    ASSERT_EQ(actual.finite, expected.finite) << memory << ", " << gradient.n;
    ASSERT_TRUE(SameBits(actual.slots, expected.slots)) << memory << ", " << gradient.n;
  }
}

Slots SlotsOf(const std::string& memory, size_t n) {
  return SomeSlots(*Parse(memory + "|topk|raw|raw"), n);
}

class EveryMemory : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Device, EveryMemory,
                         testing::Values("none", "residual", "momentum:rate=0.9",
                                         "momentum:rate=0.5,nesterov=1"));

TEST_P(EveryMemory, MakesTheSameSlots) {
  const Stream stream;
  for (size_t n : {0, 1, 33, 1023, 1025, 3000}) {
    for (const Input& input : Inputs()) {
      for (DType dtype : kTypes) {
        SCOPED_TRACE(input.name);
        ASSERT_NO_FATAL_FAILURE(ExpectSame(GetParam(), HostGradient(input.make(n, n + 1), dtype),
                                           SlotsOf(GetParam(), n), stream));
      }
    }
  }
}

TEST_P(EveryMemory, LeavesTheSlotsWhereAnElementIsNotFinite) {
  const Stream stream;
  constexpr size_t kSize = 2000;
  for (float bad : {NAN, INFINITY, -INFINITY, 3.4e38f}) {
    std::vector<float> x(kSize, 1.0f);
    Slots slots = SlotsOf(GetParam(), kSize);
    for (auto& slot : slots) slot[1999] = 3.4e38f;  // Overflows only when 3.4e38 is added.
    x[1999] = bad;
    ASSERT_NO_FATAL_FAILURE(
        ExpectSame(GetParam(), HostGradient(x, DType::kFloat32), slots, stream));
  }
}

TEST(Compensator, HasAVariantOfEveryMemory) {
  EXPECT_EQ(DeviceMemories().size(), Registry<Memory>().size());
}

TEST(Compensator, RefusesOtherSlotsAndSmallBuffers) {
  EXPECT_FALSE(Compensator::Make("residual", DType::kFloat32, kMaxElements + 1).ok());
  EXPECT_FALSE(Compensator::Make("unknown", DType::kFloat32, 1).ok());
  const auto made = Compensator::Make("residual", DType::kFloat32, 100);
  ASSERT_TRUE(made.ok());
  const Stream stream;
  const DeviceVector<float> floats(100);
  const DeviceVector<unsigned char> memory(made.value().workspace_bytes() + 1);
  float* floats_dev = floats.data_dev();
  const auto message = [&](const float* gradient_dev, std::vector<DeviceSlot> slots,
                           size_t num_bytes, bool* finite_dev) {
    return made.value()
        .Compensate(gradient_dev, slots, {memory.data_dev(), num_bytes}, finite_dev, stream.get())
        .message();
  };
  const auto names = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  const size_t enough = made.value().workspace_bytes();
  bool* finite_dev = reinterpret_cast<bool*>(memory.data_dev() + enough);
  const DeviceSlot slot = {floats_dev, floats_dev};
  names(message(floats_dev, {slot}, enough - 1, finite_dev), "workspace needs");
  names(message(floats_dev, {}, enough, finite_dev), "needs 1 slots, got 0");
  names(message(floats_dev, {{floats_dev, nullptr}}, enough, finite_dev), "null vector");
  names(message(nullptr, {slot}, enough, finite_dev), "the gradient is null");
  names(message(floats_dev, {slot}, enough, nullptr), "the output for the finite flag is null");
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
