#include "core/value/double_exponential.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace tfcompress {
namespace {

// Given the rates b and d the model is linear, so only they are searched: first over all pairs of a
// grid, then by damped Gauss-Newton steps. The grid makes the start safe where a non-iterative
// estimate (Jacquelin's integral equation) has complex roots or divides noise by noise: constant
// parts, single exponentials, short parts, steps.
constexpr std::array<double, 15> kRates = {-65536, -16384, -4096, -1024, -256, -64, -16, -8,
                                           -4,     -2,     -1,    0,     1,    4,   16};
constexpr double kMinRate = -1e6;
constexpr double kMaxRate = 80;
constexpr int kMaxSteps = 24;

// Two exponentials whose squared sine is below this are the same one: their amplitudes would be
// large, of opposite sign, and lose all their digits as floats.
constexpr double kMinDeterminant = 1e-8;

using Vector4 = std::array<double, 4>;
using Matrix4 = std::array<Vector4, 4>;

struct Rates {
  double b;
  double d;
};

// The best amplitudes for given rates.
struct Fit {
  Rates rates = {0, 0};
  double a = 0;
  double c = 0;
  double error = std::numeric_limits<double>::infinity();  // Weighted sum of squares.
};

std::vector<double> Terms(Span<const CurvePoint> points, double rate) {
  std::vector<double> terms(points.size());
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = DoubleExponential::Term(rate * points[i].x);
  return terms;
}

double Dot(Span<const CurvePoint> points, const std::vector<double>& u,
           const std::vector<double>& v) {
  double sum = 0;
  for (size_t i = 0; i < points.size(); ++i) sum += points[i].weight * u[i] * v[i];
  return sum;
}

double DotY(Span<const CurvePoint> points, const std::vector<double>& u) {
  double sum = 0;
  for (size_t i = 0; i < points.size(); ++i) sum += points[i].weight * u[i] * points[i].y;
  return sum;
}

// The pair of grid rates that leaves the least error, in closed form from inner products.
Rates SearchGrid(Span<const CurvePoint> points) {
  std::array<std::vector<double>, kRates.size()> terms;
  std::array<double, kRates.size()> norm;   // |e_i|
  std::array<double, kRates.size()> along;  // y . e_i / |e_i|
  for (size_t i = 0; i < kRates.size(); ++i) {
    terms[i] = Terms(points, kRates[i]);
    norm[i] = std::sqrt(Dot(points, terms[i], terms[i]));
    along[i] = DotY(points, terms[i]) / norm[i];
  }
  Rates best = {0, 0};
  double best_explained = -1;
  for (size_t i = 0; i < kRates.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double cosine = Dot(points, terms[i], terms[j]) / (norm[i] * norm[j]);
      const double determinant = 1 - cosine * cosine;
      if (!(determinant >= kMinDeterminant)) continue;
      const double explained =
          (along[i] * along[i] - 2 * cosine * along[i] * along[j] + along[j] * along[j]) /
          determinant;
      if (explained > best_explained) {
        best_explained = explained;
        best = {kRates[i], kRates[j]};
      }
    }
  }
  return best;
}

Fit SolveAmplitudes(Span<const CurvePoint> points, Rates rates) {
  const std::vector<double> u = Terms(points, rates.b);
  const std::vector<double> v = Terms(points, rates.d);
  const double uu = Dot(points, u, u);
  const double uv = Dot(points, u, v);
  const double vv = Dot(points, v, v);
  const double uy = DotY(points, u);
  const double vy = DotY(points, v);
  const double determinant = uu * vv - uv * uv;
  Fit fit;
  fit.rates = rates;
  if (!(determinant > kMinDeterminant * uu * vv)) return fit;
  fit.a = (uy * vv - vy * uv) / determinant;
  fit.c = (vy * uu - uy * uv) / determinant;
  fit.error = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const double residual = points[i].y - fit.a * u[i] - fit.c * v[i];
    fit.error += points[i].weight * residual * residual;
  }
  return fit;
}

// Normal equations of the model linearised at `fit`, in the order a, c, b, d.
struct NormalEquations {
  Matrix4 matrix = {};
  Vector4 right = {};
};

