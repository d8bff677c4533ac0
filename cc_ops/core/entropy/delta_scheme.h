// Schemes of prefixed deltas: classes of widths, each with a prefix. Shared with kernels: a scheme
// has a fixed size, and the caller provides the memory. FORMAT.md, "Prefixed deltas".
#ifndef TFCOMPRESS_CORE_ENTROPY_DELTA_SCHEME_H_
#define TFCOMPRESS_CORE_ENTROPY_DELTA_SCHEME_H_

#include <cstdint>

#include "core/count_bits.h"
#include "core/entropy/bit_stream.h"
#include "core/entropy/huffman_words.h"
#include "core/host_device.h"

namespace tfcompress {

inline constexpr int kMaxDeltaBits = 32;
inline constexpr uint32_t kMaxDeltaClasses = 32;

// Bits that a delta needs; a delta of 0, which only a first key has, needs one.
TFC_HOST_DEVICE inline int DeltaBits(uint32_t delta) { return 32 - CountLeadingZeros(delta | 1); }

// A scheme: deltas of class c are written in widths[c] bits after the prefix of c.
struct DeltaScheme {
  // The first class that is wide enough for `num_bits` bits.
  TFC_HOST_DEVICE uint32_t ClassOf(int num_bits) const {
    uint32_t c = 0;
    while (widths[c] < num_bits) ++c;
    return c;
  }
  // The widest delta.
  TFC_HOST_DEVICE int max_width() const { return widths[num_classes - 1]; }

  // Sets the prefixes, from their lengths. `next_words` is scratch for AssignHuffmanWords.
  TFC_HOST_DEVICE void AssignPrefixes(uint32_t* next_words) {
    max_prefix_bits = AssignHuffmanWords(lengths, num_classes, next_words, prefixes);
  }

  uint32_t num_classes;
  int max_prefix_bits;
  uint8_t widths[kMaxDeltaClasses];   // Ascending, 1 to kMaxDeltaBits.
  uint8_t lengths[kMaxDeltaClasses];  // Lengths of the prefixes; 0 if a class has none.
  HuffmanWord prefixes[kMaxDeltaClasses];
};

// The code of deltas of one size.
struct DeltaField {
  uint16_t prefix;
  uint8_t num_prefix_bits;
  uint8_t num_bits;  // Including the prefix.
};

// Returns the field of deltas that need `num_bits` bits, at most the scheme's max_width.
TFC_HOST_DEVICE inline DeltaField DeltaFieldOf(const DeltaScheme& scheme, int num_bits) {
  const uint32_t c = scheme.ClassOf(num_bits);
  const HuffmanWord prefix = scheme.prefixes[c];
  return {prefix.bits, static_cast<uint8_t>(prefix.length),
          static_cast<uint8_t>(prefix.length + scheme.widths[c])};
}

// Upper bound of the bytes added to the prefixes and the deltas of k keys.
inline uint64_t MaxPrefixedDeltasOverhead(uint64_t k) {
  return MaxCodeBlockOverhead(k) + k / kCodeBlock * sizeof(uint32_t);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_DELTA_SCHEME_H_
