// The widths of FastSGD's Algorithm 2; shared with kernels. FORMAT.md, "index: delta_flag".
#ifndef TFCOMPRESS_CORE_INDEX_FLAG_SCHEME_H_
#define TFCOMPRESS_CORE_INDEX_FLAG_SCHEME_H_

#include <cstdint>

#include "core/entropy/bit_stream.h"
#include "core/entropy/delta_scheme.h"
#include "core/host_device.h"

namespace tfcompress {

inline constexpr int kMaxFlagBits = 5;  // The maximum in Table VI.
static_assert(1u << kMaxFlagBits <= kMaxDeltaClasses);

// Returns M for deltas of which counts[b] need b bits. The paper's ceil(log2(maxDelta)) is one too
// few for powers of two.
TFC_HOST_DEVICE inline int LargestDeltaBits(const uint64_t* counts) {
  int bits = kMaxDeltaBits;
  while (bits > 1 && counts[bits] == 0) --bits;
  return bits;
}

// Whether a section may begin with these numbers.
TFC_HOST_DEVICE inline bool IsFlagScheme(int flag_bits, int largest_bits) {
  return flag_bits >= 1 && flag_bits <= kMaxFlagBits && largest_bits >= 1 &&
         largest_bits <= kMaxDeltaBits;
}

// Sets the scheme. `next_words` is scratch for AssignHuffmanWords.
TFC_HOST_DEVICE inline void SetFlagScheme(int flag_bits, int largest_bits, uint32_t* next_words,
                                          DeltaScheme* scheme) {
  const int num_flags = 1 << flag_bits;
  scheme->num_classes = static_cast<uint32_t>(num_flags);
  for (int flag = 0; flag < num_flags; ++flag) {
    scheme->widths[flag] =
        static_cast<uint8_t>(((flag + 1) * largest_bits + num_flags - 1) / num_flags);
    scheme->lengths[flag] = static_cast<uint8_t>(flag_bits);
  }
  scheme->AssignPrefixes(next_words);
}

// Lower bound of the bytes of a section of k > 0 keys: a flag and a delta have a bit at least.
inline uint64_t MinFlagDeltaBytes(uint64_t k) { return 2 + BytesOfBits(2 * k); }
// Upper bound of the bytes of a section of k keys.
inline uint64_t MaxFlagDeltaBytes(int flag_bits, uint64_t k) {
  if (k == 0) return 0;
  const auto key_bits = static_cast<uint64_t>(flag_bits + kMaxDeltaBits);
  return 2 + BytesOfBits(key_bits * k) + MaxPrefixedDeltasOverhead(k);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_INDEX_FLAG_SCHEME_H_
