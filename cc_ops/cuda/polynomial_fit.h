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

// A segment before it is fitted, with its point farthest from the line that joins its ends.
struct CurvePiece {
  uint32_t begin;
  uint32_t end;
  uint32_t split;
  double distance;  // 0 if the piece is not to be split.
};

// The pieces of a sign, in the order of their creation.
struct CurveState {
  uint32_t num_pieces;
  uint32_t max_pieces;
  uint32_t measured[2];  // Pieces measured in this round, or kNoPiece.
};

struct FarthestPoint {
  double distance;
  uint32_t position;
};

struct FitBuffers {
  uint32_t max_count;
  PolynomialConfig config;
  CurveState* curves_dev;       // One for each sign.
  CurvePiece* pieces_dev;       // MaxSegments for each sign.
  FarthestPoint* farthest_dev;  // One for each tile of the measured pieces.
  double* part_sums_dev;        // Inner products over parts, and over blocks of parts.
  double* block_sums_dev;
  SegmentTable table;       // The resulting segments.
  uint64_t* num_bytes_dev;  // Bytes before the ranks of a section.
};

// Takes buffers for up to max_count values.
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