NormalEquations Linearize(Span<const CurvePoint> points, const Fit& fit) {
  NormalEquations equations;
  for (const CurvePoint& point : points) {
    const double u = DoubleExponential::Term(fit.rates.b * point.x);
    const double v = DoubleExponential::Term(fit.rates.d * point.x);
    const Vector4 slope = {u, v, fit.a * point.x * u, fit.c * point.x * v};
    const double residual = point.y - fit.a * u - fit.c * v;
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j <= i; ++j) equations.matrix[i][j] += point.weight * slope[i] * slope[j];
      equations.right[i] += point.weight * slope[i] * residual;
    }
  }
  return equations;
}

// Solves the equations with their diagonal raised by the factor 1 + damping (Marquardt), by
// Cholesky's decomposition of the matrix scaled to a unit diagonal. A direction without any slope
// gets no step.
Vector4 SolveDamped(const NormalEquations& equations, double damping) {
  Vector4 scale;
  Matrix4 lower = {};
  Vector4 solution = {};
  for (int i = 0; i < 4; ++i) {
    const double diagonal = equations.matrix[i][i];
    scale[i] = diagonal > 0 ? 1 / std::sqrt(diagonal) : 0;
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j <= i; ++j) {
      double sum = i == j ? 1 + damping : equations.matrix[i][j] * scale[i] * scale[j];
      for (int m = 0; m < j; ++m) sum -= lower[i][m] * lower[j][m];
      lower[i][j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / lower[j][j];
    }
  }
  for (int i = 0; i < 4; ++i) {
    double sum = equations.right[i] * scale[i];
    for (int m = 0; m < i; ++m) sum -= lower[i][m] * solution[m];
    solution[i] = sum / lower[i][i];
  }
  for (int i = 3; i >= 0; --i) {
    double sum = solution[i];
    for (int m = i + 1; m < 4; ++m) sum -= lower[m][i] * solution[m];
    solution[i] = sum / lower[i][i];
  }
  for (int i = 0; i < 4; ++i) solution[i] *= scale[i];
  return solution;
}

// The nearest float, as a double. Volatile, since the vectoriser of GCC 12 at -O3 drops a pair of
// conversions to float and back.
double RoundToFloat(double value) {
  volatile float rounded = static_cast<float>(value);
  return rounded;
}

double ClampRate(double rate) { return std::min(std::max(rate, kMinRate), kMaxRate); }

// Levenberg-Marquardt on the rates, with the amplitudes solved anew at each.
Fit Refine(Span<const CurvePoint> points, Fit fit) {
  constexpr double kMaxDamping = 1e3;
  constexpr double kMinGain = 1e-4;
  double damping = 1e-3;
  NormalEquations equations = Linearize(points, fit);
  for (int step = 0; step < kMaxSteps && damping <= kMaxDamping; ++step) {
    const Vector4 delta = SolveDamped(equations, damping);
    const Rates rates = {ClampRate(fit.rates.b + delta[2]), ClampRate(fit.rates.d + delta[3])};
    const Fit next = SolveAmplitudes(points, rates);
    if (!(next.error < fit.error)) {
      damping *= 8;
      continue;
    }
    const bool converged = fit.error - next.error < kMinGain * fit.error;
    fit = next;
    if (converged) break;
    damping = std::max(damping / 8, 1e-12);
    equations = Linearize(points, fit);
  }
  return fit;
}

}  // namespace

DoubleExponential FitDoubleExponential(Span<const CurvePoint> points) {
  Fit fit = SolveAmplitudes(points, SearchGrid(points));
  if (!std::isfinite(fit.error)) return {};
  fit = Refine(points, fit);
  // Rates are rounded before the amplitudes are solved for the last time, which makes up for it.
  const Rates rounded = {RoundToFloat(fit.rates.b), RoundToFloat(fit.rates.d)};
  fit = SolveAmplitudes(points, rounded);
  if (!std::isfinite(fit.error)) return {};
  return {static_cast<float>(fit.a), static_cast<float>(fit.rates.b), static_cast<float>(fit.c),
          static_cast<float>(fit.rates.d)};
}

}  // namespace tfcompress
