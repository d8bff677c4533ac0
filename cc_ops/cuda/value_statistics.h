// Statistics that value codecs need before they code: extremes, and sums in the order of
// core/value/block_statistics.h, so that they have the same bits.
#ifndef TFCOMPRESS_CUDA_VALUE_STATISTICS_H_
#define TFCOMPRESS_CUDA_VALUE_STATISTICS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "cuda/dense_vector.h"
#include "cuda/parts.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;

// The elements of a support, in its order.
struct SelectedValues {
  DenseVector dense;
  const uint32_t* indices_dev;  // Null for all elements.

  __device__ uint32_t IndexOf(uint64_t i) const {
    return indices_dev == nullptr ? static_cast<uint32_t>(i) : indices_dev[i];
  }
  __device__ float At(uint64_t i) const { return dense.At(IndexOf(i)); }
};

struct Extremes {
  uint32_t complement_of_least_key;  // Complement of an OrderedKey, so that all of these begin as 0
                                     // and grow.
  uint32_t largest_key;
  uint32_t largest_magnitude;           // Bits.
  uint32_t complement_of_least_normal;  // Magnitude; 0 without one.
  uint32_t num_negative;
};

// Sums of parts, and of blocks of them.
struct SumBuffers {
  double* parts_dev;
  double* blocks_dev;
};
// Takes the first num_sums sums of each frame.
void TakeSums(int num_sums, Workspace* workspace, Span<EncodedFrame> frames);

// Which values of a frame are observed: those that it sends, or those of its support, before it is
// known what will be sent.
enum class ObservedValues { kSent, kSupport };

// All of these take the values of frames side by side, which are as many as their states say.
// Finds the extremes, which must be 0 before.
Status FindExtremes(const Parts<EncodedFrame>& frames, ObservedValues observed,
                    cudaStream_t stream);
// Compute the first sum.
Status SumMagnitudes(const Parts<EncodedFrame>& frames, ObservedValues observed,
                     cudaStream_t stream);
Status SumSquares(const Parts<EncodedFrame>& frames, cudaStream_t stream);
// Computes a sum for each sign.
Status SumSigns(const Parts<EncodedFrame>& frames, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_VALUE_STATISTICS_H_
