// The fit of a double exponential, as a template over the team that adds: a thread, or the lanes of
// a warp. Both add in the same order, so that the curve has the same bits.
//
// Given the rates b and d the model is linear, so only they are searched: first over all pairs of a
// grid, then by damped Gauss-Newton steps. The grid makes the start safe where a non-iterative
// estimate (Jacquelin's integral equation) has complex roots or divides noise by noise: constant
// parts, single exponentials, short parts, steps.
#ifndef TFCOMPRESS_CORE_VALUE_CURVE_FIT_H_
#define TFCOMPRESS_CORE_VALUE_CURVE_FIT_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/float_order.h"
#include "core/host_device.h"
#include "core/value/curve_cells.h"
#include "core/value/double_exponential.h"

namespace tfcompress {

inline constexpr int kNumGridRates = 15;

// The data of a fit: the points and working memory.
struct CurveFit {
  uint32_t num_points;
  CurvePoint points[kMaxCells];

  double terms[kNumGridRates][kMaxCells];
  struct {
    double norm;   // |e_i|
    double along;  // y . e_i / |e_i|
  } grid[kNumGridRates];
};

// Number of lanes of a sum: item i belongs to lane i % kFitLanes, which adds its items in their
// order; then the upper half of the lanes is added to the lower half, until one lane is left.
inline constexpr int kFitLanes = 32;

// `Team` has
//   ForEach(n, body)            body(i) for each i < n, by the lane of i;
//   Sum<kCount>(n, term, sums)  sets sums[j], for all lanes, to the sum of terms[j] over i < n,
//                               which term(i, terms) sets;
//   Store(value, address)       stores once, visible to all lanes.
// All lanes execute everything else identically.
template <typename Team>
class CurveFitter {
 public:
  TFC_HOST_DEVICE CurveFitter(const Team& team, CurveFit* fit) : team_(team), fit_(*fit) {}

  // Fits points with x in [0, 1] ascending and |y| <= 1. Falls back to zeros if nothing fits.
  TFC_HOST_DEVICE DoubleExponential Fit() {
    Solution solution = SolveAmplitudes(SearchGrid());
    if (!solution.IsFinite()) return {};
    solution = Refine(solution);
    // Round the rates before the last solution for the amplitudes, which then compensates for it.
    const Rates rounded = {RoundToNormal(solution.rates.b), RoundToNormal(solution.rates.d)};
    solution = SolveAmplitudes(rounded);
    if (!solution.IsFinite()) return {};
    return {RoundToNormal(solution.a), RoundToNormal(rounded.b), RoundToNormal(solution.c),
            RoundToNormal(rounded.d)};
  }

 private:
  static constexpr double kMinRate = -1e6;
  static constexpr double kMaxRate = 80;
  static constexpr int kMaxSteps = 24;
  static constexpr double kNoFit = std::numeric_limits<double>::infinity();

  // Two exponentials whose squared sine is below this count as equal: their amplitudes would be
  // large, of opposite sign, and lose all digits as floats.
  static constexpr double kMinDeterminant = 1e-8;

  struct Rates {
    double b;
    double d;
  };

  // The best amplitudes for given rates.
  struct Solution {
    Rates rates;
    double a;
    double c;
    double error;  // Weighted sum of squares.

    TFC_HOST_DEVICE bool IsFinite() const { return error < kNoFit; }
  };

  // Normal equations of the model linearised at a solution, in the order a, c, b, d.
  struct NormalEquations {
    double matrix[4][4];  // The lower triangle.
    double right[4];
  };
  struct Steps {
    double of[4];
  };

  // Returns -2^16, -2^14, ... -2^4; -8, -4, -2, -1, 0; 1, 4, 16. Computed, since a table would be
  // in the thread's local memory on a GPU.
  TFC_HOST_DEVICE static double GridRate(int i) {
    if (i < 7) return -static_cast<double>(1 << (16 - 2 * i));
    if (i < 11) return -static_cast<double>(1 << (10 - i));
    return i == 11 ? 0 : static_cast<double>(1 << (2 * (i - 12)));
  }

