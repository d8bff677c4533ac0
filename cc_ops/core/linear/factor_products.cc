#include "core/linear/factor_products.h"

#include <algorithm>
#include <cstring>

#include "core/float_order.h"
#include "core/simd.h"

namespace tfcompress {
namespace {

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

// Calls body(strip) for the strips of the columns, in order.
template <typename Body>
void ForEachStrip(int64_t columns, const Body& body) {
  for (int64_t begin = 0; begin < columns; begin += kStripColumns) {
    body(Range{begin, std::min(begin + kStripColumns, columns)});
  }
}

// Calls group(first, size) for groups of 4, 2 and 1 that make up [0, count), in order; `size` is a
// std::integral_constant.
template <typename Group>
inline void InGroups(int count, const Group& group) {
  int first = 0;
  for (; first + 4 <= count; first += 4) group(first, std::integral_constant<int, 4>());
  if (first + 2 <= count) {
    group(first, std::integral_constant<int, 2>());
    first += 2;
  }
  if (first < count) group(first, std::integral_constant<int, 1>());
}

// Adds the products of `count` elements of a row with kVectors vectors, `stride` floats apart, to
// sums[0], sums[sum_stride], ... Lane l of a sum has elements l, l + kLanes, ...
template <int kVectors>
inline void AddDotProducts(const float* row, const float* vectors, int64_t stride, int64_t count,
                           float* sums, int64_t sum_stride) {
  Floats lanes[kVectors] = {};
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Floats x;
    std::memcpy(&x, row + j, sizeof(x));
    for (int k = 0; k < kVectors; ++k) {
      Floats y;
      std::memcpy(&y, vectors + k * stride + j, sizeof(y));
      lanes[k] += x * y;
    }
  }
  for (int k = 0; k < kVectors; ++k) {
    float sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += lanes[k][lane];
    for (int64_t i = j; i < count; ++i) sum += row[i] * vectors[k * stride + i];
    sums[k * sum_stride] += sum;
  }
}

// Adds coefficients times `width` elements of kRows rows to kVectors vectors, row by row. The
// coefficients of a vector are `coefficient_stride` floats apart from those of the next.
template <int kVectors, int kRows>
inline void AddRows(const float* rows, int64_t row_stride, const float* coefficients,
                    int64_t coefficient_stride, int64_t width, float* vectors,
                    int64_t vector_stride) {
  float factors[kVectors][kRows];
  for (int k = 0; k < kVectors; ++k) {
    for (int i = 0; i < kRows; ++i) factors[k][i] = coefficients[k * coefficient_stride + i];
  }
  TFC_INDEPENDENT
  for (int64_t j = 0; j < width; ++j) {
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      float sum = vectors[k * vector_stride + j];
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum += factors[k][i] * rows[i * row_stride + j];
      vectors[k * vector_stride + j] = sum;
    }
  }
}

// Adds coefficients times kVectors vectors to `sum`, vector by vector.
template <int kVectors>
inline void AddVectors(const float* vectors, int64_t vector_stride, const float* coefficients,
                       int64_t coefficient_stride, int64_t width, float* sum) {
  float factors[kVectors];
  for (int k = 0; k < kVectors; ++k) factors[k] = coefficients[k * coefficient_stride];
  TFC_INDEPENDENT
  for (int64_t j = 0; j < width; ++j) {
    float value = sum[j];
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) value += factors[k] * vectors[k * vector_stride + j];
    sum[j] = value;
  }
}

}  // namespace

void TimesRight(const float* matrix, const MatrixShape& shape, const float* right, int rank,
                Range rows, float* left) {
  for (int k = 0; k < rank; ++k) {
    std::fill(left + k * shape.rows + rows.begin, left + k * shape.rows + rows.end, 0.0f);
  }
  ForEachStrip(shape.columns, [=](Range strip) {
    Vectorized([=] {
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        InGroups(rank, [=](int k, auto size) {
          AddDotProducts<size>(matrix + i * shape.columns + strip.begin,
                               right + k * shape.columns + strip.begin, shape.columns, strip.size(),
                               left + k * shape.rows + i, shape.rows);
        });
      }
    });
  });
}

void TransposeTimesLeft(const float* matrix, const MatrixShape& shape, const float* left, int rank,
                        Range rows, Range columns, float* right) {
  const int64_t width = columns.size();
  std::fill_n(right, rank * width, 0.0f);
  Vectorized([=] {
    for (int64_t i = rows.begin; i < rows.end; i += 4) {
      const int num_rows = static_cast<int>(std::min<int64_t>(4, rows.end - i));
      InGroups(rank, [=](int k, auto num_vectors) {
        InGroups(num_rows, [=](int row, auto size) {
          AddRows<num_vectors, size>(matrix + (i + row) * shape.columns + columns.begin,
                                     shape.columns, left + k * shape.rows + i + row, shape.rows,
                                     width, right + k * width, width);
        });
      });
    }
  });
}

bool Expand(const float* matrix, const MatrixShape& shape, const float* left, const float* right,
            int rank, float scale, Range rows, float* product, float* difference) {
  bool finite = true;
  ForEachStrip(shape.columns, [=, &finite](Range strip) {
    Vectorized([=, out = &finite] {
      float sum[kStripColumns];
      uint32_t bad = 0;
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        std::fill_n(sum, strip.size(), 0.0f);
        InGroups(rank, [=, to = sum + 0](int k, auto size) {
          AddVectors<size>(right + k * shape.columns + strip.begin, shape.columns,
                           left + k * shape.rows + i, shape.rows, strip.size(), to);
        });
        const int64_t begin = i * shape.columns + strip.begin;
        const float* x = matrix + begin;
        float* scaled = product + begin;
        TFC_INDEPENDENT
        for (int64_t j = 0; j < strip.size(); ++j) {
          scaled[j] = scale * sum[j];
          bad |= !IsFiniteBits(FloatBits(scaled[j]));
        }
        if (difference == nullptr) continue;
        float* left_out = difference + begin;
        TFC_INDEPENDENT
        for (int64_t j = 0; j < strip.size(); ++j) left_out[j] = x[j] - sum[j];
      }
      if (bad) *out = false;
    });
  });
  return finite;
}

}  // namespace tfcompress
