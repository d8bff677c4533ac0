// Frames of all elements, for the value codecs that need to know no more than the values of a tile:
// one pass over the gradient and the memory's slots compensates, writes the values' section, and
// subtracts what it decodes to.
#ifndef TFCOMPRESS_CUDA_DENSE_ENCODER_H_
#define TFCOMPRESS_CUDA_DENSE_ENCODER_H_

#include <cuda_runtime.h>

#include "core/status.h"
#include "cuda/device_variants.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

// Whether frames of the spec are encoded so: dense ones of numbers, and of block_int with 3 bits
// and more, whose scales are maxima. With 2 bits they are sums in the core's order, of which
// several lanes make one.
bool EncodesInOnePass(const DeviceSpec& spec);

// Writes the value sections, which hold all elements and begin after the headers, and the slots
// after the step. No frame may be longer than its buffer. Sets `nonfinite` in the states of vectors
// that are not finite; their slots are those before the step, and their sections unspecified. Slots
// that are updated in place could not be put back, so that with any the vectors are inspected
// first.
Status EncodeDense(const DeviceSpec& spec, const Parts<EncodedFrame>& frames, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DENSE_ENCODER_H_
