// Huffman codes, and the index codec `huffman` that uses one.
#include "core/entropy/huffman.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <queue>
#include <string>

#include "bit_string.h"
#include "core/hash.h"
#include "make_part.h"

namespace tfcompress {
namespace {

HuffmanCode CodeOf(const std::vector<uint64_t>& counts) { return HuffmanCode::FromCounts(counts); }

std::string WordText(const HuffmanCode& code, size_t symbol) {
  const HuffmanCode::Word word = code.words()[symbol];
  std::string text;
  for (int i = 0; i < word.length; ++i) text += word.bits >> i & 1 ? '1' : '0';
  return text;
}

Bytes Encode(const HuffmanCode& code, const std::vector<uint32_t>& symbols) {
  std::vector<uint64_t> counts(code.lengths().size());
  for (const uint32_t symbol : symbols) ++counts[symbol];
  Bytes bytes(BytesOfBits(code.NumBits(counts)));
  BitWriter writer(bytes.data(), bytes.data() + bytes.size());
  code.Encode(Span<const uint32_t>(symbols), &writer);
  return bytes;
}

// DeepReduce, section 2: "aaaabaacaabaa" gives a, b, c the words 0, 10, 11.
TEST(HuffmanCode, DeepReduceSection2) {
  const std::string text = "aaaabaacaabaa";
  std::vector<uint32_t> symbols;
  std::vector<uint64_t> counts(3);
  for (const char c : text) {
    symbols.push_back(static_cast<uint32_t>(c - 'a'));
    ++counts[symbols.back()];
  }
  const HuffmanCode code = CodeOf(counts);
  EXPECT_EQ(WordText(code, 0), "0");
  EXPECT_EQ(WordText(code, 1), "10");
  EXPECT_EQ(WordText(code, 2), "11");
  EXPECT_EQ(code.NumBits(counts), 16u);
  const Bytes bytes = Encode(code, symbols);
  EXPECT_EQ(BitString(bytes).Text(16), "0000100011001000");
}

// SKCompress, figure 7: items 0 to 3 of a sketch have the frequencies 6, 3, 2 and 1.
TEST(HuffmanCode, SkcompressFigure7) {
  const std::vector<uint64_t> counts = {6, 3, 2, 1};
  const HuffmanCode code = CodeOf(counts);
  EXPECT_EQ(WordText(code, 0), "0");
  EXPECT_EQ(WordText(code, 1), "10");
  EXPECT_EQ(WordText(code, 2), "110");
  EXPECT_EQ(WordText(code, 3), "111");
  EXPECT_EQ(code.NumBits(counts), 21u);
}

TEST(HuffmanCode, LengthsAreTheBytesOfTheFormat) {
  Bytes bytes;
  CodeOf({10, 2, 1}).WriteLengths(&bytes);
  EXPECT_EQ(bytes, (Bytes{0x54, 0x01}));
}

// Bits of the optimal code without a length limit, by the textbook's algorithm.
uint64_t TextbookBits(const std::vector<uint64_t>& counts) {
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> rarest;
  for (const uint64_t count : counts) {
    if (count > 0) rarest.push(count);
  }
  if (rarest.size() == 1) return rarest.top();
  uint64_t num_bits = 0;
  while (rarest.size() > 1) {
    const uint64_t first = rarest.top();
    rarest.pop();
    const uint64_t sum = first + rarest.top();
    rarest.pop();
    rarest.push(sum);
    num_bits += sum;
  }
  return num_bits;
}

std::vector<uint64_t> RandomCounts(size_t num_symbols, uint64_t seed) {
  Random random(seed);
  std::vector<uint64_t> counts(num_symbols);
  for (uint64_t& count : counts) count = random.Below(3) == 0 ? 0 : random.Below(1000) + 100;
  counts[random.Below(static_cast<uint32_t>(num_symbols))] = 5000;
  return counts;
}

TEST(HuffmanCode, IsOptimal) {
  for (const size_t num_symbols : {1u, 2u, 3u, 5u, 16u, 100u, 256u, 300u}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const std::vector<uint64_t> counts = RandomCounts(num_symbols, seed);
      EXPECT_EQ(CodeOf(counts).NumBits(counts), TextbookBits(counts)) << num_symbols;
    }
  }
}

// Fibonacci numbers make the deepest tree: the limit binds, and the code stays complete.
TEST(HuffmanCode, KeepsItsLimit) {
  std::vector<uint64_t> counts = {1, 1};
  while (counts.size() < 40) counts.push_back(counts.back() + *(counts.end() - 2));
  const HuffmanCode code = CodeOf(counts);
  EXPECT_EQ(code.max_length(), HuffmanLimit(counts.size()));
  EXPECT_GE(code.NumBits(counts), TextbookBits(counts));
  EXPECT_LE(static_cast<double>(code.NumBits(counts)),
            1.01 * static_cast<double>(TextbookBits(counts)));
  EXPECT_TRUE(HuffmanCode::FromLengths(code.lengths()).ok());
}

TEST(HuffmanCode, RoundTripsEveryAlphabet) {
  for (const uint32_t num_symbols : {1u, 2u, 3u, 16u, 255u, 256u, 1025u, 5000u, 65536u}) {
    SCOPED_TRACE(num_symbols);
    const std::vector<uint64_t> counts = RandomCounts(num_symbols, num_symbols);
    const HuffmanCode code = CodeOf(counts);
    EXPECT_LE(code.max_length(), HuffmanLimit(num_symbols));
    std::vector<uint32_t> symbols;
    for (uint32_t symbol = 0; symbol < num_symbols; ++symbol) {
      for (uint64_t i = 0; i < counts[symbol] % 7 + (counts[symbol] > 0); ++i)
        symbols.push_back(symbol);
    }
    Random random(1);
    for (size_t i = symbols.size(); i-- > 1;) {
      std::swap(symbols[i], symbols[random.Below(static_cast<uint32_t>(i + 1))]);
    }
    Bytes bytes;
    code.WriteLengths(&bytes);
    EXPECT_EQ(bytes.size(), BytesOfBits(code.NumLengthBits()));
    const Bytes words = Encode(code, symbols);
    bytes.insert(bytes.end(), words.begin(), words.end());

    ByteReader reader(bytes);
    const Result<HuffmanCode> read = HuffmanCode::ReadLengths(num_symbols, &reader);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read.value().lengths(), code.lengths());
    BitReader bits(words);
    std::vector<uint32_t> decoded(symbols.size());
    HuffmanDecoder(read.value()).Decode(&bits, Span<uint32_t>(decoded));
    size_t num_bytes = 0;
    EXPECT_TRUE(bits.Finish("test", &num_bytes).ok());
    EXPECT_EQ(num_bytes, reader.remaining());
    EXPECT_EQ(decoded, symbols);
  }
}

