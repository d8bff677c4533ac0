// Orthonormal bases of a few long vectors.
#ifndef TFCOMPRESS_CORE_LINEAR_ORTHONORMALIZE_H_
#define TFCOMPRESS_CORE_LINEAR_ORTHONORMALIZE_H_

#include <cstdint>

namespace tfcompress {

// The sum of squares of `size` floats, in double precision and a fixed order.
double SquaredNorm(const float* values, int64_t size);

// Replaces `count` vectors of `size` finite floats, one after another, by orthonormal ones that
// span the same space, by Gram-Schmidt in double precision. A vector that depends on those before
// it, to the precision of floats, becomes zero. Sums have a fixed order: equal vectors give equal
// bits on every machine.
void Orthonormalize(float* vectors, int count, int64_t size);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_LINEAR_ORTHONORMALIZE_H_
