#include "core/value/piecewise_polynomial.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/float_order.h"
#include "core/value/block_statistics.h"

namespace tfcompress {
namespace {

// The basis is the polynomials that are orthogonal on the m equally spaced points of a segment
// (Gram's, which tend to Legendre's). With t running from -1 to 1,
//
//   P_0 = 1, P_1 = t, P_(j+1) = t P_j - beta_j P_(j-1),
//   beta_j = j^2 (m^2 - j^2) / ((4 j^2 - 1) (m - 1)^2)
//
// A least-squares fit is one inner product for each coefficient, with no system to solve: powers of
// the position would lose all digits of a double at degree 5 already.
struct PolynomialBasis {
  double step;  // Of t, from a point to the next.
  uint32_t size;
  double beta[kMaxCoefficients] = {};

  PolynomialBasis(uint32_t num_points, uint32_t num_polynomials)
      : step(num_points > 1 ? 2.0 / (num_points - 1.0) : 0.0), size(num_polynomials) {
    const double m = num_points;
    for (uint32_t j = 1; j < size; ++j) {
      const double jj = static_cast<double>(j) * j;
      beta[j] = jj * (m * m - jj) / ((4 * jj - 1) * ((m - 1) * (m - 1)));
    }
  }

  // The sum of the squares of P_j over all points.
  double SquaredNorm(uint32_t j, uint32_t num_points) const {
    double norm = num_points;
    for (uint32_t i = 1; i <= j; ++i) norm *= beta[i];
    return norm;
  }
};

// Scale of a segment's polynomial: from the least to the largest magnitude.
struct PolynomialScale {
  double low;
  double width;
  double inverse_width;

  explicit PolynomialScale(const MagnitudeRange& range)
      : low(NormalOrZero(range.least)),
        width(NormalOrZero(range.largest) - low),
        inverse_width(1 / width) {}

  double UnitOf(float magnitude) const { return (NormalOrZero(magnitude) - low) * inverse_width; }
  double MagnitudeOf(double y) const { return low + width * y; }
};

// Points evaluated in parallel, since the recurrence is sequential.
constexpr int kLanes = 8;
using Lanes = std::array<double, kLanes>;

// Calls visit(j, P_j) for each polynomial, with its values at kLanes points from `position` on.
template <typename Visit>
void ForEachPolynomial(const PolynomialBasis& basis, int64_t position, const Visit& visit) {
  Lanes t;
  Lanes previous = {};
  Lanes current;
  for (int lane = 0; lane < kLanes; ++lane) {
    t[lane] = static_cast<double>(position + lane) * basis.step - 1;
    current[lane] = 1;
  }
  for (uint32_t j = 0; j < basis.size; ++j) {
    visit(j, current);
    for (int lane = 0; lane < kLanes; ++lane) {
      const double next = t[lane] * current[lane] - basis.beta[j] * previous[lane];
      previous[lane] = current[lane];
      current[lane] = next;
    }
  }
}

double SumOfLanes(const Lanes& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

using Sums = std::array<double, kMaxCoefficients>;

// Adds the inner products of the basis with the scaled magnitudes [begin, end) of a segment.
void AddProducts(const PolynomialBasis& basis, const PolynomialScale& scale,
                 Span<const float> magnitudes, int64_t begin, int64_t end, Sums* sums) {
  std::array<Lanes, kMaxCoefficients> lanes = {};
  for (int64_t position = begin; position < end; position += kLanes) {
    Lanes y = {};  // Lanes past the end add nothing.
    const int count = static_cast<int>(std::min<int64_t>(kLanes, end - position));
    for (int lane = 0; lane < count; ++lane) y[lane] = scale.UnitOf(magnitudes[position + lane]);
    ForEachPolynomial(basis, position, [&](uint32_t j, const Lanes& polynomial) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[j][lane] += y[lane] * polynomial[lane];
    });
  }
  for (uint32_t j = 0; j < basis.size; ++j) (*sums)[j] += SumOfLanes(lanes[j]);
}

PolynomialSegment FitSegment(Span<const float> magnitudes, uint32_t degree, Executor* executor) {
  PolynomialSegment segment;
  segment.length = static_cast<uint32_t>(magnitudes.size());
  segment.range = {magnitudes[magnitudes.size() - 1], magnitudes[0]};
  const PolynomialScale scale(segment.range);
  if (!(scale.width > 0)) return segment;

  const PolynomialBasis basis(segment.length, segment.NumCoefficients(degree));
  std::vector<Sums> blocks(NumBlocks(magnitudes.size()));
  ForEachBlock(executor, magnitudes.size(), [&](int64_t block, int64_t begin, int64_t end) {
    for (; begin < end; begin += kSumPart) {
      AddProducts(basis, scale, magnitudes, begin, std::min(end, begin + kSumPart), &blocks[block]);
    }
  });
  for (uint32_t j = 0; j < basis.size; ++j) {
    double sum = 0;
    for (const Sums& block : blocks) sum += block[j];
    segment.coefficients[j] = RoundToNormal(sum / basis.SquaredNorm(j, segment.length));
  }
  return segment;
}

// A segment before it is fitted, with its point farthest from the line that joins its ends.
struct Piece {
  int64_t begin;
  int64_t end;
  double distance = 0;  // 0 if the piece is not to be split.
  int64_t split = 0;
};

Piece MeasurePiece(Span<const float> magnitudes, int64_t begin, int64_t end, uint32_t degree,
                   Executor* executor) {
  Piece piece = {begin, end};
  const int64_t length = end - begin;
  // A polynomial fits all points of a shorter piece exactly.
  if (length < std::max<int64_t>(int64_t{degree} + 1, 3)) return piece;
  const double first = NormalOrZero(magnitudes[begin]);
  const double slope =
      (NormalOrZero(magnitudes[end - 1]) - first) / static_cast<double>(length - 1);
  auto distance_at = [&](int64_t i) {
    return std::fabs(NormalOrZero(magnitudes[begin + i]) -
                     (first + slope * static_cast<double>(i)));
  };
  // Find the greatest distance first and its position afterwards, so that the loop vectorises.
  std::vector<double> farthest(NumBlocks(length));
  ForEachBlock(executor, length, [&](int64_t block, int64_t block_begin, int64_t block_end) {
    Lanes greatest = {};
    int64_t i = block_begin;
    for (; i + kLanes <= block_end; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const double distance = distance_at(i + lane);
        greatest[lane] = greatest[lane] < distance ? distance : greatest[lane];
      }
    }
    for (; i < block_end; ++i) greatest[0] = std::max(greatest[0], distance_at(i));
    farthest[block] = *std::max_element(greatest.begin(), greatest.end());
  });
  const auto block = std::max_element(farthest.begin(), farthest.end());
  piece.distance = *block;
  int64_t i = (block - farthest.begin()) * kBlockElements;
  while (distance_at(i) < piece.distance) ++i;
  piece.split = begin + std::clamp<int64_t>(i, 1, length - 1);  // Neither part is empty.
  return piece;
}

// Splits the piece with the greatest distance, until there are enough pieces or all are straight.
std::vector<Piece> SplitIntoPieces(Span<const float> magnitudes, uint32_t degree,
                                   uint32_t max_pieces, Executor* executor) {
  std::vector<Piece> pieces = {
      MeasurePiece(magnitudes, 0, static_cast<int64_t>(magnitudes.size()), degree, executor)};
  while (pieces.size() < max_pieces) {
    const auto farthest =
        std::max_element(pieces.begin(), pieces.end(),
                         [](const Piece& a, const Piece& b) { return a.distance < b.distance; });
    const Piece piece = *farthest;
    if (!(piece.distance > 0)) break;
    *farthest = MeasurePiece(magnitudes, piece.split, piece.end, degree, executor);
    pieces.insert(farthest, MeasurePiece(magnitudes, piece.begin, piece.split, degree, executor));
  }
  return pieces;
}

}  // namespace