TEST(HuffmanCode, DecodesLikeAWalkThroughTheWords) {
  const std::vector<uint64_t> counts = RandomCounts(300, 3);
  const HuffmanCode code = CodeOf(counts);
  std::map<std::string, uint32_t> symbol_of;
  for (uint32_t symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] > 0) symbol_of[WordText(code, symbol)] = symbol;
  }
  Random random(4);
  Bytes noise(2000);
  for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random.Next32());
  std::vector<uint32_t> decoded(1000);
  BitReader bits(noise);
  HuffmanDecoder(code).Decode(&bits, Span<uint32_t>(decoded));
  BitString walk(noise);
  for (const uint32_t symbol : decoded) {
    std::string word;
    while (symbol_of.count(word) == 0) word += walk.Next() ? '1' : '0';
    ASSERT_EQ(symbol, symbol_of[word]);
  }
}

TEST(HuffmanCode, FixedWordsAreNumbers) {
  const HuffmanCode code = HuffmanCode::Fixed(3);
  EXPECT_EQ(code.lengths(), std::vector<uint8_t>(8, 3));
  EXPECT_EQ(WordText(code, 6), "110");
}

TEST(HuffmanCode, RefusesLengthsThatAreNoCode) {
  for (const std::vector<uint8_t>& lengths : std::vector<std::vector<uint8_t>>{
           {}, {0, 0}, {2}, {1, 2}, {1, 1, 1}, {1, 2, 2, 2}, {17, 1}, {3, 3, 3, 3, 3, 3, 3}}) {
    EXPECT_EQ(HuffmanCode::FromLengths(lengths).status().code(), StatusCode::kDataLoss);
  }
  for (const std::vector<uint8_t>& lengths :
       std::vector<std::vector<uint8_t>>{{1}, {0, 1, 0}, {1, 1}, {2, 1, 0, 2}}) {
    EXPECT_TRUE(HuffmanCode::FromLengths(lengths).ok());
  }
}

