#include "core/linear/low_rank.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>

#include "core/finite.h"
#include "core/float_mode.h"
#include "core/hash.h"
#include "core/linear/orthonormalize.h"

namespace tfcompress {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// Rows of a tile at least: a strip of the right factor is read again for each tile.
constexpr int64_t kLeastRows = 16;
// Rows whose products with the left factor are summed apart, at least: each such sum has the size
// of the right factor.
constexpr int64_t kLeastSummedRows = 256;

// Rows of a tile of about kBlockElements elements.
int64_t RowsOfTile(int64_t columns, int64_t least) {
  return std::max(least, kBlockElements / std::max<int64_t>(columns, 1));
}

// About normally distributed, with an arbitrary variance: the sum of four uniform numbers.
float RandomNormal(uint64_t bits) {
  int32_t sum = -2 * 0xFFFF;
  for (int i = 0; i < 4; ++i) sum += static_cast<int32_t>((bits >> (16 * i)) & 0xFFFF);
  return static_cast<float>(sum);
}

}  // namespace

LowRank::LowRank(int rank, std::vector<MatrixShape> shapes) : rank_(rank) {
  for (const MatrixShape& shape : shapes) {
    matrices_.push_back({shape, left_size_, right_size_});
    left_size_ += rank * shape.rows;
    right_size_ += rank * shape.columns;
  }
}

Status LowRank::CheckSizes(size_t left_size, size_t right_size) const {
  if (left_size != static_cast<size_t>(left_size_)) {
    return InvalidArgument("left factors of ", left_size, " floats, expected ", left_size_);
  }
  if (right_size != static_cast<size_t>(right_size_)) {
    return InvalidArgument("right factors of ", right_size, " floats, expected ", right_size_);
  }
  return OkStatus();
}

template <typename Body>
void LowRank::ForEachTileOfRows(Executor* executor, const Body& body) const {
  std::vector<std::pair<size_t, Range>> tiles;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const MatrixShape& shape = matrices_[i].shape;
    const int64_t step = RowsOfTile(shape.columns, kLeastRows);
    for (int64_t begin = 0; begin < shape.rows; begin += step) {
      tiles.push_back({i, {begin, std::min(begin + step, shape.rows)}});
    }
  }
  executor->ParallelFor(static_cast<int64_t>(tiles.size()), [&](int64_t i) {
    body(tiles[static_cast<size_t>(i)].first, tiles[static_cast<size_t>(i)].second);
  });
}

std::vector<float> LowRank::Directions(Span<const float* const> last_right, uint64_t seed,
                                       Executor* executor) const {
  std::vector<float> right(static_cast<size_t>(right_size_));
  const auto num_matrices = static_cast<int64_t>(matrices_.size());
  executor->ParallelFor(num_matrices, [&, hash = SeededHash(seed)](int64_t i) {
    const Matrix& matrix = matrices_[static_cast<size_t>(i)];
    const int64_t size = matrix.shape.columns;
    for (int k = 0; k < rank_; ++k) {
      const int64_t first = matrix.right_begin + k * size;
      float* direction = right.data() + first;
      std::copy_n(last_right[static_cast<size_t>(i)] + k * size, size, direction);
      double squared_norm = SquaredNorm(direction, size);
      if (squared_norm == 0) {
        for (int64_t j = 0; j < size; ++j) {
          direction[j] = RandomNormal(hash(static_cast<uint64_t>(first + j)));
        }
        squared_norm = SquaredNorm(direction, size);
      }
      const double norm = std::sqrt(squared_norm);
      for (int64_t j = 0; j < size; ++j) direction[j] = static_cast<float>(direction[j] / norm);
    }
  });
  return right;
}

