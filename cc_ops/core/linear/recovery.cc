#include "core/linear/recovery.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/by_magnitude.h"
#include "core/collect.h"
#include "core/float_order.h"
#include "core/hash.h"
#include "core/seeded_support.h"
#include "core/sparsify/select_largest.h"

namespace tfcompress {
namespace {

// The estimates of n elements, which an ordinary vector would initialize first.
using Estimates = std::vector<float, UninitializedAllocator<float>>;

Estimates EstimatesOf(const CountSketch& sketch, Span<const float> table, int64_t n,
                      Executor* executor) {
  Estimates estimates(static_cast<size_t>(n));
  sketch.Estimate(table, executor, {estimates.data(), estimates.size()});
  return estimates;
}

// The least nonzero magnitude, as MagnitudeBits, whose square is at least `squared`.
uint32_t LeastMagnitude(double squared) {
  const auto reaches = [&](uint32_t bits) {
    const double magnitude = NormalOrZero(FloatFromBits(bits));
    return magnitude * magnitude >= squared;
  };
  const double root = std::min<double>(std::sqrt(squared), std::numeric_limits<float>::max());
  // Rounded to nearest, the root is off by at most one float.
  uint32_t bits = std::max<uint32_t>(FloatBits(static_cast<float>(root)), 2) - 1;
  while (!reaches(bits)) ++bits;
  return bits;
}

// Adds `count` random elements of [0, n) that are not in `indices`.
void AddOthers(uint32_t n, uint32_t count, uint64_t seed, Executor* executor,
               std::vector<uint32_t>* indices) {
  const auto num_chosen = static_cast<uint32_t>(indices->size());
  if (count == 0) return;
  // Ascending numbers among the other elements; each is shifted past the chosen ones before it.
  std::vector<uint32_t> others = SeededSupport(n - num_chosen, count, seed, executor);
  uint32_t num_before = 0;
  for (uint32_t& other : others) {
    while (num_before < num_chosen && (*indices)[num_before] <= other + num_before) ++num_before;
    other += num_before;
  }
  indices->insert(indices->end(), others.begin(), others.end());
  std::inplace_merge(indices->begin(), indices->begin() + num_chosen, indices->end());
}

}  // namespace

void TopCandidates(const CountSketch& sketch, Span<const float> table, int64_t n, int64_t count,
                   Executor* executor, std::vector<uint32_t>* indices, std::vector<float>* values) {
  const Estimates estimates = EstimatesOf(sketch, table, n, executor);
  SelectLargest(estimates, static_cast<size_t>(std::min(count, n)), executor, indices);
  values->resize(indices->size());
  ReadFrom(estimates)(*indices, values->data());
}

void HeavyMix(const CountSketch& sketch, Span<const float> table, int64_t n, int64_t k,
              const CodecContext& context, std::vector<uint32_t>* indices,
              std::vector<float>* values) {
  const Estimates estimates = EstimatesOf(sketch, table, n, context.executor);
  const auto count = static_cast<size_t>(std::min(k, n));
  const double squared_norm = sketch.SquaredNorm(table, context.executor);
  const uint32_t bound = LeastMagnitude(squared_norm / static_cast<double>(k));
  *indices = CollectAtLeast(estimates, bound, context.executor).indices;
  if (indices->size() > count) SelectLargest(estimates, count, context.executor, indices);
  constexpr uint64_t kFill =
      1000;  // Greater than all row numbers, so that no row uses this hash function.
  AddOthers(static_cast<uint32_t>(n), static_cast<uint32_t>(count - indices->size()),
            HashKey(kFill, context.seed), context.executor, indices);
  values->resize(indices->size());
  ReadFrom(estimates)(*indices, values->data());
}

}  // namespace tfcompress
