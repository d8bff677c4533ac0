// The layout of a frame: sets the lengths of its sections before they are written, and writes its
// header afterwards.
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

// Initializes the state: `k` elements will be selected, if that is known.
Status BeginState(uint32_t k, uint32_t min_magnitude, EncodeState* state_dev, cudaStream_t stream);

// Sets the size of the support to *num_marked_dev, or keeps the known size if that is null; to 0 if
// the vector is not finite.
Status SetSupportSize(const uint64_t* num_marked_dev, EncodeState* state_dev, cudaStream_t stream);

// Lengths that depend on the data.
struct DataLengths {
  // delta_binary: the payload; bloom: the filter; delta_adaptive and delta_flag: the whole section.
  const uint64_t* num_payload_bytes_dev;
  // The section of joint codecs and of measured values; else null.
  const uint64_t* num_value_bytes_dev;
};

// Sets the lengths. For a frame above `max_bytes`, sets k to 0 and too_long.
Status LayOut(uint32_t n, IndexKind index, const ValueSpec& value, const DataLengths& lengths,
              uint64_t max_bytes, EncodeState* state_dev, cudaStream_t stream);

// Writes the header, with the checksum. `header` has the fields that the host knows; the frame has
// at most `max_bytes` bytes.
Status FinishFrame(const WireHeader& header, uint64_t max_bytes, EncodeState* state_dev,
                   unsigned char* frame_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_LAYOUT_H_
