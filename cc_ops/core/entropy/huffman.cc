#include "core/entropy/huffman.h"

#include <algorithm>

#include "core/bit_io.h"

namespace tfcompress {
namespace {

constexpr int kComfortableBits = 12;  // A table of 16 KiB.

// Lengths of the words that take the fewest bits for the ascending `counts`, by the package-merge
// algorithm (Larmore and Hirschberg, 1990): in `limit` rounds, the items of the round before are
// paired, and the pairs and the counts are merged in ascending order. Of the last round, the first
// 2m - 2 items are chosen; a chosen pair chooses its two items of the round before. The length of
// a word is the number of rounds in which its count is chosen.
std::vector<uint8_t> PackageMerge(const std::vector<uint64_t>& counts, int limit) {
  const size_t m = counts.size();
  std::vector<uint64_t> items;                     // Of the last round.
  std::vector<std::vector<bool>> is_count(limit);  // Of the items of each round.
  for (int round = 0; round < limit; ++round) {
    std::vector<uint64_t> merged;
    merged.reserve(m + items.size() / 2);
    size_t next_count = 0, next_pair = 0;
    while (next_count < m || next_pair + 1 < items.size()) {
      const bool pairs_left = next_pair + 1 < items.size();
      const uint64_t pair = pairs_left ? items[next_pair] + items[next_pair + 1] : 0;
      const bool takes_count = next_count < m && (!pairs_left || counts[next_count] <= pair);
      merged.push_back(takes_count ? counts[next_count++] : pair);
      if (!takes_count) next_pair += 2;
      is_count[round].push_back(takes_count);
    }
    items = std::move(merged);
  }

  std::vector<uint8_t> lengths(m);
  size_t num_chosen = 2 * m - 2;
  for (int round = limit; round-- > 0;) {
    const auto first = is_count[round].begin();
    const auto num_counts =
        static_cast<size_t>(std::count(first, first + static_cast<ptrdiff_t>(num_chosen), true));
    for (size_t i = 0; i < num_counts; ++i) ++lengths[i];
    num_chosen = 2 * (num_chosen - num_counts);
  }
  return lengths;
}

uint32_t ReverseBits(uint32_t bits, int num_bits) {
  uint32_t reversed = 0;
  for (int i = 0; i < num_bits; ++i) reversed |= (bits >> i & 1) << (num_bits - 1 - i);
  return reversed;
}

// Elias' gamma code of a number in [1, 2^17): as many zeros as it has bits after its first, a one,
// these bits.
struct Gamma {
  explicit Gamma(uint32_t value) : num_low_bits(31 - __builtin_clz(value)) {
    const uint64_t low = value - (uint32_t{1} << num_low_bits);
    bits = uint64_t{1} << num_low_bits | low << (num_low_bits + 1);
  }
  int num_bits() const { return 2 * num_low_bits + 1; }

  int num_low_bits;
  uint64_t bits;
};

// Reads a number below 2^18, or returns 0.
uint32_t ReadGamma(BitReader* reader) {
  const uint64_t bits = reader->Peek();
  const int num_low_bits = __builtin_ctzll(bits | uint64_t{1} << 18);
  if (num_low_bits > 17) return 0;
  reader->Skip(2 * num_low_bits + 1);
  const auto low = static_cast<uint32_t>(bits >> (num_low_bits + 1));
  const uint32_t one = uint32_t{1} << num_low_bits;
  return one | (low & (one - 1));
}

// Calls body(step, run) for the runs of equal lengths: `step` leads to the length of a run from the
// one before, at first from -1.
template <typename Body>
void ForEachRun(const std::vector<uint8_t>& lengths, const Body& body) {
  int previous = -1;
  for (size_t begin = 0, end = 0; begin < lengths.size(); begin = end) {
    while (end < lengths.size() && lengths[end] == lengths[begin]) ++end;
    body(lengths[begin] - previous, static_cast<uint32_t>(end - begin));
    previous = lengths[begin];
  }
}

Gamma StepSize(int step) { return Gamma(static_cast<uint32_t>(step < 0 ? -step : step)); }

}  // namespace

int HuffmanLimit(size_t num_symbols) {
  return std::clamp(BitsFor(num_symbols) + 2, kComfortableBits, kMaxHuffmanBits);
}

HuffmanCode::HuffmanCode(std::vector<uint8_t> lengths)
    : lengths_(std::move(lengths)), words_(lengths_.size()) {
  uint32_t num_words[kMaxHuffmanBits + 1] = {};
  for (const uint8_t length : lengths_) ++num_words[length];
  num_words[0] = 0;
  uint32_t next_word[kMaxHuffmanBits + 1] = {};
  for (int length = 1; length <= kMaxHuffmanBits; ++length) {
    next_word[length] = (next_word[length - 1] + num_words[length - 1]) << 1;
    if (num_words[length] > 0) max_length_ = length;
  }
  for (size_t symbol = 0; symbol < lengths_.size(); ++symbol) {
    const uint8_t length = lengths_[symbol];
    if (length == 0) continue;
    words_[symbol] = {static_cast<uint16_t>(ReverseBits(next_word[length]++, length)), length};
  }
}

HuffmanCode HuffmanCode::FromCounts(Span<const uint64_t> counts) {
  std::vector<uint32_t> symbols;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] > 0) symbols.push_back(static_cast<uint32_t>(symbol));
  }
  std::stable_sort(symbols.begin(), symbols.end(),
                   [&](uint32_t a, uint32_t b) { return counts[a] < counts[b]; });
  std::vector<uint8_t> lengths(counts.size());
  if (symbols.size() == 1) {
    lengths[symbols[0]] = 1;
  } else if (!symbols.empty()) {
    std::vector<uint64_t> sorted;
    for (const uint32_t symbol : symbols) sorted.push_back(counts[symbol]);
    const std::vector<uint8_t> found = PackageMerge(sorted, HuffmanLimit(counts.size()));
    for (size_t i = 0; i < symbols.size(); ++i) lengths[symbols[i]] = found[i];
  }
  return HuffmanCode(std::move(lengths));
}

