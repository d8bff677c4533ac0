// Sums of squares of runs of values: the norms of buckets, the root mean squares of blocks.
#ifndef TFCOMPRESS_CORE_VALUE_SUMS_OF_SQUARES_H_
#define TFCOMPRESS_CORE_VALUE_SUMS_OF_SQUARES_H_

#include <algorithm>
#include <cstdint>

namespace tfcompress {

enum class Subnormals { kKept, kZero };

// Runs that are summed side by side.
inline constexpr int kSumRuns = 4;

// sums[r] = the squares of values[r * run_size], ..., added as SumTerms does; 0 <= r < kSumRuns.
// One run alone would wait for each addition.
void SumSquares(const float* values, int64_t run_size, Subnormals subnormals, double* sums);
// The same for one run.
double SumSquares(const float* values, int64_t size, Subnormals subnormals);

// Calls use_sum(run, sum) for the runs of [0, size), the last of which may be shorter.
template <typename UseSum>
void ForEachSumOfSquares(const float* values, int64_t size, int64_t run_size, Subnormals subnormals,
                         const UseSum& use_sum) {
  int64_t run = 0;
  for (; (run + kSumRuns) * run_size <= size; run += kSumRuns) {
    double sums[kSumRuns];
    SumSquares(values + run * run_size, run_size, subnormals, sums);
    for (int i = 0; i < kSumRuns; ++i) use_sum(run + i, sums[i]);
  }
  for (int64_t begin = run * run_size; begin < size; begin += run_size, ++run)
    use_sum(run, SumSquares(values + begin, std::min(run_size, size - begin), subnormals));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_SUMS_OF_SQUARES_H_
