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

// The values of one sign: their cells, of which each begins in the sorted values of the sign and in
// the sums of parts, and what is fitted to them.
struct CurveWork {
  uint32_t first_key;
  uint32_t cell_begin[kMaxCells + 1];
  uint32_t part_begin[kMaxCells + 1];
  CurveFit fit;
};

struct CurveBuffers {
  uint64_t max_parts;   // Of a sign.
  double* sums_dev[2];  // Of the parts of a sign's cells.
  CurveWork* work_dev;  // Of each sign.
};

// For up to max_count values.
void TakeCurveBuffers(uint32_t max_count, Workspace* workspace, CurveBuffers* buffers);

// Fits a curve to each sign of *count_dev sorted values: parts_dev[0] to nonnegative ones, [1] to
// negative ones.
Status FitCurves(const SortedBuffers& sorted, const uint32_t* count_dev,
                 const CurveBuffers& buffers, CurvePart* parts_dev, cudaStream_t stream);

// Sets table_dev to what each rank of two parts decodes to, which are max_count at most. Does
// nothing where an error is set; error_dev may be null.
Status EvaluateCurves(const CurvePart* parts_dev, uint32_t max_count, const uint32_t* error_dev,
                      float* table_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DEXP_CURVES_H_
