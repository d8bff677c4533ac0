// Delta bytes (FORMAT.md) of ascending keys on the device; core/entropy/delta_bytes.h.
#ifndef TFCOMPRESS_CUDA_DELTA_BYTES_H_
#define TFCOMPRESS_CUDA_DELTA_BYTES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// For up to max_k keys.
struct DeltaBuffers {
  uint32_t max_k;
  uint64_t* ends_dev;       // Payload bytes before each tile of keys; the last one is their sum.
  uint32_t* distances_dev;  // For decoding: from a tile's first key, less its delta, to its last.
  DeviceBuffer scan_storage;

  const uint64_t* num_payload_bytes_dev() const;
};

Status TakeDeltaBuffers(uint32_t max_k, Workspace* workspace, DeltaBuffers* buffers);

// Finds the length of the code of the keys; their number stands at k_dev.
Status MeasureDeltas(const uint32_t* keys_dev, const uint32_t* k_dev, const DeltaBuffers& buffers,
                     cudaStream_t stream);
// Writes the code, once it is measured, to section_dev. Does nothing where *k_dev is 0 by now.
Status EncodeDeltas(const uint32_t* keys_dev, const uint32_t* k_dev, const DeltaBuffers& buffers,
                    unsigned char* section_dev, cudaStream_t stream);

// Overwrites keys_dev with the k keys of a section that is all code and has room for the flags.
// Sets bits of *error_dev where the section is not of the length that they say, or flags stand
// after the last key. The keys may be anything: they are checked elsewhere.
Status DecodeDeltas(const unsigned char* section_dev, uint64_t num_section_bytes, uint32_t k,
                    const DeltaBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                    uint32_t* keys_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DELTA_BYTES_H_