uint32_t LemmaOneSegments(Span<const float> magnitudes) {
  const size_t size = magnitudes.size();
  const double largest = NormalOrZero(magnitudes[0]);
  if (size < 3 || largest == 0) return 1;
  const double first_gap = largest - NormalOrZero(magnitudes[1]);
  const double last_gap = NormalOrZero(magnitudes[size - 2]) - NormalOrZero(magnitudes[size - 1]);
  const double change = std::fabs(first_gap - last_gap) / largest * static_cast<double>(size - 1);
  return std::max(static_cast<uint32_t>(std::ceil(2 * std::sqrt(change))), uint32_t{1});
}

std::vector<PolynomialSegment> FitSegments(Span<const float> magnitudes, uint32_t degree,
                                           uint32_t max_segments, Executor* executor) {
  std::vector<PolynomialSegment> segments;
  for (const Piece& piece : SplitIntoPieces(magnitudes, degree, max_segments, executor)) {
    segments.push_back(
        FitSegment(magnitudes.subspan(piece.begin, piece.end - piece.begin), degree, executor));
  }
  return segments;
}

void EvaluateSegment(const PolynomialSegment& segment, uint32_t degree, uint32_t sign_bit,
                     Executor* executor, Span<float> values) {
  const PolynomialBasis basis(segment.length, segment.NumCoefficients(degree));
  const MagnitudeRange range = segment.range;  // A copy, which cannot alias `values`.
  const PolynomialScale scale(range);
  Sums coefficients;
  std::transform(segment.coefficients, segment.coefficients + kMaxCoefficients,
                 coefficients.begin(), NormalOrZero);
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (; begin < end; begin += kLanes) {
      Lanes y = {};
      ForEachPolynomial(basis, begin, [&](uint32_t j, const Lanes& polynomial) {
        for (int lane = 0; lane < kLanes; ++lane) y[lane] += coefficients[j] * polynomial[lane];
      });
      const int count = static_cast<int>(std::min<int64_t>(kLanes, end - begin));
      for (int lane = 0; lane < count; ++lane) {
        const uint32_t bits = range.RoundedBits(scale.MagnitudeOf(y[lane]));
        values[begin + lane] = FloatFromBits(bits | sign_bit);
      }
    }
  });
}

}  // namespace tfcompress
