// LinearCoder computes the core's payloads, and recovers the same elements.
#include "cuda/linear_coder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "contract_inputs.h"
#include "core/hash.h"
#include "device_encode.h"
#include "device_inputs.h"

namespace tfcompress {
namespace device {
namespace {

std::shared_ptr<const LinearCompressor> ParseLinear(const std::string& spec) {
  const auto compressor = LinearCompressor::FromSpec(spec);
  EXPECT_TRUE(compressor.ok()) << compressor.status().message();
  return compressor.value();
}

std::vector<float> EncodeOnHost(const LinearCompressor& compressor, const std::vector<float>& x,
                                uint64_t seed) {
  std::vector<float> payload(compressor.codec().PayloadSize(static_cast<int64_t>(x.size())));
  ExpectOk(compressor.codec().Encode(x, {seed}, Span<float>(payload)));
  return payload;
}

// A vector on the device in separate pieces of random sizes, some of them empty.
class Pieces {
 public:
  Pieces(const std::vector<float>& x, uint64_t num_pieces, uint64_t seed, const Stream& stream) {
    Random random(seed);
    auto begin = x.begin();
    for (uint64_t i = 1; i <= num_pieces; ++i) {
      const auto rest = static_cast<uint32_t>(x.end() - begin);
      const auto end = i == num_pieces ? x.end() : begin + random.Below(rest + 1);
      pieces_.push_back(
          std::make_unique<DeviceVector<float>>(std::vector<float>(begin, end), stream));
      parts_.push_back({pieces_.back()->data_dev(), pieces_.back()->size()});
      begin = end;
    }
  }

  const std::vector<DevicePart>& parts() const { return parts_; }

