// The entropy coder of `rowcol`, `ecsq` and `lossless`, and its models.
#include "core/entropy/rans.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/entropy/adaptive_model.h"
#include "core/hash.h"

namespace tfcompress {
namespace {

// What one test puts and gets: a symbol of each kind.
struct Symbols {
  int nibble;
  int bit;
  uint32_t bits;
  int num_bits;
  uint32_t number;
};

std::vector<Symbols> RandomSymbols(int count) {
  std::vector<Symbols> all;
  for (int i = 0; i < count; ++i) {
    const uint64_t hash = HashKey(i, /*seed=*/7);
    const int num_bits = static_cast<int>(hash % 33);
    const auto low = static_cast<uint32_t>(hash >> 16);
    all.push_back({static_cast<int>(hash >> 8 & 15 & hash >> 12), static_cast<int>(hash >> 60 == 0),
                   num_bits == 32 ? low : low & ((1u << num_bits) - 1), num_bits,
                   low >> (hash >> 56 & 31)});
  }
  return all;
}

NibbleModel GeometricModel() { return NibbleModel::Geometric(/*ratio=*/200, /*weight=*/16); }

Bytes EncodeSymbols(const std::vector<Symbols>& all, int num_lanes) {
  Bytes bytes;
  RansEncoder coder(&bytes);
  NibbleModel nibbles = GeometricModel();
  BitModel bits;
  for (const Symbols& s : all) {
    coder.Put(s.nibble, &nibbles);
    coder.Put(s.bit, &bits);
    coder.PutBits(s.bits, s.num_bits);
    coder.PutNumber(s.number);
  }
  coder.Finish(num_lanes);
  return bytes;
}

class RansTest : public testing::TestWithParam<int> {
 protected:
  static int num_lanes() { return GetParam(); }
  // Whether `bytes` end after `count` of the symbols.
  static bool EndsWell(const Bytes& bytes, const std::vector<Symbols>& all, size_t count) {
    RansDecoder coder(num_lanes(), ByteSpan(bytes));
    NibbleModel nibbles = GeometricModel();
    BitModel bits;
    for (size_t i = 0; i < count; ++i) {
      coder.Get(&nibbles);
      coder.Get(&bits);
      coder.GetBits(all[i].num_bits);
      coder.GetNumber();
    }
    return coder.ExpectEnd("test").ok();
  }
};

TEST_P(RansTest, DecodesWhatWasPut) {
  for (const int count : {0, 1, 2, 1000}) {
    const std::vector<Symbols> all = RandomSymbols(count);
    const Bytes bytes = EncodeSymbols(all, num_lanes());
    RansDecoder coder(num_lanes(), ByteSpan(bytes));
    NibbleModel nibbles = GeometricModel();
    BitModel bits;
    for (const Symbols& s : all) {
      ASSERT_EQ(coder.Get(&nibbles), s.nibble);
      ASSERT_EQ(coder.Get(&bits), s.bit);
      ASSERT_EQ(coder.GetBits(s.num_bits), s.bits);
      ASSERT_EQ(coder.GetNumber(), s.number);
    }
    EXPECT_TRUE(coder.ExpectEnd("test").ok());
  }
}

TEST_P(RansTest, LargestNumberRoundTrips) {
  Bytes bytes;
  RansEncoder encoder(&bytes);
  encoder.PutNumber(0xFFFFFFFFu);
  encoder.Finish(num_lanes());
  RansDecoder decoder(num_lanes(), ByteSpan(bytes));
  EXPECT_EQ(decoder.GetNumber(), 0xFFFFFFFFu);
}

// Symbols of almost no information: a lane's state stays where it is while others take words.
TEST_P(RansTest, LanesOfDifferentInformation) {
  constexpr int kCount = 1000;
  Bytes bytes;
  RansEncoder encoder(&bytes);
  NibbleModel model;
  for (int i = 0; i < 64 * 40; ++i) model.Learn(0);
  NibbleModel certain = model;
  for (uint32_t i = 0; i < kCount; ++i) {
    i % 4 == 1 ? encoder.PutBits(i, 12) : encoder.Put(0, &certain);
  }
  encoder.Finish(num_lanes());
  RansDecoder decoder(num_lanes(), ByteSpan(bytes));
  certain = model;
  for (uint32_t i = 0; i < kCount; ++i) {
    if (i % 4 == 1) {
      ASSERT_EQ(decoder.GetBits(12), i);
    } else {
      ASSERT_EQ(decoder.Get(&certain), 0);
    }
  }
  EXPECT_TRUE(decoder.ExpectEnd("test").ok());
}

TEST_P(RansTest, OtherLengthsAndEndsAreRefused) {
  const std::vector<Symbols> all = RandomSymbols(100);
  const Bytes bytes = EncodeSymbols(all, num_lanes());
  EXPECT_TRUE(EndsWell(bytes, all, all.size()));
  EXPECT_FALSE(EndsWell(bytes, all, all.size() - 1));
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_FALSE(EndsWell(longer, all, all.size()));
  Bytes shorter = bytes;
  shorter.resize(bytes.size() - 2);
  EXPECT_FALSE(EndsWell(shorter, all, all.size()));
  EXPECT_FALSE(EndsWell(Bytes(), all, 0));
}

TEST_P(RansTest, AppendsToWhatIsThere) {
  const std::vector<Symbols> all = RandomSymbols(100);
  Bytes bytes = {1, 2, 3};
  RansEncoder coder(&bytes);
  for (const Symbols& s : all) coder.PutBits(s.bits, s.num_bits);
  coder.Finish(num_lanes());
  EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 3), (Bytes{1, 2, 3}));
  RansDecoder decoder(num_lanes(), ByteSpan(bytes.data() + 3, bytes.size() - 3));
  for (const Symbols& s : all) ASSERT_EQ(decoder.GetBits(s.num_bits), s.bits);
  EXPECT_TRUE(decoder.ExpectEnd("test").ok());
}

