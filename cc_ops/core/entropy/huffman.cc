#include "core/entropy/huffman.h"

#include <algorithm>

#include "core/bit_io.h"
#include "core/entropy/package_merge.h"

namespace tfcompress {
namespace {

std::vector<uint8_t> MergePackages(const std::vector<uint64_t>& counts, int limit) {
  const size_t m = counts.size();
  std::vector<uint64_t> items(2 * m), merged(2 * m);
  std::vector<uint16_t> is_count(2 * m);
  std::vector<uint8_t> lengths(m);
  PackageMerge(counts.data(), static_cast<uint32_t>(m), limit,
               {items.data(), merged.data(), is_count.data()}, lengths.data());
  return lengths;
}

uint32_t Size(const std::vector<uint8_t>& lengths) { return static_cast<uint32_t>(lengths.size()); }

}  // namespace

int HuffmanLimit(size_t num_symbols) {
  return std::clamp(BitsFor(num_symbols) + 2, kSmallAlphabetHuffmanBits, kMaxHuffmanBits);
}

HuffmanCode::HuffmanCode(std::vector<uint8_t> lengths)
    : lengths_(std::move(lengths)), words_(lengths_.size()) {
  uint32_t next_words[kMaxHuffmanBits + 1];
  max_length_ = AssignHuffmanWords(lengths_.data(), Size(lengths_), next_words, words_.data());
}

HuffmanCode HuffmanCode::FromCounts(Span<const uint64_t> counts) {
  std::vector<uint32_t> symbols;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol) {
    if (counts[symbol] > 0) symbols.push_back(static_cast<uint32_t>(symbol));
  }
  std::stable_sort(symbols.begin(), symbols.end(),
                   [&](uint32_t a, uint32_t b) { return counts[a] < counts[b]; });
  std::vector<uint64_t> sorted;
  for (const uint32_t symbol : symbols) sorted.push_back(counts[symbol]);
  const std::vector<uint8_t> found = MergePackages(sorted, HuffmanLimit(counts.size()));
  std::vector<uint8_t> lengths(counts.size());
  for (size_t i = 0; i < symbols.size(); ++i) lengths[symbols[i]] = found[i];
  return HuffmanCode(std::move(lengths));
}

HuffmanCode HuffmanCode::Fixed(int length) {
  return HuffmanCode(std::vector<uint8_t>(size_t{1} << length, static_cast<uint8_t>(length)));
}

Result<HuffmanCode> HuffmanCode::FromLengths(std::vector<uint8_t> lengths) {
  for (const uint8_t length : lengths) {
    if (length > kMaxHuffmanBits) return DataLoss("huffman: a word of ", int{length}, " bits");
  }
  switch (CheckHuffmanLengths(lengths.data(), Size(lengths))) {
    case LengthsError::kNone:
      break;
    case LengthsError::kTooManyWords:
      return DataLoss("huffman: more words than their lengths allow");
    case LengthsError::kUnusedWords:
      return DataLoss("huffman: the lengths leave words unused");
  }
  return HuffmanCode(std::move(lengths));
}

uint64_t HuffmanCode::NumLengthBits() const {
  return tfcompress::NumLengthBits(lengths_.data(), Size(lengths_));
}

void HuffmanCode::WriteLengths(Bytes* out) const {
  const size_t num_bytes = BytesOfBits(NumLengthBits());
  unsigned char* bytes = ByteWriter(out).Extend(num_bytes);
  BitWriter writer(bytes, bytes + num_bytes);
  WriteLengthRuns(lengths_.data(), Size(lengths_), &writer);
}

Result<HuffmanCode> HuffmanCode::ReadLengths(uint32_t num_symbols, ByteReader* reader) {
  ByteSpan rest;
  ByteReader ahead = *reader;
  TFC_RETURN_IF_ERROR(ahead.ReadSpan("huffman lengths", ahead.remaining(), &rest));
  BitReader bits(rest);
  std::vector<uint8_t> lengths;
  int64_t previous = -1;
  while (lengths.size() < num_symbols) {
    const LengthRun run = ReadLengthRun(previous, num_symbols - lengths.size(), &bits);
    if (!run.is_valid) {
      return DataLoss("huffman lengths: symbol ", lengths.size(), " of ", num_symbols,
                      " begins a run of ", run.count, " words of ", run.length, " bits");
    }
    lengths.insert(lengths.end(), run.count, static_cast<uint8_t>(run.length));
    previous = run.length;
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

bool HuffmanCode::is_alone() const {
  return max_length_ == 1 && std::count(lengths_.begin(), lengths_.end(), uint8_t{1}) == 1;
}

HuffmanDecoder::HuffmanDecoder(const HuffmanCode& code)
    : table_(size_t{1} << code.max_length()),
      mask_(table_.size() - 1),
      max_length_(code.max_length()) {
  const bool is_alone = code.is_alone();
  for (size_t symbol = 0; symbol < code.words().size(); ++symbol) {
    const HuffmanWord word = code.words()[symbol];
    if (word.length == 0) continue;
    // The only symbol of a code gets the other word, too.
    const size_t step = is_alone ? 1 : size_t{1} << word.length;
    for (size_t i = word.bits; i < table_.size(); i += step)
      table_[i] = {static_cast<uint16_t>(symbol), word.length};
  }
}

}  // namespace tfcompress
