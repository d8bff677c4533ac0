// Exact selection of the k largest magnitudes, ties by lower index: a radix selection over three
// digits, of one vector or of several side by side. After the first digit, only the candidates
// (elements of its bucket and above) are read; if there are too many for their buffer, the dense
// vector is read instead.
#ifndef TFCOMPRESS_CUDA_SELECT_LARGEST_H_
#define TFCOMPRESS_CUDA_SELECT_LARGEST_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/span.h"
#include "core/status.h"
#include "cuda/dense_vector.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/select_space.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;

// Of how many elements how many are selected.
struct SelectSize {
  uint32_t n;
  uint32_t k;
};

// Buffers for vectors side by side.
struct SelectBuffers {
  std::vector<SelectSpace> spaces;  // Of each vector; their histograms and tiles lie end to end.
  DeviceBuffer scan_storage;
};

Status TakeSelectBuffers(Span<const SelectSize> sizes, Workspace* workspace,
                         SelectBuffers* buffers);

// Clears the histograms. Inspect then fills the first one of each vector.
Status BeginSelect(const SelectBuffers& buffers, cudaStream_t stream);

// Sets state_dev->min_magnitude to the begin of the bucket of the k-th largest, from the first
// histogram. Settle then marks the candidates.
Status FindBucket(const SelectBuffers& buffers, EncodeState* state_dev, cudaStream_t stream);
Status FindBucket(const Parts<EncodedFrame>& frames, cudaStream_t stream);

// Overwrites the k elements of selected_dev with the indices of the k largest elements of `dense`,
// ascending. `marks` must hold the candidates. Writes nothing if the vector is not finite.
Status SelectLargest(const SelectBuffers& buffers, const Marks& marks, const DenseVector& dense,
                     EncodeState* state_dev, uint32_t* selected_dev, cudaStream_t stream);
// The same for the support of each frame, of marks and buffers of all.
Status SelectLargest(const SelectBuffers& buffers, const Marks& marks,
                     const Parts<EncodedFrame>& frames, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SELECT_LARGEST_H_