Status LowRank::Left(Span<const float* const> matrices, Span<const float* const> last_right,
                     uint64_t seed, Executor* executor, Span<float> left) const {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckSizes(left.size(), static_cast<size_t>(right_size_)));
  const std::vector<float> right = Directions(last_right, seed, executor);
  ForEachTileOfRows(executor, [&](size_t i, Range rows) {
    const Matrix& matrix = matrices_[i];
    TimesRight(matrices[i], matrix.shape, right.data() + matrix.right_begin, rank_, rows,
               left.data() + matrix.left_begin);
  });
  return OkStatus();
}

Status LowRank::Right(Span<const float* const> matrices, Executor* executor, Span<float> left,
                      Span<float> right) const {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckSizes(left.size(), right.size()));
  if (!AllFinite(left, executor)) {
    std::fill(right.begin(), right.end(), kNaN);
    return OkStatus();
  }
  executor->ParallelFor(static_cast<int64_t>(matrices_.size()), [&](int64_t i) {
    const Matrix& matrix = matrices_[static_cast<size_t>(i)];
    Orthonormalize(left.data() + matrix.left_begin, rank_, matrix.shape.rows);
  });
  // Each tile has a sum of its own; those of the same columns are then added in the order of their
  // rows.
  struct Tile {
    size_t matrix;
    Range rows, columns;
    std::vector<float> sum;
  };
  std::vector<Tile> tiles;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const MatrixShape& shape = matrices_[i].shape;
    const int64_t num_rows = RowsOfTile(std::min(shape.columns, kStripColumns), kLeastSummedRows);
    for (int64_t row = 0; row < shape.rows; row += num_rows) {
      for (int64_t column = 0; column < shape.columns; column += kStripColumns) {
        tiles.push_back({i,
                         {row, std::min(row + num_rows, shape.rows)},
                         {column, std::min(column + kStripColumns, shape.columns)},
                         {}});
      }
    }
  }
  executor->ParallelFor(static_cast<int64_t>(tiles.size()), [&](int64_t i) {
    Tile& tile = tiles[static_cast<size_t>(i)];
    const Matrix& matrix = matrices_[tile.matrix];
    tile.sum.resize(static_cast<size_t>(rank_ * tile.columns.size()));
    TransposeTimesLeft(matrices[tile.matrix], matrix.shape, left.data() + matrix.left_begin, rank_,
                       tile.rows, tile.columns, tile.sum.data());
  });
  std::fill(right.begin(), right.end(), 0.0f);
  for (const Tile& tile : tiles) {
    const Matrix& matrix = matrices_[tile.matrix];
    for (int k = 0; k < rank_; ++k) {
      const float* sum = tile.sum.data() + k * tile.columns.size();
      float* to = right.data() + matrix.right_begin + k * matrix.shape.columns + tile.columns.begin;
      for (int64_t j = 0; j < tile.columns.size(); ++j) to[j] += sum[j];
    }
  }
  return OkStatus();
}

Status LowRank::Decode(Span<const float* const> matrices, Span<const float> left,
                       Span<const float> right, float scale, Executor* executor,
                       Span<float* const> decoded, Span<float* const> residuals,
                       bool* finite) const {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckSizes(left.size(), right.size()));
  std::atomic<bool> all_finite{AllFinite(right, executor)};
  if (all_finite) {
    ForEachTileOfRows(executor, [&](size_t i, Range rows) {
      const Matrix& matrix = matrices_[i];
      const bool is_finite = Expand(matrices[i], matrix.shape, left.data() + matrix.left_begin,
                                    right.data() + matrix.right_begin, rank_, scale, rows,
                                    decoded[i], residuals.empty() ? nullptr : residuals[i]);
      if (!is_finite) all_finite = false;
    });
  }
  *finite = all_finite;
  if (!*finite) {
    for (size_t i = 0; i < matrices_.size(); ++i) {
      const MatrixShape& shape = matrices_[i].shape;
      std::fill_n(decoded[i], shape.rows * shape.columns, kNaN);
    }
  }
  return OkStatus();
}

}  // namespace tfcompress
