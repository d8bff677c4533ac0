#include "core/value/piecewise_polynomial.h"

#include <cmath>

namespace tfcompress {
namespace {

// Points are taken side by side: the recurrence waits for itself.
constexpr int kLanes = 8;
using Lanes = std::array<double, kLanes>;

// The basis on the points of a segment.
class Basis {
 public:
  Basis(uint32_t num_points, uint32_t num_polynomials)
      : step_(num_points > 1 ? 2.0 / (num_points - 1.0) : 0.0), size_(num_polynomials) {
    const double m = num_points;
    for (uint32_t j = 1; j < size_; ++j) {
      const double jj = static_cast<double>(j) * j;
      beta_[j] = jj * (m * m - jj) / ((4 * jj - 1) * ((m - 1) * (m - 1)));
    }
  }

  // Calls visit(j, P_j) for each polynomial, with its values at kLanes points from `position` on.
  template <typename Visit>
  void ForEach(int64_t position, const Visit& visit) const {
    Lanes t;
    Lanes previous = {};
    Lanes current;
    for (int lane = 0; lane < kLanes; ++lane) {
      t[lane] = static_cast<double>(position + lane) * step_ - 1;
      current[lane] = 1;
    }
    for (uint32_t j = 0; j < size_; ++j) {
      visit(j, current);
      for (int lane = 0; lane < kLanes; ++lane) {
        const double next = t[lane] * current[lane] - beta_[j] * previous[lane];
        previous[lane] = current[lane];
        current[lane] = next;
      }
    }
  }

  // The sum of the squares of each polynomial over all points.
  std::array<double, kMaxPolynomialDegree + 1> SquaredNorms(uint32_t num_points) const {
    std::array<double, kMaxPolynomialDegree + 1> norms;
    norms[0] = num_points;
    for (uint32_t j = 1; j < size_; ++j) norms[j] = norms[j - 1] * beta_[j];
    return norms;
  }

 private:
  double step_;
  uint32_t size_;
  std::array<double, kMaxPolynomialDegree + 1> beta_ = {};
};

using Sums = std::array<Lanes, kMaxPolynomialDegree + 1>;

// The inner products of the basis with the magnitudes [begin, end) of a segment, less `low` and
// divided by the width of its range.
Sums SumProducts(const Basis& basis, Span<const float> magnitudes, int64_t begin, int64_t end,
                 double low, double inverse_width) {
  Sums sums = {};
  for (int64_t position = begin; position < end; position += kLanes) {
    Lanes y = {};  // Lanes past the end add nothing.
    const int count = static_cast<int>(std::min<int64_t>(kLanes, end - position));
    for (int lane = 0; lane < count; ++lane) {
      y[lane] = (magnitudes[position + lane] - low) * inverse_width;
    }
    basis.ForEach(position, [&](uint32_t j, const Lanes& polynomial) {
      for (int lane = 0; lane < kLanes; ++lane) sums[j][lane] += y[lane] * polynomial[lane];
    });
  }
  return sums;
}

PolynomialSegment FitSegment(Span<const float> magnitudes, uint32_t degree, Executor* executor) {
  PolynomialSegment segment;
  segment.length = static_cast<uint32_t>(magnitudes.size());
  segment.range = {magnitudes[magnitudes.size() - 1], magnitudes[0]};
  const double low = NormalOrZero(segment.range.least);
  const double width = NormalOrZero(segment.range.largest) - low;
  if (!(width > 0)) return segment;

  const uint32_t num_coefficients = segment.NumCoefficients(degree);
  const Basis basis(segment.length, num_coefficients);
  std::vector<Sums> blocks(NumBlocks(magnitudes.size()));
  ForEachBlock(executor, magnitudes.size(), [&](int64_t block, int64_t begin, int64_t end) {
    blocks[block] = SumProducts(basis, magnitudes, begin, end, low, 1 / width);
  });
  const auto squared_norms = basis.SquaredNorms(segment.length);
  for (uint32_t j = 0; j < num_coefficients; ++j) {
    double sum = 0;
    for (const Sums& block : blocks) {
      for (double lane : block[j]) sum += lane;
    }
    segment.coefficients[j] = static_cast<float>(sum / squared_norms[j]);
  }
  return segment;
}

// A segment before it is fitted, and where it is farthest from the line that joins its ends.
struct Piece {
  int64_t begin;
  int64_t end;
  double distance = 0;  // 0 where it is not to be split.
  int64_t split = 0;
};

Piece MeasurePiece(Span<const float> magnitudes, int64_t begin, int64_t end, uint32_t degree,
                   Executor* executor) {
  Piece piece = {begin, end};
  const int64_t length = end - begin;
  if (length < int64_t{degree} + 1 || length < 3) return piece;
  const double first = magnitudes[begin];
  const double slope = (magnitudes[end - 1] - first) / static_cast<double>(length - 1);
  auto distance_at = [&](int64_t i) {
    return std::fabs(magnitudes[begin + i] - (first + slope * static_cast<double>(i)));
  };
  // The greatest distance first, where it is afterwards: the search for it then vectorises.
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
  piece.split = begin + std::min(std::max<int64_t>(i, 1), length - 1);
  return piece;
}

// Splits the piece with the greatest distance, until there are enough or all are straight lines.
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

uint32_t SuggestedSegments(Span<const float> magnitudes) {
  const size_t d = magnitudes.size();
  const double largest = NormalOrZero(magnitudes[0]);
  if (d < 3 || largest == 0) return 1;
  const double first_gap = double{magnitudes[0]} - magnitudes[1];
  const double last_gap = double{magnitudes[d - 2]} - magnitudes[d - 1];
  const double change = std::fabs(first_gap - last_gap) / largest * static_cast<double>(d - 1);
  return std::max<uint32_t>(1, static_cast<uint32_t>(std::ceil(2 * std::sqrt(change))));
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
  const uint32_t num_coefficients = segment.NumCoefficients(degree);
  const Basis basis(segment.length, num_coefficients);
  const MagnitudeRange range = segment.range;
  const double low = NormalOrZero(range.least);
  const double width = NormalOrZero(range.largest) - low;
  std::array<double, kMaxPolynomialDegree + 1> coefficients;
  std::transform(segment.coefficients.begin(), segment.coefficients.end(), coefficients.begin(),
                 NormalOrZero);
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (; begin < end; begin += kLanes) {
      Lanes y = {};
      basis.ForEach(begin, [&](uint32_t j, const Lanes& polynomial) {
        for (int lane = 0; lane < kLanes; ++lane) y[lane] += coefficients[j] * polynomial[lane];
      });
      const int count = static_cast<int>(std::min<int64_t>(kLanes, end - begin));
      for (int lane = 0; lane < count; ++lane) {
        const uint32_t bits = range.RoundedBits(low + width * y[lane]);
        values[begin + lane] = FloatFromBits(bits | sign_bit);
      }
    }
  });
}

}  // namespace tfcompress