TEST(HuffmanCode, HostileLengthsAreErrorsOrACode) {
  Random random(5);
  Bytes lengths;
  CodeOf(RandomCounts(64, 6)).WriteLengths(&lengths);
  for (size_t size = 0; size < lengths.size(); ++size) {
    const Bytes prefix(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(size));
    ByteReader reader(prefix);
    EXPECT_EQ(HuffmanCode::ReadLengths(64, &reader).status().code(), StatusCode::kDataLoss);
  }
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = i % 2 == 0 ? lengths : Bytes(random.Below(20), 0);
    for (int j = 0; j < (i % 2 == 0 ? 2 : 20) && !bytes.empty(); ++j) {
      bytes[random.Below(static_cast<uint32_t>(bytes.size()))] =
          static_cast<unsigned char>(random.Next32());
    }
    ByteReader reader(bytes);
    const Result<HuffmanCode> code = HuffmanCode::ReadLengths(64, &reader);
    if (!code.ok()) continue;
    EXPECT_EQ(code.value().lengths().size(), 64u);
    std::vector<uint32_t> symbols(100);
    BitReader bits(bytes);
    HuffmanDecoder(code.value()).Decode(&bits, Span<uint32_t>(symbols));
    for (const uint32_t symbol : symbols) EXPECT_GT(code.value().lengths()[symbol], 0);
  }
}

TEST(BitReader, RefusesMissingBytesAndSetPaddingBits) {
  const Bytes bytes = {0x05};
  size_t num_bytes = 0;
  BitReader enough(bytes);
  enough.Skip(3);
  EXPECT_TRUE(enough.Finish("test", &num_bytes).ok());
  EXPECT_EQ(num_bytes, 1u);
  BitReader late_bit(bytes);
  late_bit.Skip(2);
  EXPECT_EQ(late_bit.Finish("test", &num_bytes).code(), StatusCode::kDataLoss);
  BitReader missing(bytes);
  missing.Skip(9);
  EXPECT_EQ(missing.Peek(), 0u);
  EXPECT_EQ(missing.Finish("test", &num_bytes).code(), StatusCode::kDataLoss);
}

// The index codec uses the Huffman code of the bytes of all numbers below n.
TEST(HuffmanIndex, CodesTheBytesOfAllIndices) {
  for (const uint32_t n : {1u, 2u, 255u, 256u, 257u, 300u, 65535u, 65536u, 70000u, 200000u}) {
    SCOPED_TRACE(n);
    std::vector<uint64_t> counts(256);
    std::vector<uint32_t> all(n);
    std::iota(all.begin(), all.end(), 0u);
    for (const uint32_t i : all)
      for (int p = 0; p < 4; ++p) ++counts[i >> (8 * p) & 255];
    const HuffmanCode code = CodeOf(counts);
    Bytes section;
    ASSERT_TRUE(MakePart<IndexCodec>("huffman")->Encode(all, n, {}, &section).ok());
    const uint64_t num_blocks = (n + 65535) / 65536;
    EXPECT_GE(section.size(), BytesOfBits(code.NumBits(counts)) + 4 * (num_blocks - 1));
    EXPECT_LE(section.size(), BytesOfBits(code.NumBits(counts)) + 5 * (num_blocks - 1));

    const std::vector<uint32_t> some = {0, n / 3, n - 1};
    if (n < 4) continue;
    section.clear();
    ASSERT_TRUE(MakePart<IndexCodec>("huffman")->Encode(some, n, {}, &section).ok());
    BitString bits(section);
    for (const uint32_t index : some)
      for (int p = 0; p < 4; ++p)
        EXPECT_EQ(bits.Text(code.lengths()[index >> (8 * p) & 255]),
                  WordText(code, index >> (8 * p) & 255));
    EXPECT_EQ(bits.num_bytes_taken(), section.size());
  }
}

TEST(HuffmanIndex, IsTheBytesOfTheFormat) {
  Bytes section;
  ASSERT_TRUE(
      MakePart<IndexCodec>("huffman")->Encode(std::vector<uint32_t>{1, 2}, 4, {}, &section).ok());
  EXPECT_EQ(section, (Bytes{0xC3, 0x01}));
}

}  // namespace
}  // namespace tfcompress
