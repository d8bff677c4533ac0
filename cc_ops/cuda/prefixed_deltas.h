// Prefixed deltas (FORMAT.md) of ascending keys on the device: the index codecs delta_adaptive and
// delta_flag. core/entropy/prefixed_deltas.h.
#ifndef TFCOMPRESS_CUDA_PREFIXED_DELTAS_H_
#define TFCOMPRESS_CUDA_PREFIXED_DELTAS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/adaptive_scheme.h"
#include "core/index/flag_scheme.h"
#include "core/status.h"
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

// What is chosen from all deltas.
struct DeltaChoice {
  DeltaField fields[kMaxDeltaBits + 1];  // By the bits that a delta needs.
  uint32_t header[kDeltaHeaderWords];    // Bits that stand before the last keys of the blocks.
  uint32_t num_header_bytes;
};

// For writing the code of up to max_k keys in up to max_bytes bytes.
struct DeltaWriteBuffers {
  uint32_t* counts_dev;  // Deltas that need 1 to kMaxDeltaBits bits.
  DeltaChoice* choice_dev;
  CodeWriteBuffers codes;

  const uint64_t* num_bytes_dev() const { return &codes.size_dev->num_bytes; }
};

Status TakeDeltaWriteBuffers(uint32_t max_k, uint64_t max_bytes, Workspace* workspace,
                             DeltaWriteBuffers* buffers);

// Chooses the scheme, and finds the length of the code of the keys; their number stands at k_dev.
Status MeasurePrefixedDeltas(const DeltaCoding& coding, const uint32_t* keys_dev,
                             const uint32_t* k_dev, const DeltaWriteBuffers& buffers,
                             cudaStream_t stream);
// Writes the code, once it is measured, to section_dev. Does nothing where *k_dev is 0 by now.
Status EncodePrefixedDeltas(const uint32_t* keys_dev, const uint32_t* k_dev,
                            const DeltaWriteBuffers& buffers, unsigned char* section_dev,
                            cudaStream_t stream);

// What the header says about the codes.
struct DeltaReading {
  uint32_t layout_mask;
  uint64_t last_keys_begin;  // In bytes.
};

// For reading up to max_k keys from up to max_bytes bytes.
struct DeltaReadBuffers {
  DeltaReading* reading_dev;
  DeltaLayout* layouts_dev;
  uint32_t* distances_dev;  // Of each tile of bits: the sum of its deltas, then of those before it.
  CodeReadBuffers codes;

  // How many bytes the code had.
  const uint64_t* num_bytes_dev() const { return &codes.section_dev->num_bytes; }
};

Status TakeDeltaReadBuffers(uint32_t max_k, uint64_t max_bytes, Workspace* workspace,
                            DeltaReadBuffers* buffers);

// Overwrites keys_dev with the k > 0 keys whose code is at the front of the section. Sets bits of
// *error_dev where there is none, or blocks miss their last keys; does nothing where one is set
// before. The keys may be anything: they are checked elsewhere.
Status DecodePrefixedDeltas(bool is_adaptive, const unsigned char* section_dev,
                            const CodeList& list, const DeltaReadBuffers& buffers, uint32_t bits,
                            uint32_t* error_dev, uint32_t* keys_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PREFIXED_DELTAS_H_
