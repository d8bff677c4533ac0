// Delta bytes (FORMAT.md) of ascending keys on the device; core/entropy/delta_bytes.h.
#ifndef TFCOMPRESS_CUDA_DELTA_BYTES_H_
#define TFCOMPRESS_CUDA_DELTA_BYTES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/key_lists.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// For lists of up to max_keys keys together.
struct DeltaBuffers {
  uint64_t max_tiles;
  uint64_t* ends_dev;       // Payload bytes before each tile of keys; the last one is their sum.
  uint32_t* distances_dev;  // For decoding: from a tile's first key, less its delta, to its last.
  DeviceBuffer scan_storage;

  const uint64_t* num_payload_bytes_dev() const { return ends_dev + max_tiles; }
};

Status TakeDeltaBuffers(uint32_t num_lists, uint32_t max_keys, Workspace* workspace,
                        DeltaBuffers* buffers);

// Finds the lengths of the codes of the lists: buffers.ends_dev, by tiles of `lists`.
Status MeasureDeltas(const KeyLists& lists, const uint32_t* keys_dev, const DeltaBuffers& buffers,
                     cudaStream_t stream);
// Writes the code of each list, once it is measured, to begins_dev[list] of section_dev, or to the
// beginning where that is null. Does nothing for lists that are empty by now.
Status EncodeDeltas(const KeyLists& lists, const uint32_t* keys_dev, const DeltaBuffers& buffers,
                    unsigned char* section_dev, const uint64_t* begins_dev, cudaStream_t stream);

// Overwrites keys_dev with the keys of codes that have room for their flags. Sets bits of
// *error_dev where a code is not of the length that they say, or flags stand after the last key.
// The keys may be anything: they are checked elsewhere.
Status DecodeDeltas(const KeyLists& lists, const CodeSections& sections,
                    const DeltaBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                    uint32_t* keys_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DELTA_BYTES_H_
