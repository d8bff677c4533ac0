// Delta coding with an adaptive prefix (SKCompress 5.2): 32 bits are divided into m intervals; each
// delta is stored in as few intervals as hold it, and a prefix, of log2 m bits or a Huffman word,
// says how many. The encoder chooses m and the kind of prefix by exact cost. Shared by the index
// codec `delta_adaptive` and `skcompress`. FORMAT.md, "Adaptive deltas".
#ifndef TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_DELTA_H_
#define TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_DELTA_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/entropy/adaptive_scheme.h"
#include "core/entropy/prefixed_deltas.h"
#include "core/executor.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

DeltaCost CostOf(const DeltaBitCounts& counts, const DeltaPrefix& prefix);
// Returns the prefix with the least cost; of equal ones that with the fewest intervals, and fixed
// before Huffman.
DeltaPrefix ChooseDeltaPrefix(const DeltaBitCounts& counts);

// Appends the code of strictly increasing `keys` to `out`; nothing for no keys.
void EncodeAdaptiveDeltas(Span<const uint32_t> keys, Executor* executor, Bytes* out);

// Reads the code of k keys off the front of `reader` and overwrites `keys` with them: strictly
// increasing and below n, or DataLoss. Allocates only after k is known to fit the bytes that
// remain.
Status DecodeAdaptiveDeltas(uint64_t k, uint32_t n, Executor* executor, ByteReader* reader,
                            std::vector<uint32_t>* keys);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_ADAPTIVE_DELTA_H_
