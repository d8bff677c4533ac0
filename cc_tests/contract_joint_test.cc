// The contract of joint SparseCodecs on bytes without checksum, for every row and setting of the
// registry. Tests that they share with index x value codecs are in contract_compressor_test.cc.
#include <gtest/gtest.h>

#include "contract_inputs.h"
#include "core/hash.h"

namespace tfcompress {
namespace {

constexpr uint64_t kJointSeed = 42;

// SmallIndexCases, and one of many elements.
std::vector<IndexCase> JointCases() {
  std::vector<IndexCase> cases = SmallIndexCases();
  cases.push_back({"many", 3000, RandomSubset(3000, 0.4, 8)});
  return cases;
}

class JointContract : public testing::TestWithParam<Setting<SparseCodec>> {
 protected:
  const SparseCodec& codec() const { return *GetParam().codec; }
  const SparseCodec& decoder() const { return *DecoderById<SparseCodec>(GetParam().id); }

  Status Encode(const Support& support, Bytes* section, uint32_t* k,
                Executor* executor = SerialExecutor()) const {
    const std::vector<float> values = NormalValues(support.size(), support.n());
    TFC_ASSIGN_OR_RETURN(*k, codec().Encode(values, support, {kJointSeed, executor}, section));
    return OkStatus();
  }

  Status Decode(ByteSpan section, uint32_t n, bool everything, uint32_t k,
                SparseTensor* decoded) const {
    decoded->n = n;
    decoded->everything = everything;
    return decoder().Decode(section, k, {kJointSeed}, decoded);
  }

  // Decodes untrusted bytes and expects an error, or k finite values in range.
  void ExpectErrorOrSparse(const Bytes& section, uint32_t n, bool everything, uint32_t k) const {
    SparseTensor decoded;
    const Status status = Decode(section, n, everything, k, &decoded);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
      return;
    }
    EXPECT_EQ(decoded.values.size(), k);
    ExpectFinite(decoded.values);
    if (!decoded.everything) ExpectSubset(decoded.indices, n, k);
  }
};

TEST_P(JointContract, DecodesAsManyAsTheEncoderSaysWithinItsBound) {
  ThreadExecutor threads(3);
  for (const IndexCase& input : IndexCases()) {
    if (input.indices.empty()) continue;
    SCOPED_TRACE(input.name);
    Bytes section, parallel;
    uint32_t k = 0;
    SparseTensor decoded;
    const Support support(input.n, input.indices);
    ASSERT_TRUE(Encode(support, &section, &k).ok());
    ASSERT_TRUE(Encode(support, &parallel, &k, &threads).ok());
    EXPECT_EQ(parallel, section);
    EXPECT_LE(section.size(),
              codec().MaxEncodedBytes(input.n, static_cast<uint32_t>(input.indices.size())));
    EXPECT_TRUE(k == 0 || section.size() >= decoder().MinEncodedBytes(input.n, k));
    const Status status = Decode(section, input.n, false, k, &decoded);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectSubset(decoded.indices, input.n, k);
    EXPECT_EQ(decoded.values.size(), k);
    ExpectFinite(decoded.values);
  }
}

TEST_P(JointContract, AnyPrefixOrFlippedBitIsAnErrorOrInRange) {
  for (const IndexCase& input : JointCases()) {
    SCOPED_TRACE(input.name);
    const bool everything = input.indices.size() == input.n;
    const Support support =
        everything ? Support::Everything(input.n) : Support(input.n, input.indices);
    Bytes section;
    uint32_t k = 0;
    ASSERT_TRUE(Encode(support, &section, &k).ok());
    const auto expect_data_loss = [&](const Bytes& bytes) {
      SparseTensor decoded;
      const Status status = Decode(bytes, input.n, everything, k, &decoded);
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << bytes.size() << " bytes";
    };
    ForEachPrefix(section, expect_data_loss);
    Bytes longer = section;
    longer.push_back(0);
    expect_data_loss(longer);
    // That of many elements has too many bits: ChangedBytesAreAnErrorOrInRange changes some.
    if (section.size() < 1000) {
      ForEachBitFlip(section, [&](const Bytes& flipped, size_t bit) {
        SCOPED_TRACE(bit);
        ExpectErrorOrSparse(flipped, input.n, everything, k);
      });
    }
    for (uint32_t other_k : {1u, k - 1, k + 1, input.n}) {
      if (other_k > 0 && other_k <= input.n) ExpectErrorOrSparse(section, input.n, false, other_k);
    }
    for (uint32_t other_n : {k, k + 1, 8 * input.n}) {
      ExpectErrorOrSparse(section, other_n, everything && other_n == k, k);
    }
  }
}

TEST_P(JointContract, ChangedBytesAreAnErrorOrInRange) {
  Random random(7);
  for (const IndexCase& input : JointCases()) {
    SCOPED_TRACE(input.name);
    Bytes section;
    uint32_t k = 0;
    ASSERT_TRUE(Encode(Support(input.n, input.indices), &section, &k).ok());
    for (int i = 0; i < 400; ++i) {
      Bytes changed = section;
      for (uint32_t j = 1 + random.Below(4); j > 0; --j) {
        const auto place = random.Below(static_cast<uint32_t>(changed.size()));
        changed[place] = static_cast<unsigned char>(random.Below(4) == 0 ? 0xFF : random.Next32());
      }
      ExpectErrorOrSparse(changed, input.n, false, k);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, JointContract, testing::ValuesIn(AllSettings<SparseCodec>()),
                         [](const auto& info) { return TestName(info.param.part); });

}  // namespace
}  // namespace tfcompress
