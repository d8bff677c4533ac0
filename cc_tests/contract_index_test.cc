// The contract of IndexCodec, for every row and setting of the registry.
#include <gtest/gtest.h>

#include "contract_inputs.h"
#include "core/hash.h"

namespace tfcompress {
namespace {

using IndexSetting = Setting<IndexCodec>;

constexpr uint64_t kIndexSeed = 42;

struct Encoded {
  Bytes section;
  std::vector<uint32_t> decoded;  // The indices that Decode will yield, according to Encode.
  bool sends_encoded = false;
};

class IndexContract : public testing::TestWithParam<IndexSetting> {
 protected:
  const IndexCodec& codec() const { return *GetParam().codec; }
  // Decoders are found by id and have default parameters: everything must be in the section.
  const IndexCodec& decoder() const { return *DecoderById<IndexCodec>(GetParam().id); }

  static CodecContext ContextOf(const IndexCase& input, Executor* executor = SerialExecutor()) {
    return {kIndexSeed, executor, Grid{input.width, 0}};
  }

  Encoded Encode(const IndexCase& input, Executor* executor = SerialExecutor()) const {
    Encoded encoded;
    const auto decoded =
        codec().Encode(input.indices, input.n, ContextOf(input, executor), &encoded.section);
    EXPECT_TRUE(decoded.ok()) << decoded.status().message();
    if (!decoded.ok()) return encoded;
    EXPECT_EQ(decoded.value().changed.has_value(), !IsExact(codec()));
    encoded.decoded = decoded.value().changed.value_or(input.indices);
    encoded.sends_encoded = decoded.value().sends_encoded();
    return encoded;
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, std::vector<uint32_t>* indices,
                Executor* executor = SerialExecutor()) const {
    return decoder().Decode(section, n, k, {kIndexSeed, executor}, indices);
  }

