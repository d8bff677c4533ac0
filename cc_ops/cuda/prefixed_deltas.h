// Prefixed deltas (FORMAT.md) of ascending keys on the device: the index codecs delta_adaptive and
// delta_flag, and the keys of skcompress. core/entropy/prefixed_deltas.h.
#ifndef TFCOMPRESS_CUDA_PREFIXED_DELTAS_H_
#define TFCOMPRESS_CUDA_PREFIXED_DELTAS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/adaptive_scheme.h"
#include "core/index/flag_scheme.h"
#include "core/status.h"
#include "cuda/canonical_code.h"
#include "cuda/code_blocks.h"
#include "cuda/key_lists.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// How the scheme is chosen: by cost (delta_adaptive), or with flags of a fixed number of bits
// (delta_flag).
struct DeltaCoding {
  // Upper bound of the bytes that k keys take.
  uint64_t MaxBytes(uint64_t k) const {
    return is_adaptive ? MaxAdaptiveDeltaBytes(k) : MaxFlagDeltaBytes(flag_bits, k);
  }

  bool is_adaptive;
  int flag_bits;
};

inline constexpr uint32_t kDeltaHeaderWords = (kMaxAdaptiveHeaderBytes + 3) / 4;

// The choice made from all deltas of a list.
struct DeltaChoice {
  DeltaField fields[kMaxDeltaBits + 1];  // Indexed by the bits that a delta needs.
  uint32_t header[kDeltaHeaderWords];    // Bits before the last keys of the blocks.
  uint32_t num_header_bytes;
};

// Buffers for writing lists of up to max_k keys together, in sections of up to max_bytes bytes.
struct DeltaWriteBuffers {
  uint32_t* counts_dev;      // For each list, counts of deltas that need 1 to kMaxDeltaBits bits.
  DeltaChoice* choices_dev;  // One for each list.
  CodeWriteBuffers codes;
};

void TakeDeltaWriteBuffers(uint32_t num_lists, uint32_t max_k, uint64_t max_bytes,
                           Workspace* workspace, DeltaWriteBuffers* buffers);

// Chooses the scheme of each list, and sets the length of its code, buffers.codes.sizes_dev. Lists
// without keys have no code.
Status MeasurePrefixedDeltas(const DeltaCoding& coding, const KeyLists& lists,
                             const uint32_t* keys_dev, const DeltaWriteBuffers& buffers,
                             cudaStream_t stream);
// Writes the measured codes to words that are zero: each list to byte begins_dev[list], or to the
// front if that is null. Does nothing for lists that have become empty.
Status WritePrefixedDeltas(const KeyLists& lists, const uint32_t* keys_dev,
                           const DeltaWriteBuffers& buffers, const uint64_t* begins_dev,
                           cudaStream_t stream);

// The content of the header of a list.
struct DeltaReading {
  static constexpr uint32_t kDirectBits = 8;

  // For each value of the first kDirectBits bits of a code: the length of its prefix and, above 8
  // bits, of what follows it; 0 if the prefix is longer.
  uint16_t direct[1u << kDirectBits];
  CanonicalCode prefixes;
  uint8_t widths[kMaxDeltaClasses];  // In the order of the prefixes.
  uint64_t last_keys_begin;          // In bytes.
};

struct DeltaReadBuffers {
  DeltaReading* readings_dev;  // One for each list.
  CodeHead* heads_dev;
  uint32_t* distances_dev;  // Sum of the deltas of each tile of bits, then of those before it.
  CodeReadBuffers codes;
};

// Takes buffers for sections of that extent.
void TakeDeltaReadBuffers(uint32_t num_lists, const CodeExtent& max_extent, Workspace* workspace,
                          DeltaReadBuffers* buffers);

// Decodes into keys_dev the keys of lists, whose codes are at the front of their parts of the
// section, and sets the end of each code, buffers.codes.list_ends_dev. Sets bits of *error_dev if a
// code is invalid, or a block does not reach its last key; does nothing if an error is set before.
// Does not check the keys: callers do. Lists without keys have a place between the others.
Status DecodePrefixedDeltas(bool is_adaptive, const KeyLists& lists, const CodeSections& sections,
                            const DeltaReadBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                            uint32_t* keys_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PREFIXED_DELTAS_H_
