#include "core/value/double_exponential.h"

#include <algorithm>
#include <memory>

#include "core/value/curve_fit.h"

namespace tfcompress {
namespace {

// A team of CurveFitter: one thread does the work of all lanes.
struct OneThread {
  template <typename Body>
  void ForEach(uint32_t n, const Body& body) const {
    for (uint32_t i = 0; i < n; ++i) body(i);
  }

  template <int kCount, typename Term>
  void Sum(uint32_t n, const Term& term, double* sums) const {
    double lanes[kCount][kFitLanes] = {};
    const auto add_row = [&](uint32_t begin, uint32_t size) {
      for (uint32_t lane = 0; lane < size; ++lane) {
        double terms[kCount];
        term(begin + lane, terms);
        for (int j = 0; j < kCount; ++j) lanes[j][lane] += terms[j];
      }
    };
    const uint32_t num_in_rows = n / kFitLanes * kFitLanes;
    for (uint32_t begin = 0; begin < num_in_rows; begin += kFitLanes) add_row(begin, kFitLanes);
    add_row(num_in_rows, n - num_in_rows);
    for (int j = 0; j < kCount; ++j) {
      for (int half = kFitLanes / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; ++lane) lanes[j][lane] += lanes[j][lane + half];
      }
      sums[j] = lanes[j][0];
    }
  }

  void Store(double value, double* address) const { *address = value; }
};

}  // namespace

DoubleExponential FitDoubleExponential(Span<const CurvePoint> points) {
  const std::unique_ptr<CurveFit> fit(new CurveFit);
  fit->num_points = static_cast<uint32_t>(points.size());
  std::copy(points.begin(), points.end(), fit->points);
  return CurveFitter<OneThread>({}, fit.get()).Fit();
}

}  // namespace tfcompress
