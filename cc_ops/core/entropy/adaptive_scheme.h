// The schemes of SKCompress 5.2 and the choice of the cheapest one; shared with kernels. FORMAT.md,
// "Adaptive deltas".
#ifndef TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_SCHEME_H_
#define TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_SCHEME_H_

#include <cstdint>

#include "core/entropy/bit_stream.h"
#include "core/entropy/delta_scheme.h"
#include "core/entropy/package_merge.h"
#include "core/host_device.h"

namespace tfcompress {

inline constexpr uint32_t kMaxIntervals = 16;
inline constexpr int kNumDeltaPrefixes = 8;
// Upper bound of the bytes of the kind and the lengths of the prefixes, reached by runs of one
// symbol whose steps have four bits.
inline constexpr uint32_t kMaxAdaptiveHeaderBytes = 1 + (kMaxIntervals * (1 + 9 + 1) + 7) / 8;

struct DeltaPrefix {
  // The candidates, 0 to kNumDeltaPrefixes - 1, in the order in which encoders compare them.
  TFC_HOST_DEVICE static DeltaPrefix Candidate(int i) { return {i / 2, i % 2 != 0}; }
  // The prefix for the first byte of a code, which is below kNumDeltaPrefixes.
  TFC_HOST_DEVICE static DeltaPrefix OfKind(uint8_t kind) { return {kind % 4, kind >= 4}; }
  TFC_HOST_DEVICE uint8_t kind() const {
    return static_cast<uint8_t>(log_intervals | (is_huffman ? 4 : 0));
  }
  TFC_HOST_DEVICE uint32_t num_intervals() const { return uint32_t{2} << log_intervals; }

  int log_intervals;  // m = 2, 4, 8, 16: 0 to 3.
  bool is_huffman;
};

// Cost of a scheme in bits.
struct DeltaCost {
  TFC_HOST_DEVICE uint64_t total() const { return lengths + prefixes + payload; }

  uint64_t lengths;  // Lengths of the Huffman words, in whole bytes.
  uint64_t prefixes;
  uint64_t payload;  // The deltas.
};

// Lower bound of the bytes of the code of k > 0 keys: a bit of prefix and an interval of two bits
// each.
inline uint64_t MinAdaptiveDeltaBytes(uint64_t k) { return 1 + BytesOfBits(3 * k); }
// Upper bound of the bytes of the code of k keys: those of m = 2 with the
// fixed prefix.
inline uint64_t MaxAdaptiveDeltaBytes(uint64_t k) {
  return k == 0 ? 0 : 1 + BytesOfBits(33 * k) + MaxPrefixedDeltasOverhead(k);
}

// Working memory of the functions below.
struct AdaptiveSpace {
  uint64_t intervals[kMaxIntervals];  // Numbers of deltas that take 1, 2, ..., m intervals.
  uint8_t lengths[kMaxIntervals];     // Lengths of their prefixes.
  uint32_t symbols[kMaxIntervals];    // Symbols that occur, sorted by their counts.
  uint64_t sorted[kMaxIntervals];     // Their counts.
  uint8_t found[kMaxIntervals];       // The lengths of their words.
  uint64_t items[2 * kMaxIntervals];
  uint64_t merged[2 * kMaxIntervals];
  uint16_t is_count[2 * kMaxIntervals];
  uint32_t next_words[kMaxHuffmanBits + 1];
};

// Sets space->lengths to those of HuffmanCode::FromCounts(space->intervals).
TFC_HOST_DEVICE inline void FindHuffmanLengths(uint32_t m, AdaptiveSpace* space) {
  uint32_t num_symbols = 0;
  for (uint32_t symbol = 0; symbol < m; ++symbol) {
    space->lengths[symbol] = 0;
    const uint64_t count = space->intervals[symbol];
    if (count == 0) continue;
    uint32_t i = num_symbols++;
    for (; i > 0 && space->sorted[i - 1] > count; --i) {
      space->sorted[i] = space->sorted[i - 1];
      space->symbols[i] = space->symbols[i - 1];
    }
    space->sorted[i] = count;
    space->symbols[i] = symbol;
  }
  PackageMerge(space->sorted, num_symbols, kSmallAlphabetHuffmanBits,
               {space->items, space->merged, space->is_count}, space->found);
  for (uint32_t i = 0; i < num_symbols; ++i) space->lengths[space->symbols[i]] = space->found[i];
}

// Sets space->intervals and space->lengths for deltas of which counts[b] need b bits.
TFC_HOST_DEVICE inline void FindPrefixes(const uint64_t* counts, const DeltaPrefix& prefix,
                                         AdaptiveSpace* space) {
  const uint32_t m = prefix.num_intervals();
  const uint32_t interval_bits = kMaxDeltaBits / m;
  for (uint32_t i = 0; i < m; ++i) {
    space->intervals[i] = 0;
    space->lengths[i] = static_cast<uint8_t>(prefix.log_intervals + 1);
    for (uint32_t bit = 0; bit < interval_bits; ++bit)
      space->intervals[i] += counts[i * interval_bits + bit + 1];
  }
  if (prefix.is_huffman) FindHuffmanLengths(m, space);
}

TFC_HOST_DEVICE inline DeltaCost CostOf(const uint64_t* counts, const DeltaPrefix& prefix,
                                        AdaptiveSpace* space) {
  FindPrefixes(counts, prefix, space);
  const uint32_t m = prefix.num_intervals();
  DeltaCost cost = {0, 0, 0};
  if (prefix.is_huffman) cost.lengths = 8 * BytesOfBits(NumLengthBits(space->lengths, m));
  for (uint32_t i = 0; i < m; ++i) {
    cost.prefixes += space->intervals[i] * space->lengths[i];
    cost.payload += space->intervals[i] * ((i + 1) * kMaxDeltaBits / m);
  }
  return cost;
}

// Returns the candidate with the least total cost, the first of equal ones.
TFC_HOST_DEVICE inline int CheapestCandidate(const uint64_t* costs) {
  int best = 0;
  for (int i = 1; i < kNumDeltaPrefixes; ++i) best = costs[i] < costs[best] ? i : best;
  return best;
}

// Sets the scheme of m intervals with prefixes of the lengths space->lengths.
TFC_HOST_DEVICE inline void SetAdaptiveScheme(uint32_t m, AdaptiveSpace* space,
                                              DeltaScheme* scheme) {
  scheme->num_classes = m;
  for (uint32_t i = 0; i < m; ++i) {
    scheme->widths[i] = static_cast<uint8_t>((i + 1) * kMaxDeltaBits / m);
    scheme->lengths[i] = space->lengths[i];
  }
  scheme->AssignPrefixes(space->next_words);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_SCHEME_H_
