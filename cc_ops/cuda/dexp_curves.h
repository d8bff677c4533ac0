// The curves of dexp on the device: fitted to sorted values, and evaluated at their ranks.
#ifndef TFCOMPRESS_CUDA_DEXP_CURVES_H_
#define TFCOMPRESS_CUDA_DEXP_CURVES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "core/value/curve_fit.h"
#include "core/value/double_exponential.h"
#include "cuda/sorted_values.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Fitting state for the values of one sign: the cells, with the position at which each begins in
// the sorted values of the sign and in the sums of parts, and the data points fitted to.
struct CurveWork {
  uint32_t first_key;
  uint32_t cell_begin[kMaxCells + 1];
  uint32_t part_begin[kMaxCells + 1];
  CurveFit fit;
};

struct CurveBuffers {
  uint64_t max_parts;   // For each sign.
  double* sums_dev[2];  // For each sign, sums of the parts of its cells.
  CurveWork* work_dev;  // One for each sign.
};

// Takes buffers for up to max_count values.
void TakeCurveBuffers(uint32_t max_count, Workspace* workspace, CurveBuffers* buffers);

// Fits a curve to each sign of *count_dev sorted values: parts_dev[0] to the nonnegative values,
// parts_dev[1] to the negative ones.
Status FitCurves(const SortedBuffers& sorted, const uint32_t* count_dev,
                 const CurveBuffers& buffers, CurvePart* parts_dev, cudaStream_t stream);

// Sets table_dev to the decoded value of each rank of two parts, at most max_count ranks. Does
// nothing if an error is set; error_dev may be null.
Status EvaluateCurves(const CurvePart* parts_dev, uint32_t max_count, const uint32_t* error_dev,
                      float* table_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DEXP_CURVES_H_
