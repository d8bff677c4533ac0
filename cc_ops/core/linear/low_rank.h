// Low-rank approximation of the mean of matrices over ranks: PowerSGD (Vogels, Karimireddy and
// Jaggi, NeurIPS 2019), Algorithm 1. One step of power iteration in two rounds of sums, which an
// all-reduce makes. FORMAT.md, "Linear payloads".
//
// A step on every rank, where M is its own matrix of rows x columns:
//   left  = Left(M, right of the step before)     P = M Q
//   left  = mean of all ranks' left
//   right = Right(M, left)                        P = orthonormal basis of P;  Q = M^T P
//   right = mean of all ranks' right
//   Decode(left, right)                           the mean of M is about P Q^T
#ifndef TFCOMPRESS_CORE_LINEAR_LOW_RANK_H_
#define TFCOMPRESS_CORE_LINEAR_LOW_RANK_H_

#include <cstdint>
#include <vector>

#include "core/executor.h"
#include "core/linear/factor_products.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Of several matrices at once: their factors are one payload, end to end. The vectors of a factor
// stand one after another. Nothing depends on the executor, and what all ranks compute of the same
// sums has the same bits on every machine.
class LowRank {
 public:
  // `rank` is at least 1.
  LowRank(int rank, std::vector<MatrixShape> shapes);

  // Floats of the left and of the right factors of all matrices.
  int64_t left_size() const { return left_size_; }
  int64_t right_size() const { return right_size_; }

  // Sets `left` to the products of the matrices and the right factors of the last step. Vectors of
  // these count by their direction; one that is zero, as all are before the first step, is drawn at
  // random: `seed` must be the same on all ranks. NaN or Inf in a matrix makes floats of its `left`
  // NaN or Inf. Fails with InvalidArgument for a `left` of another size than left_size().
  Status Left(Span<const float* const> matrices, Span<const float* const> last_right, uint64_t seed,
              Executor* executor, Span<float> left) const;

  // Makes the sums in `left` orthonormal, matrix by matrix, and sets `right` to the products of the
  // transposed matrices and these. If anything in `left` is not finite, all of `right` is NaN, and
  // `left` stays. Fails with InvalidArgument for another size of `left` or `right`.
  Status Right(Span<const float* const> matrices, Executor* executor, Span<float> left,
               Span<float> right) const;

  // Sets decoded[i] to `scale` times the product of the factors of matrix i, and residuals[i],
  // which may be the matrix itself, to the matrix less the product. Without residuals the span is
  // empty. `finite` says whether all products are, and whether `right` is; if not, they are all
  // NaN. Fails with InvalidArgument for another size of `left` or `right`.
  Status Decode(Span<const float* const> matrices, Span<const float> left, Span<const float> right,
                float scale, Executor* executor, Span<float* const> decoded,
                Span<float* const> residuals, bool* finite) const;

 private:
  struct Matrix {
    MatrixShape shape;
    int64_t left_begin;
    int64_t right_begin;
  };

  Status CheckSizes(size_t left_size, size_t right_size) const;
  std::vector<float> Directions(Span<const float* const> last_right, uint64_t seed,
                                Executor* executor) const;
  // Calls body(matrix, rows) for tiles of whole rows of all matrices, from several threads.
  template <typename Body>
  void ForEachTileOfRows(Executor* executor, const Body& body) const;

  int rank_;
  std::vector<Matrix> matrices_;
  int64_t left_size_ = 0;
  int64_t right_size_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_LINEAR_LOW_RANK_H_