HuffmanCode HuffmanCode::Fixed(int length) {
  return HuffmanCode(std::vector<uint8_t>(size_t{1} << length, static_cast<uint8_t>(length)));
}

Result<HuffmanCode> HuffmanCode::FromLengths(std::vector<uint8_t> lengths) {
  constexpr uint64_t kWhole = uint64_t{1} << kMaxHuffmanBits;
  uint64_t used = 0;
  size_t num_words = 0;
  for (const uint8_t length : lengths) {
    if (length > kMaxHuffmanBits) return DataLoss("huffman: a word of ", int{length}, " bits");
    if (length == 0) continue;
    used += kWhole >> length;
    ++num_words;
  }
  if (used > kWhole) return DataLoss("huffman: more words than their lengths allow");
  if (used < kWhole && !(num_words == 1 && used == kWhole / 2)) {
    return DataLoss("huffman: the lengths leave words unused");
  }
  return HuffmanCode(std::move(lengths));
}

uint64_t HuffmanCode::NumLengthBits() const {
  uint64_t num_bits = 0;
  ForEachRun(lengths_, [&](int step, uint32_t run) {
    num_bits += static_cast<uint64_t>(1 + StepSize(step).num_bits() + Gamma(run).num_bits());
  });
  return num_bits;
}

void HuffmanCode::WriteLengths(Bytes* out) const {
  const size_t num_bytes = BytesOfBits(NumLengthBits());
  unsigned char* bytes = ByteWriter(out).Extend(num_bytes);
  BitWriter writer(bytes, bytes + num_bytes);
  ForEachRun(lengths_, [&](int step, uint32_t run) {
    writer.Write(step < 0, 1);
    writer.Write(StepSize(step).bits, StepSize(step).num_bits());
    writer.Write(Gamma(run).bits, Gamma(run).num_bits());
  });
}

Result<HuffmanCode> HuffmanCode::ReadLengths(uint32_t num_symbols, ByteReader* reader) {
  ByteSpan rest;
  ByteReader ahead = *reader;
  TFC_RETURN_IF_ERROR(ahead.ReadSpan("huffman lengths", ahead.remaining(), &rest));
  BitReader bits(rest);
  std::vector<uint8_t> lengths;
  int64_t length = -1;
  while (lengths.size() < num_symbols) {
    const bool is_down = bits.Peek() & 1;
    bits.Skip(1);
    const int64_t step = ReadGamma(&bits);
    const uint32_t run = ReadGamma(&bits);
    length += is_down ? -step : step;
    if (step == 0 || run == 0 || length < 0 || length > kMaxHuffmanBits ||
        run > num_symbols - lengths.size()) {
      return DataLoss("huffman lengths: symbol ", lengths.size(), " of ", num_symbols,
                      " begins a run of ", run, " words of ", length, " bits");
    }
    lengths.insert(lengths.end(), run, static_cast<uint8_t>(length));
  }
  size_t num_bytes = 0;
  TFC_RETURN_IF_ERROR(bits.Finish("huffman lengths", &num_bytes));
  TFC_RETURN_IF_ERROR(reader->ReadSpan("huffman lengths", num_bytes, &rest));
  return FromLengths(std::move(lengths));
}

uint64_t HuffmanCode::NumBits(Span<const uint64_t> counts) const {
  uint64_t num_bits = 0;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol)
    num_bits += counts[symbol] * lengths_[symbol];
  return num_bits;
}

HuffmanDecoder::HuffmanDecoder(const HuffmanCode& code)
    : table_(size_t{1} << code.max_length()),
      mask_(table_.size() - 1),
      max_length_(code.max_length()) {
  for (size_t symbol = 0; symbol < code.words().size(); ++symbol) {
    const HuffmanCode::Word word = code.words()[symbol];
    if (word.length == 0) continue;
    for (size_t i = word.bits; i < table_.size(); i += size_t{1} << word.length)
      table_[i] = {static_cast<uint16_t>(symbol), word.length};
  }
  // The other word of a symbol that is alone.
  for (Entry& entry : table_) {
    if (entry.length == 0) entry = table_[0];
  }
}

}  // namespace tfcompress
