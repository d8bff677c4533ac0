#include "core/sparsify/collect.h"

#include <algorithm>
#include <array>

#include "core/concatenate.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tfcompress {
namespace {

// Elements filtered at a time into a buffer that stays in L1. Blocks are whole chunks.
constexpr int64_t kFilterChunkElements = 4096;

// Lists the i in [begin, end) with magnitude >= bound in `found`, which has room for all of them,
// and returns their number. Filters write first and count after, without a branch: before element
// i, at most i - begin are found, so that superfluous writes stay within `found`.
using Filter = int64_t (*)(const float* dense, int64_t begin, int64_t end, uint32_t bound,
                           uint32_t* found);

int64_t FilterScalar(const float* dense, int64_t begin, int64_t end, uint32_t bound,
                     uint32_t* found) {
  int64_t count = 0;
  for (int64_t i = begin; i < end; ++i) {
    found[count] = static_cast<uint32_t>(i);
    count += MagnitudeBits(dense[i]) >= bound;
  }
  return count;
}

#if defined(__x86_64__)

// For each mask of 8 lanes, the numbers of its set lanes, one a byte, in front.
constexpr std::array<uint64_t, 256> MakeSetLanes() {
  std::array<uint64_t, 256> table{};
  for (uint64_t mask = 0; mask < 256; ++mask) {
    int count = 0;
    for (uint64_t lane = 0; lane < 8; ++lane) {
      if (mask >> lane & 1) table[mask] |= lane << (8 * count++);
    }
  }
  return table;
}
constexpr std::array<uint64_t, 256> kSetLanes = MakeSetLanes();

__attribute__((target("avx2,popcnt"))) int64_t FilterAvx2(const float* dense, int64_t begin,
                                                          int64_t end, uint32_t bound,
                                                          uint32_t* found) {
  // Magnitudes are below 2^31, so the signed comparison is right for every bound from 1 to 2^31.
  const __m256i below_bound = _mm256_set1_epi32(static_cast<int>(bound - 1));
  const __m256i magnitude_mask = _mm256_set1_epi32(0x7FFFFFFF);
  int64_t count = 0;
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(dense + i));
    const __m256i passes = _mm256_cmpgt_epi32(_mm256_and_si256(bits, magnitude_mask), below_bound);
    const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(passes)));
    const __m256i lanes =
        _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kSetLanes[mask])));
    const __m256i indices = _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found + count), indices);
    count += __builtin_popcount(mask);
  }
  return count + FilterScalar(dense, i, end, bound, found + count);
}

Filter FastestFilter() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") ? FilterAvx2
                                                                            : FilterScalar;
}

#else

Filter FastestFilter() { return FilterScalar; }

#endif

}  // namespace

void CollectAtLeast(Span<const float> dense, uint32_t min_magnitude, Executor* executor,
                    std::vector<uint32_t>* indices, std::vector<uint32_t>* magnitudes) {
  static const Filter filter = FastestFilter();
  const int64_t n = static_cast<int64_t>(dense.size());
  const size_t num_blocks = static_cast<size_t>(NumBlocks(n));
  std::vector<std::vector<uint32_t>> block_indices(num_blocks);
  std::vector<std::vector<uint32_t>> block_magnitudes(magnitudes == nullptr ? 0 : num_blocks);

  ForEachBlock(executor, n, [&](int64_t block, int64_t block_begin, int64_t block_end) {
    uint32_t found[kFilterChunkElements];
    for (int64_t begin = block_begin; begin < block_end; begin += kFilterChunkElements) {
      const int64_t end = std::min(begin + kFilterChunkElements, block_end);
      const int64_t count = filter(dense.data(), begin, end, min_magnitude, found);
      block_indices[block].insert(block_indices[block].end(), found, found + count);
      if (magnitudes == nullptr) continue;
      for (int64_t j = 0; j < count; ++j) found[j] = MagnitudeBits(dense.data()[found[j]]);
      block_magnitudes[block].insert(block_magnitudes[block].end(), found, found + count);
    }
  });

  indices->clear();
  Concatenate(block_indices, indices);
  if (magnitudes != nullptr) {
    magnitudes->clear();
    Concatenate(block_magnitudes, magnitudes);
  }
}

}  // namespace tfcompress
