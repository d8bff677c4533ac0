// FrameEncoder writes the bytes that the core writes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "contract_inputs.h"
#include "cuda/frame_encoder.h"
#include "device_encode.h"
#include "device_inputs.h"

namespace tfcompress {
namespace device {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Encodes on both sides and compares everything.
void ExpectSameFrame(const std::string& spec, const HostGradient& gradient,
                     const EncodeOptions& options, const Stream& stream) {
  const auto compressor = Parse(spec);
  const Slots slots = SomeSlots(*compressor, gradient.n);
  const Encoded expected = EncodeOnHost(*compressor, gradient, slots, options.seed);
  ASSERT_TRUE(expected.status.ok()) << expected.status.message();
  const Encoded actual = EncodeOnDevice(*compressor, gradient, slots, options, stream);
  ASSERT_TRUE(actual.status.ok()) << spec << ": " << actual.status.message();
  ASSERT_EQ(actual.frame.size(), expected.frame.size()) << spec;
  ASSERT_TRUE(actual.frame == expected.frame) << spec << ": the bytes differ";
  ASSERT_TRUE(SameBits(actual.slots, expected.slots)) << spec << ": the slots differ";
}

// Encodes one input with a type, an alignment and a kind of slots that the seed chooses.
void ExpectSameFrameOfInput(const std::string& spec, const Input& input, size_t n, uint64_t seed,
                            const Stream& stream) {
  SCOPED_TRACE(testing::Message() << input.name << ", " << n << " elements");
  EncodeOptions options;
  options.seed = seed;
  options.in_place = seed % 2 == 0;
  options.frame_begin = seed % 5;
  ExpectSameFrame(spec, HostGradient(input.make(n, seed), kTypes[seed % 3]), options, stream);
}

class FrameOfEverySpec : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Device, FrameOfEverySpec, testing::ValuesIn(AllDeviceSpecs()),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(FrameOfEverySpec, EncodesEverySmallInputToTheSameBytes) {
  const Stream stream;
  const size_t sizes[] = {0, 1, 31, 32, 33, 1023, 1024, 1025};
  uint64_t seed = 1;
  for (size_t n : sizes) {
    // All inputs at small sizes, and each input at some larger size.
    for (size_t i = 0; i < Inputs().size(); ++i) {
      if (n > 33 && (i + seed) % 5 != 0) continue;
      ++seed;
      ASSERT_NO_FATAL_FAILURE(ExpectSameFrameOfInput(GetParam(), Inputs()[i], n, seed, stream));
    }
  }
}

TEST_P(FrameOfEverySpec, SendsNonFiniteTensorsAsAFlag) {
  const Stream stream;
  for (float bad : {kNaN, kInfinity, -kInfinity}) {
    for (bool in_place : {true, false}) {
      std::vector<float> values = Gradient(1500, 3);
      values[1234] = bad;
      EncodeOptions options;
      options.in_place = in_place;
      ASSERT_NO_FATAL_FAILURE(
          ExpectSameFrame(GetParam(), HostGradient(values, DType::kFloat32), options, stream));
    }
  }
}

class FrameOfSomeSpecs : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Device, FrameOfSomeSpecs, testing::ValuesIn(SomeDeviceSpecs()),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(FrameOfSomeSpecs, EncodesLargerInputsToTheSameBytes) {
  const Stream stream;
  uint64_t seed = 1;
  for (size_t n : {65535, 65536, 65537}) {
    for (const Input& input : Inputs()) {
      // Each input at one of the sizes.
      if (++seed % 3 != n % 3) continue;
      ASSERT_NO_FATAL_FAILURE(ExpectSameFrameOfInput(GetParam(), input, n, seed, stream));
    }
  }
}

// Encodes tensors side by side.
void ExpectThoseOfTheCore(const Compressor& compressor, const std::vector<HostGradient>& gradients,
                          const std::vector<Slots>& slots, const EncodeOptions& options = {5}) {
  const Stream stream;
  const std::vector<Encoded> actual =
      EncodeSideBySide(compressor, gradients, slots, options, stream);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Encoded expected = EncodeOnHost(compressor, gradients[i], slots[i], options.seed + i);
    ASSERT_TRUE(actual[i].status.ok()) << actual[i].status.message();
    ASSERT_TRUE(actual[i].frame == expected.frame) << "tensor " << i;
    ASSERT_TRUE(SameBits(actual[i].slots, expected.slots)) << "tensor " << i;
  }
}

TEST_P(FrameOfSomeSpecs, EncodesTensorsSideBySide) {
  const auto compressor = Parse(GetParam());
  std::vector<HostGradient> gradients;
  std::vector<Slots> slots;
  for (size_t n : {1100, 0, 1, 5000, 31, 2048}) {
    std::vector<float> values = Inputs()[gradients.size()].make(n, n);
    if (n == 31) values[7] = kNaN;
    gradients.emplace_back(values, DType::kFloat32);
    slots.push_back(SomeSlots(*compressor, n));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectThoseOfTheCore(*compressor, gradients, slots));
}

// Vectors that are found not to be finite while they are encoded, beside others.
TEST_P(FrameOfSomeSpecs, PutsTheSlotsBackOfTheTensorsThatAreNotFinite) {
  const auto compressor = Parse(GetParam());
  EncodeOptions options;
  options.in_place = false;
  std::vector<HostGradient> gradients;
  std::vector<Slots> slots;
  for (size_t n : {3000, 5000, 40, 2048}) {
    std::vector<float> values = Gradient(n, n);
    if (n % 3 == 2) values[n - 1] = kInfinity;
    gradients.emplace_back(values, DType::kFloat32);
    slots.push_back(SomeSlots(*compressor, n));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectThoseOfTheCore(*compressor, gradients, slots, options));
}

// Blocks of 16 to 1,024 values and codes of 3 to 8 bits are written by tiles of 1,024 values, at
// any alignment.
TEST(DenseBlocks, OfEverySizeAndWidthHaveTheBytesOfTheCore) {
  const Stream stream;
  uint64_t seed = 0;
  for (int bits = 3; bits <= 8; ++bits) {
    for (int block = 16; block <= 1024; block *= 4) {
      const Input& input = Inputs()[++seed % Inputs().size()];
      const std::string spec = "residual|dense|raw|block_int:bits=" + std::to_string(bits) +
                               ",block=" + std::to_string(block) +
                               ",levels=" + (bits % 2 == 0 ? "even" : "square");
      const size_t n = 1024 * (1 + seed % 3) + seed * 7 % 1024;
      ASSERT_NO_FATAL_FAILURE(ExpectSameFrameOfInput(spec, input, n, seed, stream));
    }
  }
}

// More than a warp places at once, of one to several blocks of codes.
TEST(FramesOfManyTensors, AreThoseOfTheCore) {
  for (const char* spec :
       {"residual|topk:ratio=0.1|delta_adaptive|raw", "none|topk:ratio=0.1|delta_binary|raw",
        "none|nonzero|delta_flag|fp16"}) {
    const auto compressor = Parse(spec);
    std::vector<HostGradient> gradients;
    std::vector<Slots> slots;
    for (size_t i = 0; i < 70; ++i) {
      const size_t n = i == 40 ? 150000 : 1 + 97 * i;
      gradients.emplace_back(Gradient(n, i), DType::kFloat32);
      slots.push_back(SomeSlots(*compressor, n));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectThoseOfTheCore(*compressor, gradients, slots)) << spec;
  }
}

TEST_P(FrameOfSomeSpecs, KeepsTheSameSlotsOverSteps) {
  const Stream stream;
  const auto compressor = Parse(GetParam());
  constexpr size_t kSize = 3000;
  Slots slots(static_cast<size_t>(compressor->memory().num_slots()),
              std::vector<float>(kSize, 0.0f));
  for (uint64_t step = 0; step < 5; ++step) {
    const HostGradient gradient(Gradient(kSize, step), DType::kFloat32);
    EncodeOptions options;
    options.seed = step;
    const Encoded expected = EncodeOnHost(*compressor, gradient, slots, step);
    const Encoded actual = EncodeOnDevice(*compressor, gradient, slots, options, stream);
    ASSERT_TRUE(actual.status.ok()) << actual.status.message();
    ASSERT_TRUE(actual.frame == expected.frame) << "step " << step;
    ASSERT_TRUE(SameBits(actual.slots, expected.slots)) << "step " << step;
    slots = actual.slots;
  }
}

TEST_P(FrameOfSomeSpecs, ReusesAWorkspaceAndRepeatsItsBytes) {
  const Stream stream;
  const auto compressor = Parse("none|" + GetParam().substr(GetParam().find('|') + 1));
  const HostGradient first(Gradient(5000, 1), DType::kFloat32);
  const HostGradient second(NormalValues(5000, 2), DType::kFloat32);
  const auto encoder = FrameEncoder::Make(*compressor, DType::kFloat32, 5000);
  ASSERT_TRUE(encoder.ok());
  const DeviceVector<unsigned char> workspace(encoder.value().workspace_bytes());
  const DeviceVector<unsigned char> frame(encoder.value().max_frame_bytes());
  for (const HostGradient* gradient : {&first, &second, &first}) {
    const DeviceVector<unsigned char> gradient_dev(gradient->bytes, stream);
    uint64_t num_bytes = 0;
    ExpectOk(encoder.value().Encode({gradient_dev.data_dev(), {}, 9, frame.buffer()},
                                    workspace.buffer(), stream.get(), &num_bytes));
    Bytes actual = frame.ToHost(stream);
    actual.resize(num_bytes);
    EXPECT_TRUE(actual == EncodeOnHost(*compressor, *gradient, {}, 9).frame);
  }
}

// More than one element per thread. Slow under the emulator, so few specs there; all specs run with
// 25 million elements on a device.
TEST(FrameEncoder, EncodesAMillionElements) {
  const Stream stream;
  const size_t n = (size_t{1} << 20) - 1;
  const HostGradient gradient(Gradient(n, 1), DType::kFloat32);
  for (const char* spec :
       {"residual|topk:ratio=0.01|delta_binary|raw", "none|dense|raw|uniform",
        "none|dense|raw|block_int", "none|dense|raw|sign", "none|dense|raw|ternary:clip=2.5",
        "none|dense|raw|quantile:buckets=3000"})
    ASSERT_NO_FATAL_FAILURE(ExpectSameFrame(spec, gradient, {}, stream));
}

TEST(FrameEncoder, EncodesTheSizesOfARealModel) {
  const char* const wanted = std::getenv("TFC_LARGE_DEVICE_TESTS");
  if (wanted == nullptr) GTEST_SKIP() << "25 million elements: set TFC_LARGE_DEVICE_TESTS=1";
  const Stream stream;
  const HostGradient gradient(Gradient(25000000, 1), DType::kFloat32);
  for (const std::string& spec : SomeDeviceSpecs())
    ASSERT_NO_FATAL_FAILURE(ExpectSameFrame(spec, gradient, {}, stream));
}

TEST(FrameEncoder, TakesNoMoreMemoryThanItsLimit) {
  const auto workspace_bytes = [](const std::string& spec, uint64_t n) {
    const auto made = FrameEncoder::Make(*Parse(spec), DType::kFloat32, n);
    return made.ok() ? made.value().workspace_bytes() : 0;
  };
  EXPECT_LE(workspace_bytes("residual|dense|sketchml", 10'000'000), 550'000'000u);
  EXPECT_GT(workspace_bytes("residual|dense|sketchml", 10'000'000), 0u);
  EXPECT_GT(workspace_bytes("residual|topk:ratio=0.1|sketchml", 100'000'000), 0u);
  EXPECT_GT(workspace_bytes("residual|threshold:tau=0.5|delta_adaptive|fp16", 400'000'000), 0u);
  EXPECT_GT(workspace_bytes("residual|dense|raw|quantile", 100'000'000), 0u);
  ExpectError(
      FrameEncoder::Make(*Parse("residual|dense|sketchml"), DType::kFloat32, 30'000'000).status(),
      StatusCode::kInvalidArgument, "the workspace would have ");
}

TEST(FrameEncoder, NamesThePartWithoutADeviceVariant) {
  const std::pair<const char*, const char*> cases[] = {
      {"topk|huffman|raw", "index codec 'huffman'"},
      {"topk|raw|minmax", "value codec 'minmax'"},
      {"nonzero|skcompress:buckets=1025,groups=1", "joint codec 'skcompress'"},
  };
  for (const auto& [spec, message] : cases) {
    const auto encoder = FrameEncoder::Make(*Parse(spec), DType::kFloat32, 10);
    ExpectError(encoder.status(), StatusCode::kInvalidArgument, message);
  }
}

TEST(FrameEncoder, RefusesMissingAndSmallBuffers) {
  const Stream stream;
  const auto compressor = Parse("residual|topk:ratio=0.1|raw|raw");
  const auto made = FrameEncoder::Make(*compressor, DType::kFloat32, 100);
  ASSERT_TRUE(made.ok());
  const FrameEncoder& encoder = made.value();
  const DeviceVector<float> floats(100);
  const DeviceVector<unsigned char> memory(encoder.workspace_bytes());
  const DeviceVector<unsigned char> room(encoder.max_frame_bytes());
  const std::vector<DeviceSlot> slots = {{floats.data_dev(), floats.data_dev()}};
  const std::vector<DeviceSlot> two(2, slots[0]), empty(1);
  const DeviceBuffer workspace = memory.buffer(), frame = room.buffer();
  const auto expect_refused = [&](const void* gradient_dev, Span<const DeviceSlot> given_slots,
                                  const DeviceBuffer& given_workspace,
                                  const DeviceBuffer& given_frame, const std::string& message) {
    uint64_t num_bytes = 0;
    ExpectError(encoder.Encode({gradient_dev, given_slots, 1, given_frame}, given_workspace,
                               stream.get(), &num_bytes),
                StatusCode::kInvalidArgument, message);
  };
  const void* gradient_dev = floats.data_dev();
  expect_refused(nullptr, slots, workspace, frame, "the gradient is null");
  expect_refused(gradient_dev, {}, workspace, frame, "needs 1 slots, got 0");
  expect_refused(gradient_dev, two, workspace, frame, "needs 1 slots, got 2");
  expect_refused(gradient_dev, empty, workspace, frame, "a slot of the memory has a null vector");
  expect_refused(gradient_dev, slots, {}, frame, "workspace needs");
  expect_refused(gradient_dev, slots, {workspace.data_dev, workspace.num_bytes - 1}, frame,
                 "workspace needs");
  expect_refused(gradient_dev, slots, {memory.data_dev() + 4, workspace.num_bytes}, frame,
                 "aligned");
  expect_refused(gradient_dev, slots, workspace, {frame.data_dev, frame.num_bytes - 1}, "room for");
}

TEST(FrameEncoder, RefusesTensorsThatNoFrameHolds) {
  const auto encoder =
      FrameEncoder::Make(*Parse("dense|raw|raw"), DType::kFloat32, kMaxElements + 1);
  EXPECT_EQ(encoder.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