  TFC_HOST_DEVICE void SetTerms(double rate, double* terms) {
    const CurvePoint* points = fit_.points;
    team_.ForEach(fit_.num_points,
                  [=](uint32_t i) { terms[i] = DoubleExponential::Term(rate * points[i].x); });
  }

  // Returns the pair of grid rates with the least error, in closed form from inner products.
  TFC_HOST_DEVICE Rates SearchGrid() {
    const CurvePoint* points = fit_.points;
    for (int i = 0; i < kNumGridRates; ++i) {
      const double* u = fit_.terms[i];
      SetTerms(GridRate(i), fit_.terms[i]);
      double sums[2];
      team_.template Sum<2>(
          fit_.num_points,
          [=](uint32_t at, double* terms) {
            const double weighted = points[at].weight * u[at];
            terms[0] = weighted * u[at];
            terms[1] = weighted * points[at].y;
          },
          sums);
      const double norm = std::sqrt(sums[0]);
      team_.Store(norm, &fit_.grid[i].norm);
      team_.Store(sums[1] / norm, &fit_.grid[i].along);
    }
    Rates best = {0, 0};
    double best_explained = -1;
    for (int i = 0; i < kNumGridRates; ++i) {
      for (int j = 0; j < i; ++j) {
        const double explained = Explained(i, j);
        if (explained > best_explained) {
          best_explained = explained;
          best = {GridRate(i), GridRate(j)};
        }
      }
    }
    return best;
  }

  // Returns the sum of squares that two grid rates explain; the minimum if they count as equal.
  TFC_HOST_DEVICE double Explained(int i, int j) {
    const CurvePoint* points = fit_.points;
    const double* u = fit_.terms[i];
    const double* v = fit_.terms[j];
    double dot;
    team_.template Sum<1>(
        fit_.num_points,
        [=](uint32_t at, double* terms) { terms[0] = points[at].weight * u[at] * v[at]; }, &dot);
    const auto& first = fit_.grid[i];
    const auto& second = fit_.grid[j];
    const double cosine = dot / (first.norm * second.norm);
    const double determinant = 1 - cosine * cosine;
    if (!(determinant >= kMinDeterminant)) return -kNoFit;
    return (first.along * first.along - 2 * cosine * first.along * second.along +
            second.along * second.along) /
           determinant;
  }

  // Solves for the amplitudes, and stores the terms of the rates in fit_.terms[0] and [1].
  TFC_HOST_DEVICE Solution SolveAmplitudes(const Rates& rates) {
    const CurvePoint* points = fit_.points;
    const double* u = fit_.terms[0];
    const double* v = fit_.terms[1];
    SetTerms(rates.b, fit_.terms[0]);
    SetTerms(rates.d, fit_.terms[1]);
    double sums[5];
    team_.template Sum<5>(
        fit_.num_points,
        [=](uint32_t i, double* terms) {
          const double weighted_u = points[i].weight * u[i];
          const double weighted_v = points[i].weight * v[i];
          terms[0] = weighted_u * u[i];
          terms[1] = weighted_u * v[i];
          terms[2] = weighted_v * v[i];
          terms[3] = weighted_u * points[i].y;
          terms[4] = weighted_v * points[i].y;
        },
        sums);
    const double uu = sums[0], uv = sums[1], vv = sums[2], uy = sums[3], vy = sums[4];
    const double determinant = uu * vv - uv * uv;
    Solution solution = {rates, 0, 0, kNoFit};
    if (!(determinant > kMinDeterminant * uu * vv)) return solution;
    const double a = (uy * vv - vy * uv) / determinant;
    const double c = (vy * uu - uy * uv) / determinant;
    team_.template Sum<1>(
        fit_.num_points,
        [=](uint32_t i, double* terms) {
          const double residual = points[i].y - a * u[i] - c * v[i];
          terms[0] = points[i].weight * residual * residual;
        },
        &solution.error);
    solution.a = a;
    solution.c = c;
    return solution;
  }

