// Delta bytes (FORMAT.md) of ascending keys on the device; core/entropy/delta_bytes.h.
#ifndef TFCOMPRESS_CUDA_DELTA_BYTES_H_
#define TFCOMPRESS_CUDA_DELTA_BYTES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/key_lists.h"
#include "cuda/parts.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;

// Buffers for lists of up to max_keys keys together.
struct DeltaBuffers {
  uint64_t max_tiles;
  uint64_t* ends_dev;       // Payload bytes before each tile of keys; the last one is their sum.
  uint32_t* distances_dev;  // For decoding: sum of the deltas of each tile.

  const uint64_t* num_payload_bytes_dev() const { return ends_dev + max_tiles; }
};

void TakeDeltaBuffers(uint32_t num_lists, uint32_t max_keys, Workspace* workspace,
                      DeltaBuffers* buffers);

// Finds the lengths of the codes of the lists: buffers.ends_dev, by tiles of `lists`.
Status MeasureDeltas(const KeyLists& lists, const uint32_t* keys_dev, const DeltaBuffers& buffers,
                     cudaStream_t stream);
// Writes the code of each measured list to places_dev[list]. Does nothing for lists that have
// become empty.
Status EncodeDeltas(const KeyLists& lists, const uint32_t* keys_dev, const DeltaBuffers& buffers,
                    unsigned char* const* places_dev, cudaStream_t stream);
// The same for the supports of frames, to the index section of each.
Status EncodeDeltas(const KeyLists& lists, const uint32_t* keys_dev, const DeltaBuffers& buffers,
                    const Parts<EncodedFrame>& frames, cudaStream_t stream);
// Sets the length of the payload of each measured list.
Status SizeDeltas(const KeyLists& lists, const DeltaBuffers& buffers, uint64_t* num_bytes_dev,
                  cudaStream_t stream);

// Decodes into keys_dev codes that are long enough for their flags. Sets bits of *error_dev if the
// length of a code differs from what its flags say, or if flags after the last key are set. Does
// not check the keys: callers do.
Status DecodeDeltas(const KeyLists& lists, const CodeSections& sections,
                    const DeltaBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                    uint32_t* keys_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DELTA_BYTES_H_
