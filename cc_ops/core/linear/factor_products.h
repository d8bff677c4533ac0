// Products of a row-major matrix M with the vectors of low-rank factors. Each reads its part of M
// once from memory. An element is summed in an order that follows from the shape alone: the bits
// are the same for every executor and all vector instructions.
//
// A left factor has `rank` vectors of `rows` floats, one after another, a right factor `rank`
// vectors of `columns` floats.
#ifndef TFCOMPRESS_CORE_LINEAR_FACTOR_PRODUCTS_H_
#define TFCOMPRESS_CORE_LINEAR_FACTOR_PRODUCTS_H_

#include <cstdint>

namespace tfcompress {

struct MatrixShape {
  int64_t rows = 0;
  int64_t columns = 0;
};

// Elements [begin, end) of a dimension.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Columns of a matrix that are worked on at a time: 4 KiB of a row, which stay in a core's L1
// together with as much of a few vectors of the right factor.
inline constexpr int64_t kStripColumns = 1024;

// Sets these rows of left = M right.
void TimesRight(const float* matrix, const MatrixShape& shape, const float* right, int rank,
                Range rows, float* left);

// Sets vectors of columns.size() floats, one after another, to the part that these rows have in
// these columns of right = M^T left. At most kStripColumns columns.
void TransposeTimesLeft(const float* matrix, const MatrixShape& shape, const float* left, int rank,
                        Range rows, Range columns, float* right);

// Sets these rows of the product left right^T, times `scale`, in `product`, and of M less the
// product in `difference`, which may be M itself or null. Returns whether the product is finite.
bool Expand(const float* matrix, const MatrixShape& shape, const float* left, const float* right,
            int rank, float scale, Range rows, float* product, float* difference);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_LINEAR_FACTOR_PRODUCTS_H_
