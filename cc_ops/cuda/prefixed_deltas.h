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
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// How the scheme is found: by cost, or with flags of so many bits.
struct DeltaCoding {
  // Upper bound of the bytes of the code of k keys.
  uint64_t MaxBytes(uint64_t k) const {
    return is_adaptive ? MaxAdaptiveDeltaBytes(k) : MaxFlagDeltaBytes(flag_bits, k);
  }

  bool is_adaptive;
  int flag_bits;
};

inline constexpr uint32_t kDeltaHeaderWords = (kMaxAdaptiveHeaderBytes + 3) / 4;

// What is chosen from all deltas of a list.
struct DeltaChoice {
  DeltaField fields[kMaxDeltaBits + 1];  // By the bits that a delta needs.
  uint32_t header[kDeltaHeaderWords];    // Bits that stand before the last keys of the blocks.
  uint32_t num_header_bytes;
};

// For writing lists of up to max_k keys together, in sections of up to max_bytes bytes.
struct DeltaWriteBuffers {
  uint32_t* counts_dev;      // Of each list: deltas that need 1 to kMaxDeltaBits bits.
  DeltaChoice* choices_dev;  // Of each list.
  CodeWriteBuffers codes;

  // Of the code of the only list.
  const uint64_t* num_bytes_dev() const { return &codes.sizes_dev->num_bytes; }
};

Status TakeDeltaWriteBuffers(uint32_t num_lists, uint32_t max_k, uint64_t max_bytes,
                             Workspace* workspace, DeltaWriteBuffers* buffers);

// Chooses the scheme of each list, and finds how long its code is: buffers.codes.sizes_dev. Lists
// without keys have none.
Status MeasurePrefixedDeltas(const DeltaCoding& coding, const KeyLists& lists,
                             const uint32_t* keys_dev, const DeltaWriteBuffers& buffers,
                             cudaStream_t stream);
// Writes the codes, once they are measured, to words that are zero: of each list to byte
// begins_dev[list], or to the front where that is null. Does nothing for lists that are empty by
// now.
Status WritePrefixedDeltas(const KeyLists& lists, const uint32_t* keys_dev,
                           const DeltaWriteBuffers& buffers, const uint64_t* begins_dev,
                           cudaStream_t stream);
// Writes the code of the only list, of *k_dev keys, to a section of its own. Does nothing where
// that is 0 by now.
Status EncodePrefixedDeltas(const uint32_t* keys_dev, const uint32_t* k_dev,
                            const DeltaWriteBuffers& buffers, unsigned char* section_dev,
                            cudaStream_t stream);

// What the header of a list says about its codes.
struct DeltaReading {
  CanonicalCode prefixes;
  uint8_t widths[kMaxDeltaClasses];  // By the places of their prefixes.
  uint64_t last_keys_begin;          // In bytes.
};

struct DeltaReadBuffers {
  DeltaReading* readings_dev;  // Of each list.
  CodeHead* heads_dev;
  uint32_t* distances_dev;  // Of each tile of bits: the sum of its deltas, then of those before it.
  CodeReadBuffers codes;
};

// For sections of that extent.
Status TakeDeltaReadBuffers(uint32_t num_lists, const CodeExtent& max_extent, Workspace* workspace,
                            DeltaReadBuffers* buffers);

// Overwrites keys_dev with the keys of lists whose code is at the front of their part of the
// section, and notes where it ends: buffers.codes.list_ends_dev. Sets bits of *error_dev where
// there is none, or blocks miss their last keys; does nothing where one is set before. The keys may
// be anything: they are checked elsewhere. Lists without keys have a place between the others.
Status DecodePrefixedDeltas(bool is_adaptive, const KeyLists& lists, const CodeSections& sections,
                            const DeltaReadBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                            uint32_t* keys_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PREFIXED_DELTAS_H_