  // Decodes untrusted bytes and expects an error, or k indices in range.
  void ExpectErrorOrSubset(const Bytes& section, uint32_t n, uint32_t k) const {
    std::vector<uint32_t> indices;
    const Status status = Decode(section, n, k, &indices);
    if (status.ok()) {
      ExpectSubset(indices, n, k);
    } else {
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
    }
  }
};

TEST_P(IndexContract, DecodesWhatWasEncodedWithinItsBound) {
  for (const IndexCase& input : IndexCases()) {
    SCOPED_TRACE(input.name);
    const Encoded encoded = Encode(input);
    const auto k = static_cast<uint32_t>(encoded.decoded.size());
    ExpectSubset(encoded.decoded, input.n, k);
    std::vector<uint32_t> decoded = {1, 2, 3};  // Overwritten.
    const Status status = Decode(encoded.section, input.n, k, &decoded);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(decoded, encoded.decoded);
    const auto num_given = static_cast<uint32_t>(input.indices.size());
    EXPECT_LE(encoded.section.size(), codec().MaxEncodedBytes(input.n, num_given));
    EXPECT_TRUE(k == 0 || encoded.section.size() >= decoder().MinEncodedBytes(input.n, k));
    if (encoded.sends_encoded) {
      EXPECT_EQ(k, num_given);
    }
  }
}

TEST_P(IndexContract, AppendsToWhatIsThere) {
  for (const IndexCase& input : SmallIndexCases()) {
    Bytes expected = Encode(input).section;
    const Bytes prefix = {1, 2, 3};
    Bytes out = prefix;
    std::vector<uint32_t> decoded;
    ASSERT_TRUE(codec().Encode(input.indices, input.n, ContextOf(input), &out).ok());
    expected.insert(expected.begin(), prefix.begin(), prefix.end());
    EXPECT_EQ(out, expected) << input.name;
    // From here on the section lies unaligned.
    const ByteSpan section(out.data() + 3, out.size() - 3);
    const Encoded encoded = Encode(input);
    ASSERT_TRUE(
        Decode(section, input.n, static_cast<uint32_t>(encoded.decoded.size()), &decoded).ok());
    EXPECT_EQ(decoded, encoded.decoded) << input.name;
  }
}

TEST_P(IndexContract, DoesNotDependOnTheExecutor) {
  ThreadExecutor threads(3);
  for (const IndexCase& input : IndexCases()) {
    SCOPED_TRACE(input.name);
    const Encoded serial = Encode(input);
    const Encoded parallel = Encode(input, &threads);
    EXPECT_EQ(parallel.section, serial.section);
    EXPECT_EQ(parallel.decoded, serial.decoded);
    std::vector<uint32_t> decoded;
    const auto k = static_cast<uint32_t>(serial.decoded.size());
    ASSERT_TRUE(Decode(serial.section, input.n, k, &decoded, &threads).ok());
    EXPECT_EQ(decoded, serial.decoded);
  }
}

TEST_P(IndexContract, AnyPrefixOrExtensionIsDataLoss) {
  for (const IndexCase& input : SmallIndexCases()) {
    SCOPED_TRACE(input.name);
    const Encoded encoded = Encode(input);
    const auto k = static_cast<uint32_t>(encoded.decoded.size());
    std::vector<uint32_t> decoded;
    const auto expect_data_loss = [&](const Bytes& bytes) {
      const Status status = Decode(bytes, input.n, k, &decoded);
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << bytes.size() << " bytes";
    };
    if (encoded.section.size() < 2000) ForEachPrefix(encoded.section, expect_data_loss);
    Bytes longer = encoded.section;
    longer.push_back(0);
    expect_data_loss(longer);
  }
}

TEST_P(IndexContract, AnyFlippedBitIsAnErrorOrASubset) {
  for (const IndexCase& input : SmallIndexCases()) {
    SCOPED_TRACE(input.name);
    const Encoded encoded = Encode(input);
    if (encoded.section.size() > 300) continue;
    if (input.n > 1000 && !IsExact(codec())) continue;  // Too slow: each flip queries all n.
    const auto k = static_cast<uint32_t>(encoded.decoded.size());
    ForEachBitFlip(encoded.section, [&](const Bytes& flipped, size_t bit) {
      SCOPED_TRACE(bit);
      ExpectErrorOrSubset(flipped, input.n, k);
    });
  }
}

TEST_P(IndexContract, AWrongSizeIsAnErrorOrASubset) {
  for (const IndexCase& input : SmallIndexCases()) {
    SCOPED_TRACE(input.name);
    if (input.n > 1000 && !IsExact(codec())) continue;
    const Encoded encoded = Encode(input);
    const auto k = static_cast<uint32_t>(encoded.decoded.size());
    for (uint32_t other_k : {0u, k - 1, k + 1, 2 * k, input.n}) {
      if (other_k <= input.n) ExpectErrorOrSubset(encoded.section, input.n, other_k);
    }
    for (uint32_t other_n : {k, input.n - 1, input.n + 1, 8 * input.n}) {
      if (other_n >= k) ExpectErrorOrSubset(encoded.section, other_n, k);
    }
  }
}

TEST_P(IndexContract, NoiseIsAnErrorOrASubset) {
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    Bytes noise(random.Below(64));
    for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random.Next32());
    // A small first byte passes as an enumerator, so that decoding gets further.
    if (!noise.empty() && i % 2 == 0) noise[0] %= 8;
    const uint32_t n = 1 + random.Below(400);
    ExpectErrorOrSubset(noise, n, random.Below(n + 1));
  }
}

TEST_P(IndexContract, ALargeUniverseNeedsNoLargeSection) {
  // Only for codecs whose encoder and decoder do not visit the whole universe.
  const IndexCase input = {"ends", kMaxElements, {0, 1, 0x40000000, kMaxElements - 1}};
  if (!IsExact(codec()) || codec().MaxEncodedBytes(input.n, 4) > 1000)
    GTEST_SKIP()
        << "the codec visits the whole universe, or its section has a bit for each element";
  const Encoded encoded = Encode(input);
  std::vector<uint32_t> decoded;
  ASSERT_TRUE(Decode(encoded.section, input.n, 4, &decoded).ok());
  EXPECT_EQ(decoded, input.indices);
}

INSTANTIATE_TEST_SUITE_P(Registry, IndexContract, testing::ValuesIn(AllSettings<IndexCodec>()),
                         [](const auto& info) { return TestName(info.param.part); });

}  // namespace
}  // namespace tfcompress
