// The layout of frames: sets the lengths of their sections before they are written, and writes
// their headers afterwards.
#ifndef TFCOMPRESS_CUDA_FRAME_LAYOUT_H_
#define TFCOMPRESS_CUDA_FRAME_LAYOUT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "cuda/device_variants.h"
#include "cuda/encode_state.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/value_spec.h"

namespace tfcompress {
namespace device {

// Initializes a state: `k` elements will be selected, if that is known.
Status BeginState(uint32_t k, EncodeState* state_dev, cudaStream_t stream);
// The same for frames, whose table it writes to frames_dev; Settle marks what is of at least
// `min_magnitude`.
Status BeginFrames(Span<const EncodedFrame> frames, uint32_t min_magnitude,
                   EncodedFrame* frames_dev, cudaStream_t stream);

// Sets the sizes of the supports that are not known, or, if they are `narrowed`, of all, to the
// number of marks; to 0 where the vector is not finite.
Status SetSupportSizes(const Parts<EncodedFrame>& frames, bool narrowed, cudaStream_t stream);

// Sets the lengths. For a frame above kMaxFrameBytes, sets k to 0 and too_long.
Status LayOut(const Parts<EncodedFrame>& frames, IndexKind index, const ValueSpec& value,
              cudaStream_t stream);

// Writes headers and checksums; takes the fields that the host knows from frame.header.
Status FinishFrames(const Parts<EncodedFrame>& frames, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_LAYOUT_H_