  // Linearizes at the last solution found, whose terms are stored.
  TFC_HOST_DEVICE NormalEquations Linearize(const Solution& solution) {
    const CurvePoint* points = fit_.points;
    const double* u = fit_.terms[0];
    const double* v = fit_.terms[1];
    const double a = solution.a, c = solution.c;
    double sums[14];
    team_.template Sum<14>(
        fit_.num_points,
        [=](uint32_t at, double* terms) {
          const CurvePoint point = points[at];
          const double slope[4] = {u[at], v[at], a * point.x * u[at], c * point.x * v[at]};
          const double residual = point.y - a * u[at] - c * v[at];
          for (int i = 0; i < 4; ++i) {
            for (int j = 0; j <= i; ++j)
              terms[i * (i + 1) / 2 + j] = point.weight * slope[i] * slope[j];
            terms[10 + i] = point.weight * slope[i] * residual;
          }
        },
        sums);
    NormalEquations equations = {};
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j <= i; ++j) equations.matrix[i][j] = sums[i * (i + 1) / 2 + j];
      equations.right[i] = sums[10 + i];
    }
    return equations;
  }

  // Solves the equations with their diagonal raised by the factor 1 + damping (Marquardt), by
  // Cholesky's decomposition of the matrix scaled to a unit diagonal. A direction without any slope
  // gets no step.
  TFC_HOST_DEVICE static Steps SolveDamped(const NormalEquations& equations, double damping) {
    double scale[4];
    double lower[4][4] = {};
    Steps steps = {};
    for (int i = 0; i < 4; ++i) {
      const double diagonal = equations.matrix[i][i];
      scale[i] = diagonal > 0 ? 1 / std::sqrt(diagonal) : 0;
    }
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j <= i; ++j) {
        double sum = i == j ? 1 + damping : equations.matrix[i][j] * scale[i] * scale[j];
        for (int m = 0; m < j; ++m) sum -= lower[i][m] * lower[j][m];
        lower[i][j] = i == j ? std::sqrt(sum > 1e-300 ? sum : 1e-300) : sum / lower[j][j];
      }
    }
    for (int i = 0; i < 4; ++i) {
      double sum = equations.right[i] * scale[i];
      for (int m = 0; m < i; ++m) sum -= lower[i][m] * steps.of[m];
      steps.of[i] = sum / lower[i][i];
    }
    for (int i = 3; i >= 0; --i) {
      double sum = steps.of[i];
      for (int m = i + 1; m < 4; ++m) sum -= lower[m][i] * steps.of[m];
      steps.of[i] = sum / lower[i][i];
    }
    for (int i = 0; i < 4; ++i) steps.of[i] *= scale[i];
    return steps;
  }

  TFC_HOST_DEVICE static double ClampRate(double rate) {
    rate = rate > kMinRate ? rate : kMinRate;
    return rate < kMaxRate ? rate : kMaxRate;
  }

  // Levenberg-Marquardt on the rates, with the amplitudes solved anew at each.
  TFC_HOST_DEVICE Solution Refine(Solution solution) {
    constexpr double kMaxDamping = 1e3;
    constexpr double kMinGain = 1e-4;
    double damping = 1e-3;
    NormalEquations equations = Linearize(solution);
    for (int step = 0; step < kMaxSteps && damping <= kMaxDamping; ++step) {
      const Steps delta = SolveDamped(equations, damping);
      const Solution next = SolveAmplitudes(
          {ClampRate(solution.rates.b + delta.of[2]), ClampRate(solution.rates.d + delta.of[3])});
      if (!(next.error < solution.error)) {
        damping *= 8;
        continue;
      }
      const bool converged = solution.error - next.error < kMinGain * solution.error;
      solution = next;
      if (converged) break;
      damping = damping / 8 > 1e-12 ? damping / 8 : 1e-12;
      equations = Linearize(solution);
    }
    return solution;
  }

  Team team_;
  CurveFit& fit_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_CURVE_FIT_H_
