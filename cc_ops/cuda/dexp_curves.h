// The curves of dexp on the device: fitted to sorted values, and evaluated at their ranks, for
// several frames or sections side by side.
#ifndef TFCOMPRESS_CUDA_DEXP_CURVES_H_
#define TFCOMPRESS_CUDA_DEXP_CURVES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "core/value/curve_fit.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/sorted_values.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct AddedValues;

// Fitting state for the values of one sign of a frame: where its keys and the sums of its parts
// begin; the cells, with the position at which each begins in the sorted values and in the sums of
// parts; and the data points fitted to.
struct CurveWork {
  uint64_t first_key;
  uint64_t first_sum;
  uint32_t cell_begin[kMaxCells + 1];
  uint32_t part_begin[kMaxCells + 1];
  CurveFit fit;
};

struct CurveBuffers {
  double* sums_dev;     // Of the parts of all cells.
  CurveWork* work_dev;  // One for each sign of each frame.
};

// Takes buffers for frames that send at most max_sent values each.
void TakeCurveBuffers(Span<const EncodedFrame> frames, Workspace* workspace, CurveBuffers* buffers);

// Fits a curve to each sign of the sorted values of each frame: params_dev->curves[0] to the
// nonnegative values, the other one to the negative ones.
Status FitCurves(const Parts<EncodedFrame>& frames, const SortedBuffers& sorted,
                 const CurveBuffers& buffers, cudaStream_t stream);

// Sets sorted.table_dev() to the decoded value of each rank, where the ranks of the frame begin.
Status EvaluateCurves(const Parts<EncodedFrame>& frames, const SortedBuffers& sorted,
                      cudaStream_t stream);
// Sets table_dev of each section to the decoded value of each rank. Does nothing for those without
// values, and those whose error is set.
Status EvaluateCurves(const Parts<AddedValues>& sections, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DEXP_CURVES_H_