INSTANTIATE_TEST_SUITE_P(Lanes, RansTest, testing::Values(1, kMaxRansLanes));

TEST(AdaptiveModelTest, RangesCoverTheScaleAndNoneIsEmpty) {
  NibbleModel model;
  for (int i = 0; i < 5000; ++i) {
    const int learned = i < 2500 ? 3 : 15;
    model.Learn(learned);
    uint32_t next = 0;
    for (int symbol = 0; symbol < NibbleModel::kSymbols; ++symbol) {
      const SymbolRange range = model.Range(symbol);
      ASSERT_EQ(range.start, next);
      ASSERT_GT(range.frequency, 0u);
      ASSERT_EQ(model.Find(range.start), symbol);
      ASSERT_EQ(model.Find(range.start + range.frequency - 1), symbol);
      next = range.start + range.frequency;
    }
    ASSERT_EQ(next, kProbabilityScale);
  }
  EXPECT_GT(model.Range(15).frequency, kProbabilityScale * 9 / 10);
}

// A tenth of symbols are 1 to 15: bytes are within 3 % of the entropy.
TEST(AdaptiveModelTest, BytesAreNearTheEntropy) {
  constexpr int kCount = 20000;
  Bytes bytes;
  RansEncoder coder(&bytes);
  NibbleModel model;
  std::vector<int> counts(NibbleModel::kSymbols);
  for (int i = 0; i < kCount; ++i) {
    const uint64_t hash = HashKey(i, /*seed=*/3);
    const int symbol = hash % 10 == 0 ? 1 + static_cast<int>(hash / 10 % 15) : 0;
    ++counts[symbol];
    coder.Put(symbol, &model);
  }
  double bits = 0;
  for (const int count : counts) bits += count * std::log2(double{kCount} / count);
  coder.Finish(kMaxRansLanes);
  EXPECT_LT(8.0 * bytes.size(), 1.03 * bits);
}

}  // namespace
}  // namespace tfcompress
