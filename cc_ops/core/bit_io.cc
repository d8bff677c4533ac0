#include "core/bit_io.h"

#include <algorithm>

#include "core/byte_io.h"

namespace tfcompress {
namespace {

// A block starts at a byte boundary for every width, since its number of values is a multiple of 8.
static_assert(kBlockElements % 8 == 0);

void PackBlock(Span<const uint32_t> values, int num_bits, unsigned char* out) {
  uint64_t pending = 0;
  int num_pending = 0;
  for (uint32_t value : values) {
    pending |= static_cast<uint64_t>(value) << num_pending;
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

uint64_t LoadUpTo8(const unsigned char* p, const unsigned char* end) {
  if (end - p >= 8) return LoadUnaligned<uint64_t>(p);
  uint64_t word = 0;
  for (int i = 0; p + i < end; ++i) word |= static_cast<uint64_t>(p[i]) << (8 * i);
  return word;
}

}  // namespace

void PackBits(Span<const uint32_t> values, int num_bits, Executor* executor,
              unsigned char* packed) {
  if (num_bits == 0) return;
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    PackBlock(values.subspan(begin, end - begin), num_bits, packed + begin / 8 * num_bits);
  });
}

void UnpackBits(ByteSpan packed, int num_bits, Executor* executor, Span<uint32_t> values) {
  if (num_bits == 0) {
    std::fill(values.begin(), values.end(), 0);
    return;
  }
  const uint64_t mask = (uint64_t{1} << num_bits) - 1;
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    uint64_t bit = static_cast<uint64_t>(begin) * num_bits;
    for (int64_t i = begin; i < end; ++i, bit += num_bits) {
      values[i] = static_cast<uint32_t>(
          (LoadUpTo8(packed.data() + bit / 8, packed.end()) >> (bit % 8)) & mask);
    }
  });
}

}  // namespace tfcompress
