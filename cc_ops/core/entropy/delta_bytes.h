// Delta-binary coding of ascending keys (SketchML 3.4, SKCompress 5.1): each key is stored as its
// distance from the one before, in the fewest bytes that hold it, 1 to 4, and a 2-bit flag says how
// many. Shared by the index codec `delta_binary` and `sketchml`. FORMAT.md, "Delta bytes".
//
// Flags come first, payload after, so that the flags alone give the length of everything: the
// stream is self-delimiting given the number of keys. Every kDeltaBytesBlock keys the distance
// restarts from 0, so that blocks are coded in parallel and the bytes do not depend on the
// executor.
#ifndef TFCOMPRESS_CORE_ENTROPY_DELTA_BYTES_H_
#define TFCOMPRESS_CORE_ENTROPY_DELTA_BYTES_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/count_bits.h"
#include "core/executor.h"
#include "core/host_device.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

inline constexpr int64_t kDeltaBytesBlock = int64_t{1} << 16;

// Bytes of the flags of `num_keys` keys.
TFC_HOST_DEVICE inline uint64_t NumFlagBytes(uint64_t num_keys) { return (num_keys + 3) / 4; }

// Bytes of `delta` minus one: the 2-bit flag.
TFC_HOST_DEVICE inline uint32_t DeltaFlag(uint32_t delta) {
  return static_cast<uint32_t>(31 - CountLeadingZeros(delta | 1)) >> 3;
}

// Lower bound of the code of k keys: their flags, and a byte each.
inline uint64_t MinDeltaBytes(uint64_t k) { return (k + 3) / 4 + k; }
// Upper bound of the bytes that EncodeDeltaBytes appends for k keys.
inline uint64_t MaxDeltaBytes(uint64_t k) { return (k + 3) / 4 + 4 * k; }

// Appends the code of strictly increasing `keys` to `out`.
void EncodeDeltaBytes(Span<const uint32_t> keys, Executor* executor, Bytes* out);

// Reads the code of k keys off the front of `reader` and overwrites `keys` with them: strictly
// increasing and below n, or DataLoss. Allocates only after k is known to fit the bytes that
// remain.
Status DecodeDeltaBytes(uint64_t k, uint32_t n, Executor* executor, ByteReader* reader,
                        std::vector<uint32_t>* keys);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_DELTA_BYTES_H_
