// The splits between the buckets of a quantizer.
#ifndef TFCOMPRESS_CUDA_BUCKET_SPLITS_H_
#define TFCOMPRESS_CUDA_BUCKET_SPLITS_H_

#include <cuda_runtime.h>

#include "core/status.h"
#include "cuda/bucket_quantizer.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

// Sets the number of buckets of each part, and its splits: the least OrderedKey of every bucket but
// the first. They come from a sample, as in QuantileSketch, and one is at zero if there are values
// of both signs. The states are 0 before.
Status ChooseSplits(const Parts<QuantizerPart>& parts, const QuantizerBuffers& buffers,
                    cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BUCKET_SPLITS_H_