 private:
  std::vector<std::unique_ptr<DeviceVector<float>>> pieces_;
  std::vector<DevicePart> parts_;
};

std::vector<float> EncodeOnDevice(const LinearCompressor& compressor, const std::vector<float>& x,
                                  uint64_t seed, const Stream& stream) {
  const auto made = LinearCoder::Make(compressor, x.size());
  EXPECT_TRUE(made.ok()) << made.status().message();
  const LinearCoder& coder = made.value();
  const Pieces pieces(x, 1 + seed % 4, seed, stream);
  const DeviceVector<unsigned char> workspace(coder.encode_workspace_bytes());
  const DeviceVector<float> payload(coder.payload_size());
  ExpectOk(
      coder.Encode(pieces.parts(), seed, workspace.buffer(), payload.data_dev(), stream.get()));
  return payload.ToHost(stream);
}

struct Recovered {
  std::vector<uint32_t> indices;
  std::vector<float> values;
};

Recovered RecoverOnHost(const LinearCompressor& compressor, const std::vector<float>& summed,
                        size_t n, uint64_t seed) {
  Recovered recovered;
  ExpectOk(compressor.codec().Recover(summed, static_cast<int64_t>(n), {seed}, &recovered.indices,
                                      &recovered.values));
  return recovered;
}

Recovered RecoverOnDevice(const LinearCompressor& compressor, const std::vector<float>& summed,
                          size_t n, uint64_t seed, const Stream& stream) {
  const auto made = LinearCoder::Make(compressor, n);
  EXPECT_TRUE(made.ok()) << made.status().message();
  const LinearCoder& coder = made.value();
  const DeviceVector<float> summed_dev(summed, stream);
  const DeviceVector<unsigned char> workspace(coder.recover_workspace_bytes());
  const DeviceVector<uint32_t> indices(coder.num_candidates());
  const DeviceVector<float> values(coder.num_candidates());
  ExpectOk(coder.Recover(summed_dev.data_dev(), seed, workspace.buffer(), indices.data_dev(),
                         values.data_dev(), stream.get()));
  return {indices.ToHost(stream), values.ToHost(stream)};
}

void ExpectSamePayload(const LinearCompressor& compressor, const std::vector<float>& x,
                       uint64_t seed, const Stream& stream) {
  ASSERT_TRUE(
      SameBits(EncodeOnDevice(compressor, x, seed, stream), EncodeOnHost(compressor, x, seed)))
      << compressor.spec() << ", " << x.size() << " elements, seed " << seed;
}

void ExpectSameRecovered(const LinearCompressor& compressor, const std::vector<float>& summed,
                         size_t n, uint64_t seed, const Stream& stream) {
  SCOPED_TRACE(testing::Message() << compressor.spec() << ", " << n << " elements, seed " << seed);
  const Recovered expected = RecoverOnHost(compressor, summed, n, seed);
  const Recovered actual = RecoverOnDevice(compressor, summed, n, seed, stream);
  ASSERT_EQ(actual.indices, expected.indices);
  ASSERT_TRUE(SameBits(actual.values, expected.values));
}

class EveryLinearSpec : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Device, EveryLinearSpec,
                         testing::Values("count_sketch:rows=1,columns=1,k=2,candidates=3",
                                         "count_sketch:rows=3,columns=64,k=20,candidates=4",
                                         "count_sketch:rows=5,columns=1000,k=7,candidates=1",
                                         "count_sketch:rows=7,columns=33,k=100,candidates=36",
                                         "count_sketch:rows=11,columns=50,k=1,candidates=1",
                                         "count_sketch:rows=13,columns=50,k=40,candidates=2",
                                         "count_sketch:rows=31,columns=20,k=30,candidates=2",
                                         "shared_randomk:ratio=0.1", "shared_randomk:ratio=1"),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(EveryLinearSpec, MakesTheSamePayloadsAndRecoversTheSame) {
  const Stream stream;
  const auto compressor = ParseLinear(GetParam());
  uint64_t seed = 1;
  for (size_t n : {0, 1, 31, 33, 256, 1023, 1025, 5000}) {
    for (const Input& input : Inputs()) {
      if (n > 1000 && seed++ % 3 != 0) continue;
      SCOPED_TRACE(input.name);
      const std::vector<float> x = input.make(n, ++seed);
      ASSERT_NO_FATAL_FAILURE(ExpectSamePayload(*compressor, x, seed, stream));
      const std::vector<float> summed = EncodeOnHost(*compressor, x, seed);
      ASSERT_NO_FATAL_FAILURE(ExpectSameRecovered(*compressor, summed, n, seed, stream));
    }
  }
}

TEST_P(EveryLinearSpec, RecoversTheSameOfAnySum) {
  const Stream stream;
  const auto compressor = ParseLinear(GetParam());
  for (size_t n : {1, 33, 3000}) {
    const auto size = static_cast<size_t>(compressor->codec().PayloadSize(static_cast<int64_t>(n)));
    for (const Input& input : Inputs()) {
      SCOPED_TRACE(input.name);
      ASSERT_NO_FATAL_FAILURE(
          ExpectSameRecovered(*compressor, input.make(size, n), n, n + 5, stream));
    }
  }
}

TEST_P(EveryLinearSpec, MakesNonFiniteVectorsNaN) {
  const Stream stream;
  const auto compressor = ParseLinear(GetParam());
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY}) {
    std::vector<float> x = Gradient(1500, 3);
    x[1234] = bad;
    ASSERT_NO_FATAL_FAILURE(ExpectSamePayload(*compressor, x, 2, stream));
    std::vector<float> summed = EncodeOnHost(*compressor, Gradient(1500, 3), 2);
    summed.back() = bad;
    ASSERT_NO_FATAL_FAILURE(ExpectSameRecovered(*compressor, summed, 1500, 2, stream));
  }
}

TEST(LinearCoder, EncodesWhatItCannotRecover) {
  const Stream stream;
  const auto compressor = ParseLinear("count_sketch:rows=3,columns=64,k=20,recovery=heavymix");
  ASSERT_NO_FATAL_FAILURE(ExpectSamePayload(*compressor, Gradient(1500, 3), 2, stream));
}

TEST(LinearCoder, CodesLargerVectors) {
  const Stream stream;
  for (const char* spec :
       {"count_sketch:rows=5,columns=9000,k=500,candidates=3",
        "count_sketch:rows=3,columns=400000,k=10,candidates=4", "shared_randomk:ratio=0.01"}) {
    const auto compressor = ParseLinear(spec);
    const std::vector<float> x = Gradient(65537, 1);
    ASSERT_NO_FATAL_FAILURE(ExpectSamePayload(*compressor, x, 3, stream));
    ASSERT_NO_FATAL_FAILURE(
        ExpectSameRecovered(*compressor, EncodeOnHost(*compressor, x, 3), x.size(), 3, stream));
  }
}

// The largest float as a sum, a sum above it, and differences that are subnormal.
TEST(LinearCoder, RoundsSumsAtTheEndsOfTheRange) {
  const Stream stream;
  const auto compressor = ParseLinear("count_sketch:rows=3,columns=2,k=1");
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::min();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const std::vector<float>& x :
         {std::vector<float>{most}, std::vector<float>{most, most, -most},
          std::vector<float>{least, -1.5f * least, 1.25f * least, least / 2},
          std::vector<float>{most, least, 1.0f, -1e-20f, 1e30f}}) {
      ASSERT_NO_FATAL_FAILURE(ExpectSamePayload(*compressor, x, seed, stream));
    }
  }
}

