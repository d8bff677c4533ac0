// FitSegments of core/value/piecewise_polynomial.h on the device, of both signs at once.
#ifndef TFCOMPRESS_CUDA_POLYNOMIAL_FIT_H_
#define TFCOMPRESS_CUDA_POLYNOMIAL_FIT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/polynomial_segments.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// A segment before it is fitted, and where it is farthest from the line that joins its ends.
struct CurvePiece {
  uint32_t begin;
  uint32_t end;
  uint32_t split;
  double distance;  // 0 where it is not to be split.
};

// The pieces of a sign, in the order in which they were made.
struct CurveState {
  uint32_t num_pieces;
  uint32_t max_pieces;
  uint32_t measured[2];  // Those of this round; kNoPiece: none.
};

struct FarthestPoint {
  double distance;
  uint32_t position;
};

struct FitBuffers {
  uint32_t max_count;
  PolynomialConfig config;
  CurveState* curves_dev;       // Of each sign.
  CurvePiece* pieces_dev;       // Of each sign, MaxSegments of them.
  FarthestPoint* farthest_dev;  // Of tiles of what is measured.
  double* part_sums_dev;        // Inner products over parts, and over blocks of parts.
  double* block_sums_dev;
  SegmentTable table;       // What is found,
  uint64_t* num_bytes_dev;  // and how many bytes of a section stand before its ranks.
};

// For up to max_count values.
void TakeFitBuffers(const PolynomialConfig& config, uint32_t max_count, Workspace* workspace,
                    FitBuffers* buffers);

// Cuts *count_dev <= max_count values, whose ascending SortKeys begin with those of
// *num_nonnegative_dev nonnegative values, into segments and fits each. The number of launches
// follows from the configuration alone: a round splits one piece of each sign, or none.
Status FitPolynomials(const uint32_t* keys_dev, const uint32_t* count_dev,
                      const uint32_t* num_nonnegative_dev, const FitBuffers& buffers,
                      cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_POLYNOMIAL_FIT_H_
