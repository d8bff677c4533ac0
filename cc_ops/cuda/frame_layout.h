// The outside of a frame: the lengths of its sections, before they are written, and its header,
// after that.
#ifndef TFCOMPRESS_CUDA_FRAME_LAYOUT_H_
#define TFCOMPRESS_CUDA_FRAME_LAYOUT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "core/wire_header.h"
#include "cuda/crc32c.h"
#include "cuda/device_variants.h"
#include "cuda/encode_state.h"

namespace tfcompress {
namespace device {

// The state before anything else: `k` elements will be selected, where that is known.
Status BeginState(uint32_t k, uint32_t min_magnitude, EncodeState* state_dev, cudaStream_t stream);

// Sets the size of the support: *num_marked_dev, unless that is null and it is known; none where
// the vector is not finite.
Status SetSupportSize(const uint64_t* num_marked_dev, EncodeState* state_dev, cudaStream_t stream);

// Lengths that the data decide.
struct DataLengths {
  // Of delta_binary, of the filter of bloom; of the whole section of delta_adaptive, delta_flag,
  // huffman and rle.
  const uint64_t* num_payload_bytes_dev;
  // Of the section of joint codecs and of values that are measured; else null.
  const uint64_t* num_value_bytes_dev;
};

// Sets the lengths. A frame above `max_bytes` becomes one without elements, and too_long.
Status LayOut(uint32_t n, IndexKind index, const ValueSpec& value, const DataLengths& lengths,
              uint64_t max_bytes, EncodeState* state_dev, cudaStream_t stream);

// Writes the header and its checksum over the sections. `header` has what the host knows; a frame
// has at most `max_bytes`.
Status FinishFrame(const WireHeader& header, uint64_t max_bytes, EncodeState* state_dev,
                   unsigned char* frame_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_LAYOUT_H_
