// Adaptive deltas, and the index codec `delta_adaptive`, which consists of them alone.
#include "core/entropy/adaptive_delta.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

#include "bit_string.h"
#include "core/hash.h"

namespace tfcompress {
namespace {

constexpr uint32_t kMaxN = std::numeric_limits<uint32_t>::max();
constexpr DeltaPrefix kFixed8 = {2, false};
constexpr DeltaPrefix kHuffman8 = {2, true};

std::vector<uint32_t> KeysOf(const std::vector<uint32_t>& deltas) {
  std::vector<uint32_t> keys;
  for (const uint32_t delta : deltas) keys.push_back((keys.empty() ? 0 : keys.back()) + delta);
  return keys;
}

// Keys with deltas of every size, mostly small ones.
std::vector<uint32_t> RandomKeys(size_t count, uint32_t max_bits, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> deltas(count);
  for (uint32_t& delta : deltas) {
    delta = 1 + random.Below(uint32_t{1} << random.Below(1 + random.Below(max_bits)));
  }
  return KeysOf(deltas);
}

Bytes Encode(const std::vector<uint32_t>& keys) {
  Bytes out;
  EncodeAdaptiveDeltas(keys, SerialExecutor(), &out);
  EXPECT_LE(out.size(), MaxAdaptiveDeltaBytes(keys.size()));
  return out;
}

Status Decode(const Bytes& bytes, uint64_t k, uint32_t n, std::vector<uint32_t>* keys) {
  ByteReader reader(bytes);
  TFC_RETURN_IF_ERROR(DecodeAdaptiveDeltas(k, n, SerialExecutor(), &reader, keys));
  return reader.ExpectEnd("test");
}

void ExpectRoundTrip(const std::vector<uint32_t>& keys, uint32_t n) {
  std::vector<uint32_t> decoded;
  const Status status = Decode(Encode(keys), keys.size(), n, &decoded);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(decoded, keys);
}

DeltaBitCounts CountsOf(const std::vector<uint32_t>& keys) {
  return Sum(CountDeltaBits(keys, SerialExecutor()));
}

// Figure 9: with m = 8, eight deltas of 14 intervals are 56 bits, and fixed prefixes 24. The
// paper's other prefixes have 14 bits: 0, 10 and 110 for 1, 2 and 3 intervals, of which Huffman's
// algorithm drops the last bit.
TEST(AdaptiveDelta, Figure9) {
  const DeltaBitCounts counts = CountsOf(KeysOf({5, 9, 5, 15, 16, 255, 256, 4095}));
  EXPECT_EQ(CostOf(counts, kFixed8).payload, 56u);
  EXPECT_EQ(CostOf(counts, kFixed8).prefixes, 24u);
  EXPECT_EQ(CostOf(counts, kFixed8).lengths, 0u);
  EXPECT_EQ(CostOf(counts, kHuffman8).payload, 56u);
  EXPECT_EQ(CostOf(counts, kHuffman8).prefixes, 12u);
}

// SketchML's keys: delta_binary, section 5.1, is m = 4 with the fixed prefix.
TEST(AdaptiveDelta, Section5_1IsFourIntervals) {
  const DeltaBitCounts counts = CountsOf({702, 735, 1244, 2516, 3536, 3786, 4187, 4195});
  EXPECT_EQ(CostOf(counts, {1, false}).prefixes, 16u);
  EXPECT_EQ(CostOf(counts, {1, false}).payload, 8u * 13u);
}

TEST(AdaptiveDelta, IsTheBytesOfTheFormat) {
  EXPECT_EQ(Encode({5, 14, 19, 28, 128, 228, 628, 1028}),
            (Bytes{0x02, 0x28, 0x24, 0x0A, 0x49, 0x32, 0x92, 0x09, 0x32, 0x04, 0x19}));
}

// The chosen scheme is the cheapest, and its code has the predicted length.
TEST(AdaptiveDelta, ChoosesByExactCost) {
  for (uint32_t max_bits = 1; max_bits <= 18; ++max_bits) {
    for (const size_t count : {1u, 7u, 100u, 3000u}) {
      const std::vector<uint32_t> keys = RandomKeys(count, max_bits, max_bits);
      const DeltaBitCounts counts = CountsOf(keys);
      const uint64_t cost = CostOf(counts, ChooseDeltaPrefix(counts)).total();
      for (int log_intervals = 0; log_intervals < 4; ++log_intervals) {
        EXPECT_LE(cost, CostOf(counts, {log_intervals, false}).total());
        EXPECT_LE(cost, CostOf(counts, {log_intervals, true}).total());
      }
      EXPECT_EQ(Encode(keys).size(), 1 + BytesOfBits(cost));
    }
  }
}

std::string Binary(uint64_t number, int num_bits) {
  std::string text;
  for (int i = num_bits; i-- > 0;) text += number >> i & 1 ? '1' : '0';
  return text;
}

uint64_t ReadGamma(BitString* bits) {
  const auto num_low_bits = static_cast<int>(bits->Unary());
  return (uint64_t{1} << num_low_bits) + bits->Number(num_low_bits);
}

// Reads the words of a Huffman code of m symbols from the lengths at the front of `bytes`.
std::map<std::string, int> ReadWords(size_t m, ByteSpan bytes, size_t* num_bytes) {
  BitString bits(bytes);
  std::vector<int> lengths;
  int length = -1;
  while (lengths.size() < m) {
    const int sign = bits.Next() ? -1 : 1;
    length += sign * static_cast<int>(ReadGamma(&bits));
    lengths.insert(lengths.end(), ReadGamma(&bits), length);
  }
  *num_bytes = bits.num_bytes_taken();
  std::map<std::string, int> words;
  uint64_t word = 0;
  for (int num_bits = 1; num_bits <= 16; ++num_bits) {
    for (size_t symbol = 0; symbol < m; ++symbol) {
      if (lengths[symbol] == num_bits) words[Binary(word++, num_bits)] = static_cast<int>(symbol);
    }
    word *= 2;
  }
  return words;
}

// Codes of one block, read bit by bit as FORMAT.md says.
TEST(AdaptiveDelta, DecodesAsTheFormatSays) {
  size_t num_kinds[2] = {};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    // Few keys with equal deltas do not pay for Huffman words.
    const std::vector<uint32_t> keys = seed % 4 == 0
                                           ? KeysOf(std::vector<uint32_t>(3, 1u << seed / 8))
                                           : RandomKeys(200, 4 + seed % 12, seed);
    const Bytes bytes = Encode(keys);
    const int log_m = bytes[0] % 4 + 1;
    const bool is_huffman = bytes[0] >= 4;
    ++num_kinds[is_huffman];
    std::map<std::string, int> words;
    size_t begin = 1;
    if (is_huffman) {
      size_t num_bytes = 0;
      words =
          ReadWords(size_t{1} << log_m, ByteSpan(bytes).subspan(1, bytes.size() - 1), &num_bytes);
      begin += num_bytes;
    } else {
      for (int c = 0; c < 1 << log_m; ++c) words[Binary(static_cast<uint64_t>(c), log_m)] = c;
    }
    BitString bits(ByteSpan(bytes).subspan(begin, bytes.size() - begin));
    uint64_t key = 0;
    for (const uint32_t expected : keys) {
      std::string word;
      while (words.count(word) == 0) word += bits.Next() ? '1' : '0';
      key += bits.Number((words[word] + 1) * (32 >> log_m));
      ASSERT_EQ(key, expected);
    }
    EXPECT_EQ(begin + bits.num_bytes_taken(), bytes.size());
  }
  EXPECT_GT(num_kinds[0], 10u);
  EXPECT_GT(num_kinds[1], 10u);
}

TEST(AdaptiveDelta, RoundTripsTheExtremes) {
  ExpectRoundTrip({}, 0);
  ExpectRoundTrip({0}, 1);
  ExpectRoundTrip({kMaxN - 1}, kMaxN);
  ExpectRoundTrip({0, kMaxN - 1}, kMaxN);
  ExpectRoundTrip({0, 0xF, 0x10F, 0x110E, 0x2110D, 0x102110D, 0x4102110D}, kMaxN);
}

TEST(AdaptiveDelta, AppendsAndDelimitsItself) {
  const std::vector<uint32_t> first = RandomKeys(1000, 8, 2);
  const std::vector<uint32_t> second = RandomKeys(70000, 13, 3);
  Bytes bytes;
  EncodeAdaptiveDeltas(first, SerialExecutor(), &bytes);
  EncodeAdaptiveDeltas(second, SerialExecutor(), &bytes);
  ByteReader reader(bytes);
  std::vector<uint32_t> decoded;
  EXPECT_TRUE(DecodeAdaptiveDeltas(first.size(), kMaxN, SerialExecutor(), &reader, &decoded).ok());
  EXPECT_EQ(decoded, first);
  EXPECT_TRUE(DecodeAdaptiveDeltas(second.size(), kMaxN, SerialExecutor(), &reader, &decoded).ok());
  EXPECT_EQ(decoded, second);
  EXPECT_EQ(reader.remaining(), 0u);
}

void ExpectBadCode(const Bytes& bytes, uint64_t k, uint32_t n) {
  std::vector<uint32_t> keys;
  EXPECT_EQ(Decode(bytes, k, n, &keys).code(), StatusCode::kDataLoss);
}

TEST(AdaptiveDelta, RefusesForeignBytes) {
  const std::vector<uint32_t> keys = RandomKeys(500, 10, 4);
  const Bytes bytes = Encode(keys);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectBadCode(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)),
                  keys.size(), kMaxN);
  }
  ExpectBadCode(bytes, keys.size(), keys.back());                // A key out of range.
  ExpectBadCode(bytes, uint64_t{1} << 31, kMaxN);                // Far more keys than bits.
  ExpectBadCode({8, 0, 0, 0, 0, 0}, 1, kMaxN);                   // No such prefix.
  ExpectBadCode({0x02, 0x28, 0x00}, 2, kMaxN);                   // A second delta of 0.
  ExpectBadCode({0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0}, 1, 9);  // Out of range.
}

TEST(AdaptiveDelta, RefusesBlocksThatDoNotMeet) {
  std::vector<uint32_t> keys(static_cast<size_t>(kCodeBlock) + 1);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<uint32_t>(2 * i);
  const Bytes bytes = Encode(keys);
  std::vector<uint32_t> decoded;
  ASSERT_TRUE(Decode(bytes, keys.size(), kMaxN, &decoded).ok());
  // The section holds the last key of the first block; find its bytes.
  const uint32_t told = keys[static_cast<size_t>(kCodeBlock) - 1];
  size_t num_found = 0;
  for (size_t i = 0; i + 4 <= 32; ++i) {
    if (LoadUnaligned<uint32_t>(&bytes[i]) != told) continue;
    Bytes changed = bytes;
    StoreUnaligned(&changed[i], told - 1);
    ExpectBadCode(changed, keys.size(), kMaxN);
    ++num_found;
  }
  EXPECT_EQ(num_found, 1u);
}

}  // namespace
}  // namespace tfcompress