TEST(LinearCoder, NamesWhatHasNoDeviceVariant) {
  const auto coder = LinearCoder::Make(*ParseLinear("momentum|count_sketch:recovery=heavymix"), 10);
  ASSERT_TRUE(coder.ok()) << coder.status().message();
  for (const Status& status : {coder.value().CheckRecovers(),
                               coder.value().Recover(nullptr, 1, {}, nullptr, nullptr, nullptr)}) {
    ExpectError(status, StatusCode::kInvalidArgument, "'heavymix'");
  }
  EXPECT_TRUE(LinearCoder::Make(*ParseLinear("count_sketch"), 10).value().CheckRecovers().ok());
  EXPECT_FALSE(LinearCoder::Make(*ParseLinear("shared_randomk"), kMaxElements + 1).ok());
}

TEST(LinearCoder, RefusesOtherSizesAndSmallBuffers) {
  const Stream stream;
  const auto made = LinearCoder::Make(*ParseLinear("count_sketch:columns=10,k=2"), 100);
  ASSERT_TRUE(made.ok());
  const LinearCoder& coder = made.value();
  const DeviceVector<float> floats(100);
  const DeviceVector<uint32_t> indices(100);
  const size_t to_encode = coder.encode_workspace_bytes();
  const size_t to_recover = coder.recover_workspace_bytes();
  const DeviceVector<unsigned char> memory(std::max(to_encode, to_recover));
  const DeviceBuffer workspace = memory.buffer();
  const auto encode = [&](const DevicePart& part, const DeviceBuffer& given, float* payload_dev) {
    const std::vector<DevicePart> parts = {part};
    return coder.Encode(parts, 1, given, payload_dev, stream.get()).message();
  };
  const auto recover = [&](const float* summed_dev, const DeviceBuffer& given) {
    return coder.Recover(summed_dev, 1, given, indices.data_dev(), floats.data_dev(), stream.get())
        .message();
  };
  const auto names = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  float* floats_dev = floats.data_dev();
  names(encode({floats_dev, 99}, workspace, floats_dev),
        "expected a vector of 100 elements, got 99");
  names(encode({nullptr, 100}, workspace, floats_dev), "the data of a part is null");
  names(encode({floats_dev, 100}, {memory.data_dev(), to_encode - 1}, floats_dev),
        "workspace needs");
  names(encode({floats_dev, 100}, workspace, nullptr), "the payload is null");
  names(recover(floats_dev, {memory.data_dev(), to_recover - 1}), "workspace needs");
  names(recover(nullptr, workspace), "the sum or an output is null");
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
