// The segments of a section of poly on the device, and the values that they decode to.
#ifndef TFCOMPRESS_CUDA_POLYNOMIAL_SEGMENTS_H_
#define TFCOMPRESS_CUDA_POLYNOMIAL_SEGMENTS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/float_order.h"
#include "core/value/polynomial_basis.h"
#include "cuda/binary_search.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Offset of the first segment in a section, after the degree and the number of nonnegative
// segments. The number of negative segments is between the two groups.
inline constexpr uint64_t kSegmentsBegin = 2 * sizeof(uint32_t);

struct SectionSegment {
  uint32_t begin;     // The rank of its first value.
  uint32_t sign_bit;  // Sign of all of its values.
  uint64_t offset;    // Position in the section.
  PolynomialSegment segment;
  PolynomialBasis basis;

  // End of its bytes in the section.
  __device__ uint64_t End() const { return offset + PolynomialSegment::NumBytes(basis.size); }
  // The value of a rank in this segment.
  __device__ float ValueOf(uint32_t rank) const {
    const int64_t position = rank - begin;
    const double t = basis.PointAt(position);
    double previous = 0;
    double current = 1;
    double y = 0;
    for (uint32_t j = 0; j < basis.size; ++j) {
      y += NormalOrZero(segment.coefficients[j]) * current;
      const double next = PolynomialBasis::Next(t, current, basis.beta[j], previous);
      previous = current;
      current = next;
    }
    const PolynomialScale scale(segment.range);
    return FloatFromBits(segment.range.RoundedBits(scale.MagnitudeOf(y)) | sign_bit);
  }
};

// Segments, nonnegative ones first, ascending by their begins. They do not overlap.
struct SegmentTable {
  SectionSegment* segments_dev;
  uint32_t* num_of_sign_dev;  // kNumSigns elements.

  __device__ uint32_t NumSegments() const { return num_of_sign_dev[0] + num_of_sign_dev[1]; }
  // Finds the segment of a rank that is below k.
  __device__ const SectionSegment& Find(uint32_t rank) const {
    return segments_dev[FirstAfter(1, NumSegments(),
                                   [&](uint64_t s) { return segments_dev[s].begin > rank; }) -
                        1];
  }
};

// Takes a table for up to max_segments segments of each sign.
void TakeSegmentTable(uint32_t max_segments, Workspace* workspace, SegmentTable* table);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_POLYNOMIAL_SEGMENTS_H_
