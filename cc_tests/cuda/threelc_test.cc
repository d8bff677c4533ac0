// Runs of zeros of threelc over the boundaries of lanes, tiles and blocks, and sections that end in
// the middle of a byte.
#include <gtest/gtest.h>

#include "core/joint/quartic.h"
#include "device_encode.h"
#include "device_sums.h"
#include "fuzz/frame_fields.h"

namespace tfcompress {
namespace device {
namespace {

// A vector whose quartic bytes, except the given ones, are five zeros.
std::vector<float> ZerosBut(size_t num_quartic_bytes, const std::vector<size_t>& bytes) {
  std::vector<float> values(num_quartic_bytes * kQuarticDigits - 2);  // The last byte is not full.
  for (size_t byte : bytes) values[byte * kQuarticDigits] = byte % 2 == 0 ? 1.5f : -1.5f;
  return values;
}

TEST(Threelc, CodesRunsOfZerosAsTheCoreDoes) {
  const Stream stream;
  constexpr size_t kBlock = kQuarticBlock;
  const std::vector<std::vector<size_t>> cases = {
      {0},
      {kBlock - 1, kBlock},
      {kBlock - 15, kBlock + 14},
      {31, 32, 63, 1023, 1024, 1024 + 14, 1024 + 14 + 15},
      {40 * 1024 + 5, 40 * 1024 + 33, kBlock + 7},
      {2 * kBlock - 1, 2 * kBlock + 16},
  };
  const char* const specs[] = {"residual|dense|threelc", "residual|nonzero|threelc"};
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto compressor = Parse(specs[i % 2]);
    SCOPED_TRACE(testing::Message() << specs[i % 2] << ", case " << i);
    const HostGradient gradient(ZerosBut(2 * kBlock + 17, cases[i]), DType::kFloat32);
    const Slots slots = {std::vector<float>(gradient.n, 0.0f)};
    const Encoded expected = EncodeOnHost(*compressor, gradient, slots, 1);
    const Encoded actual = EncodeOnDevice(*compressor, gradient, slots, {}, stream);
    ExpectOk(actual.status);
    ASSERT_TRUE(actual.frame == expected.frame);
    ASSERT_TRUE(SameBits(actual.slots, expected.slots));
    ExpectSameSums(expected.frame, 1, 0.5f, {{DType::kFloat32, gradient.n}}, stream);
  }
}

// Digits, scales and lengths that no encoder writes; the last byte has two digits of the vector.
TEST(Threelc, RefusesWhatTheCoreRefuses) {
  const Stream stream;
  const std::vector<TensorSpec> tensor = {{DType::kFloat32, 7}};
  const std::vector<float> values = {1, -1, 1, 1, 1, -1, 1};
  const Bytes frame = EncodeOnHost(*Parse("dense|threelc"), {values, DType::kFloat32}, {}, 1).frame;
  const auto expect_refused = [&](size_t position, unsigned char byte) {
    Bytes changed = frame;
    changed[kFrameHeaderBytes + position] = byte;
    RepairChecksum(&changed);
    EXPECT_EQ(SumOnHost(changed, 1, 1, tensor).status.code(), StatusCode::kDataLoss) << position;
    EXPECT_EQ(SumOnDevice(changed, 1, 1, tensor, stream).status.code(), StatusCode::kDataLoss)
        << position << ": " << int{byte};
  };
  ASSERT_EQ(frame.size(), kFrameHeaderBytes + 6);
  ExpectSameSums(frame, 1, 1, tensor, stream);
  const unsigned char last = frame.back();
  expect_refused(5, static_cast<unsigned char>(last + QuarticPower(2)));  // Past the end.
  expect_refused(5, static_cast<unsigned char>(last - QuarticPower(1)));  // One digit less.
  expect_refused(5, static_cast<unsigned char>(last - QuarticPower(1) + QuarticPower(2)));  // Both.
  expect_refused(4, kFiveZeros);
  expect_refused(4, kRunOfTwo);
  expect_refused(3, 0x7F);  // With the 0x80 below it, infinity.
  expect_refused(3, 0xBF);  // Negative.
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
