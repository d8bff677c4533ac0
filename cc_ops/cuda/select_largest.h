// Exact selection of the k largest magnitudes, ties by lower index: a radix selection over three
// digits. After the first digit, only the candidates (elements of its bucket and above) are read;
// if there are too many for their buffer, the dense vector is read instead.
#ifndef TFCOMPRESS_CUDA_SELECT_LARGEST_H_
#define TFCOMPRESS_CUDA_SELECT_LARGEST_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/dense_vector.h"
#include "cuda/digits.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct SelectBuffers {
  uint32_t* histograms_dev[kNumDigits];
  uint32_t capacity;  // Maximum number of candidates.
  uint32_t* indices_dev;
  uint32_t* magnitudes_dev;
  uint64_t* kept_dev;  // Kept elements of each tile of candidates.
  DeviceBuffer scan_storage;
};

Status TakeSelectBuffers(uint32_t n, uint32_t k, Workspace* workspace, SelectBuffers* buffers);

// Clears the histograms. Inspect then fills the first one.
Status BeginSelect(const SelectBuffers& buffers, cudaStream_t stream);

// Sets state_dev->min_magnitude to the begin of the bucket of the k-th largest, from the first
// histogram. Settle then marks the candidates.
Status FindBucket(const SelectBuffers& buffers, EncodeState* state_dev, cudaStream_t stream);

// Overwrites the k elements of selected_dev with the indices of the k largest elements of `dense`,
// ascending. `marks` must hold the candidates. Writes nothing if the vector is not finite.
Status SelectLargest(const SelectBuffers& buffers, const Marks& marks, const DenseVector& dense,
                     EncodeState* state_dev, uint32_t* selected_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SELECT_LARGEST_H_
