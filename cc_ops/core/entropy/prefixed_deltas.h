// Codes ascending keys as distances, each in one of a few widths that a prefix selects. Shared by
// SKCompress 5.2 and FastSGD's Algorithm 2, which differ in widths and prefixes. FORMAT.md,
// "Prefixed deltas".
//
// Blocks are coded in parallel. Each continues from the last key of the one before, which is sent,
// so that every delta is the same as without blocks.
#ifndef TFCOMPRESS_CORE_ENTROPY_PREFIXED_DELTAS_H_
#define TFCOMPRESS_CORE_ENTROPY_PREFIXED_DELTAS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/entropy/code_blocks.h"
#include "core/entropy/delta_scheme.h"
#include "core/executor.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Element b is the number of deltas that need b bits.
using DeltaBitCounts = std::array<uint64_t, kMaxDeltaBits + 1>;

// Counts the deltas of `keys` by their bits, for each block.
std::vector<DeltaBitCounts> CountDeltaBits(Span<const uint32_t> keys, Executor* executor);
DeltaBitCounts Sum(const std::vector<DeltaBitCounts>& blocks);

// Appends the code of strictly increasing `keys`, whose CountDeltaBits are `counts`.
void EncodePrefixedDeltas(Span<const uint32_t> keys, const std::vector<DeltaBitCounts>& counts,
                          const DeltaScheme& scheme, Executor* executor, Bytes* out);

// Reads the code of k keys off the front of `reader` and overwrites `keys` with them: strictly
// increasing and below n, or DataLoss. Allocates only after k is known to fit the bytes that
// remain. `what` begins the messages.
Status DecodePrefixedDeltas(const char* what, uint64_t k, uint32_t n, const DeltaScheme& scheme,
                            Executor* executor, ByteReader* reader, std::vector<uint32_t>* keys);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_PREFIXED_DELTAS_H_
