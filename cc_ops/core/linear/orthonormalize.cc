#include "core/linear/orthonormalize.h"

#include <cmath>
#include <vector>

#include "core/simd.h"

namespace tfcompress {
namespace {

// What remains of a vector below this share of its norm is its rounding.
constexpr double kLeastShare = 1e-6;

// The sum of x[i] y[i], as 8 sums of every eighth product, added in their order, and the products
// that are left.
template <typename X, typename Y>
double DotProduct(const X* x, const Y* y, int64_t size) {
  double product = 0;
  Vectorized([=, out = &product] {
    constexpr int kLanes = 8;
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= size; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
      }
    }
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    for (; i < size; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    *out = sum;
  });
  return product;
}

void SubtractMultiple(double factor, const double* x, int64_t size, double* from) {
  Vectorized([=] {
    TFC_INDEPENDENT
    for (int64_t i = 0; i < size; ++i) from[i] -= factor * x[i];
  });
}

}  // namespace

double SquaredNorm(const float* values, int64_t size) { return DotProduct(values, values, size); }

void Orthonormalize(float* vectors, int count, int64_t size) {
  std::vector<double> basis(static_cast<size_t>(count * size));
  for (int k = 0; k < count; ++k) {
    float* vector = vectors + k * size;
    double* own = basis.data() + k * size;
    for (int64_t i = 0; i < size; ++i) own[i] = vector[i];
    const double given = DotProduct(own, own, size);
    // A second pass takes out what the rounding of the first has left.
    for (int pass = 0; pass < 2; ++pass) {
      for (const double* other = basis.data(); other != own; other += size) {
        SubtractMultiple(DotProduct(other, own, size), other, size, own);
      }
    }
    const double remaining = DotProduct(own, own, size);
    const bool depends = !(remaining > kLeastShare * kLeastShare * given);
    const double scale = depends ? 0.0 : 1.0 / std::sqrt(remaining);
    for (int64_t i = 0; i < size; ++i) {
      own[i] *= scale;
      vector[i] = static_cast<float>(own[i]);
    }
  }
}

}  // namespace tfcompress
