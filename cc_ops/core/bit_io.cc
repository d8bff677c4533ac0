#include "core/bit_io.h"

#include <algorithm>
#include <cstring>

#include "core/byte_io.h"
#include "core/simd.h"

namespace tfcompress {
namespace {

constexpr int64_t kGroup = 8;
constexpr int64_t kChunkGroups = 512;
constexpr int64_t kChunk = kGroup * kChunkGroups;  // Starts at a byte for every width.

// A divisor of 8 bits: the bytes of a word become one byte, and the other way around. The values
// that met so far, kCount of each, close the gaps between them.
template <typename Word>
constexpr int kGap = 8 - 8 / static_cast<int>(sizeof(Word));

template <typename Word, int kCount = 1>
Word Gather(Word x) {
  if constexpr (kCount == sizeof(Word)) {
    return x;
  } else {
    return Gather<Word, 2 * kCount>(static_cast<Word>(x | x >> (kCount * kGap<Word>)));
  }
}

// The lowest kCount values in every kCount bytes.
template <typename Word>
constexpr Word SpreadMask(int count) {
  Word mask = 0;
  for (size_t bit = 0; bit < 8 * sizeof(Word); bit += 8 * count)
    mask |= static_cast<Word>(((Word{1} << (count * (8 - kGap<Word>))) - 1) << bit);
  return mask;
}

template <typename Word, int kCount = sizeof(Word) / 2>
Word Spread(Word x) {
  if constexpr (kCount == 0) {
    return x;
  } else {
    constexpr Word kMask = SpreadMask<Word>(kCount);
    return Spread<Word, kCount / 2>(static_cast<Word>((x | x << (kCount * kGap<Word>)) & kMask));
  }
}

template <typename Word>
void PackWords(ByteSpan values, unsigned char* packed) {
  const auto num_words = static_cast<int64_t>(values.size() / sizeof(Word));
  Vectorized([=, bytes = values.data()] {
    TFC_INDEPENDENT
    for (int64_t i = 0; i < num_words; ++i)
      packed[i] = static_cast<unsigned char>(Gather(LoadUnaligned<Word>(bytes + sizeof(Word) * i)));
  });
  const size_t rest = values.size() % sizeof(Word);
  if (rest == 0) return;
  Word word = 0;
  std::memcpy(&word, values.end() - rest, rest);
  packed[num_words] = static_cast<unsigned char>(Gather(word));
}

template <typename Word>
void UnpackWords(const unsigned char* packed, Span<unsigned char> values) {
  const auto num_words = static_cast<int64_t>(values.size() / sizeof(Word));
  Vectorized([=, bytes = values.data()] {
    TFC_INDEPENDENT
    for (int64_t i = 0; i < num_words; ++i)
      StoreUnaligned(bytes + sizeof(Word) * i, Spread(Word{packed[i]}));
  });
  const size_t rest = values.size() % sizeof(Word);
  if (rest == 0) return;
  const Word word = Spread(Word{packed[num_words]});
  std::memcpy(values.end() - rest, &word, rest);
}

// Other numbers of bits: eight values are as many bytes as a value has bits. They meet in the 64
// bits of a word, first in pairs, then fours and all eight.
void PackGroups(const unsigned char* values, int64_t count, int num_bits, unsigned char* out) {
  const int64_t num_groups = NumBlocks(count, kGroup);
  const int gap = 8 - num_bits;
  uint64_t buffer[kChunkGroups];
  buffer[num_groups - 1] = 0;  // The last group may have fewer values.
  std::memcpy(buffer, values, static_cast<size_t>(count));
  Vectorized([=, words = buffer + 0] {
    for (int64_t group = 0; group < num_groups; ++group) {
      uint64_t x = words[group];
      x = (x & 0x00FF00FF00FF00FF) | (x & 0xFF00FF00FF00FF00) >> gap;
      x = (x & 0x0000FFFF0000FFFF) | (x & 0xFFFF0000FFFF0000) >> (2 * gap);
      words[group] = (x & 0x00000000FFFFFFFF) | (x & 0xFFFFFFFF00000000) >> (4 * gap);
    }
  });
  // A word reaches past its group, where the next one is stored after it.
  const auto num_bytes = static_cast<int64_t>(PackedBytes(count, num_bits));
  const uint64_t* word = buffer;
  int64_t begin = 0;
  for (; begin + 8 <= num_bytes; begin += num_bits) StoreUnaligned(out + begin, *word++);
  for (; begin < num_bytes; begin += num_bits)
    std::memcpy(out + begin, word++, std::min<int64_t>(num_bits, num_bytes - begin));
}

void UnpackGroups(const unsigned char* packed, int64_t count, int num_bits, unsigned char* values) {
  const int64_t num_groups = NumBlocks(count, kGroup);
  const auto num_bytes = static_cast<int64_t>(PackedBytes(count, num_bits));
  uint64_t buffer[kChunkGroups];
  uint64_t* word = buffer;
  int64_t begin = 0;
  for (; begin + 8 <= num_bytes; begin += num_bits)
    *word++ = LoadUnaligned<uint64_t>(packed + begin);
  for (; begin < num_bytes; begin += num_bits) {
    *word = 0;
    std::memcpy(word++, packed + begin, num_bytes - begin);
  }
  const int gap = 8 - num_bits;
  const uint64_t four = (uint64_t{1} << (4 * num_bits)) - 1;
  const uint64_t two = ((uint64_t{1} << (2 * num_bits)) - 1) * 0x0000000100000001;
  const uint64_t one = ((uint64_t{1} << num_bits) - 1) * 0x0001000100010001;
  Vectorized([=, words = buffer + 0] {
    for (int64_t group = 0; group < num_groups; ++group) {
      uint64_t x = words[group];
      x = (x & four) | (x << (4 * gap) & four << 32);
      x = (x & two) | (x << (2 * gap) & two << 16);
      words[group] = (x & one) | (x << gap & one << 8);
    }
  });
  std::memcpy(values, buffer, static_cast<size_t>(count));
}

void PackNarrow(const uint32_t* values, int64_t count, int num_bits, unsigned char* out) {
  unsigned char buffer[kChunk];
  Vectorized([=, bytes = buffer + 0] {
    for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(values[i]);
  });
  PackBits({buffer, static_cast<size_t>(count)}, num_bits, out);
}

void UnpackNarrow(const unsigned char* packed, int64_t count, int num_bits, uint32_t* values) {
  unsigned char buffer[kChunk];
  UnpackBits({packed, PackedBytes(count, num_bits)}, num_bits,
             {buffer, static_cast<size_t>(count)});
  Vectorized([=, bytes = buffer + 0] {
    for (int64_t i = 0; i < count; ++i) values[i] = bytes[i];
  });
}

void PackWide(const uint32_t* values, int64_t count, int num_bits, unsigned char* out) {
  uint64_t pending = 0;
  int num_pending = 0;
  for (int64_t i = 0; i < count; ++i) {
    pending |= static_cast<uint64_t>(values[i]) << num_pending;
    num_pending += num_bits;
    if (num_pending >= 32) {
      StoreUnaligned(out, static_cast<uint32_t>(pending));
      out += 4;
      pending >>= 32;
      num_pending -= 32;
    }
  }
  for (; num_pending > 0; num_pending -= 8, pending >>= 8)
    *out++ = static_cast<unsigned char>(pending);
}

void UnpackWide(const unsigned char* packed, int64_t count, int num_bits, uint32_t* values) {
  const uint64_t mask = (uint64_t{1} << num_bits) - 1;
  const auto num_bytes = static_cast<int64_t>(PackedBytes(count, num_bits));
  uint64_t bit = 0;
  int64_t i = 0;
  for (; i < count && static_cast<int64_t>(bit / 8) + 8 <= num_bytes; ++i, bit += num_bits) {
    const auto word = LoadUnaligned<uint64_t>(packed + bit / 8);
    values[i] = static_cast<uint32_t>(word >> (bit % 8) & mask);
  }
  for (; i < count; ++i, bit += num_bits) {
    uint64_t word = 0;
    std::memcpy(&word, packed + bit / 8, num_bytes - bit / 8);
    values[i] = static_cast<uint32_t>(word >> (bit % 8) & mask);
  }
}

}  // namespace

void PackBits(ByteSpan values, int num_bits, unsigned char* packed) {
  switch (num_bits) {
    case 0:
      return;
    case 1:
      return PackWords<uint64_t>(values, packed);
    case 2:
      return PackWords<uint32_t>(values, packed);
    case 4:
      return PackWords<uint16_t>(values, packed);
    case 8:
      return static_cast<void>(std::copy(values.begin(), values.end(), packed));
  }
  ForEachChunk(SerialExecutor(), values.size(), kChunk, [&](int64_t begin, int64_t end) {
    PackGroups(values.data() + begin, end - begin, num_bits, packed + begin / 8 * num_bits);
  });
}

void UnpackBits(ByteSpan packed, int num_bits, Span<unsigned char> values) {
  switch (num_bits) {
    case 0:
      return std::fill(values.begin(), values.end(), static_cast<unsigned char>(0));
    case 1:
      return UnpackWords<uint64_t>(packed.data(), values);
    case 2:
      return UnpackWords<uint32_t>(packed.data(), values);
    case 4:
      return UnpackWords<uint16_t>(packed.data(), values);
    case 8:
      return static_cast<void>(std::copy_n(packed.begin(), values.size(), values.begin()));
  }
  ForEachChunk(SerialExecutor(), values.size(), kChunk, [&](int64_t begin, int64_t end) {
    UnpackGroups(packed.data() + begin / 8 * num_bits, end - begin, num_bits,
                 values.data() + begin);
  });
}

void PackBits(Span<const uint32_t> values, int num_bits, Executor* executor,
              unsigned char* packed) {
  if (num_bits == 0) return;
  const auto pack = num_bits <= kMaxByteBits ? PackNarrow : PackWide;
  ForEachChunk(executor, values.size(), kChunk, [&](int64_t begin, int64_t end) {
    pack(values.data() + begin, end - begin, num_bits, packed + begin / 8 * num_bits);
  });
}

void UnpackBits(ByteSpan packed, int num_bits, Executor* executor, Span<uint32_t> values) {
  if (num_bits == 0) {
    std::fill(values.begin(), values.end(), 0);
    return;
  }
  const auto unpack = num_bits <= kMaxByteBits ? UnpackNarrow : UnpackWide;
  ForEachChunk(executor, values.size(), kChunk, [&](int64_t begin, int64_t end) {
    unpack(packed.data() + begin / 8 * num_bits, end - begin, num_bits, values.data() + begin);
  });
}

}  // namespace tfcompress
