#include "core/collect.h"

#include <algorithm>
#include <array>

#include "core/simd.h"

#ifdef TFC_HAS_X86_SIMD
#include <immintrin.h>
#endif

namespace tfcompress {
namespace {

// Elements filtered at a time into buffers that stay in L1.
constexpr int64_t kPieceElements = 2048;
static_assert(kBlockElements % kPieceElements == 0);

// The first slab has room for one element of so many.
constexpr int64_t kElementsPerSlot = 32;

// Lists the i in [0, size) with magnitude >= bound, as first + i and values[i], and returns their
// number. Filters write first and count after, without a branch: before element i, at most i are
// found, so that superfluous writes stay within `size` elements.
using Filter = int64_t (*)(const float* values, int64_t size, uint32_t bound, uint32_t first,
                           uint32_t* found, float* found_values);

int64_t FilterScalar(const float* values, int64_t size, uint32_t bound, uint32_t first,
                     uint32_t* found, float* found_values) {
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) {
    found[count] = first + static_cast<uint32_t>(i);
    found_values[count] = values[i];
    count += MagnitudeBits(values[i]) >= bound;
  }
  return count;
}

#ifdef TFC_HAS_X86_SIMD

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

TFC_AVX2 int64_t FilterAvx2(const float* values, int64_t size, uint32_t bound, uint32_t first,
                            uint32_t* found, float* found_values) {
  // Magnitudes are below 2^31, so the signed comparison is right for every bound up to 2^31.
  const __m256i below_bound = _mm256_set1_epi32(static_cast<int>(bound - 1));
  const __m256i magnitude_mask = _mm256_set1_epi32(0x7FFFFFFF);
  int64_t count = 0;
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + i));
    const __m256i passes = _mm256_cmpgt_epi32(_mm256_and_si256(bits, magnitude_mask), below_bound);
    const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(passes)));
    const __m256i lanes =
        _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kSetLanes[mask])));
    const auto index = static_cast<int>(first + static_cast<uint32_t>(i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found + count),
                        _mm256_add_epi32(lanes, _mm256_set1_epi32(index)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found_values + count),
                        _mm256_permutevar8x32_epi32(bits, lanes));
    count += __builtin_popcount(mask);
  }
  return count + FilterScalar(values + i, size - i, bound, first + static_cast<uint32_t>(i),
                              found + count, found_values + count);
}

TFC_AVX512 int64_t FilterAvx512(const float* values, int64_t size, uint32_t bound, uint32_t first,
                                uint32_t* found, float* found_values) {
  const __m512i least = _mm512_set1_epi32(static_cast<int>(bound));
  const __m512i magnitude_mask = _mm512_set1_epi32(0x7FFFFFFF);
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int64_t count = 0;
  int64_t i = 0;
  for (; i + 16 <= size; i += 16) {
    const __m512i bits = _mm512_loadu_si512(values + i);
    const __mmask16 mask = _mm512_cmpge_epu32_mask(_mm512_and_si512(bits, magnitude_mask), least);
    if (mask == 0) continue;
    const auto index = static_cast<int>(first + static_cast<uint32_t>(i));
    const __m512i indices = _mm512_add_epi32(lanes, _mm512_set1_epi32(index));
    // To a register and then to memory: some processors compress to memory slowly.
    _mm512_storeu_si512(found + count, _mm512_maskz_compress_epi32(mask, indices));
    _mm512_storeu_si512(found_values + count, _mm512_maskz_compress_epi32(mask, bits));
    count += __builtin_popcount(mask);
  }
  return count + FilterScalar(values + i, size - i, bound, first + static_cast<uint32_t>(i),
                              found + count, found_values + count);
}

#endif

Filter FastestFilter() {
#ifdef TFC_HAS_X86_SIMD
  if (CurrentSimd() >= Simd::kAvx512) return FilterAvx512;
  if (CurrentSimd() >= Simd::kAvx2) return FilterAvx2;
#endif
  return FilterScalar;
}

}  // namespace

Collector::Collector(int64_t n, uint32_t min_magnitude)
    : min_magnitude_(min_magnitude),
      next_slab_size_(static_cast<size_t>(std::max(n / kElementsPerSlot, kPieceElements))),
      pieces_(static_cast<size_t>(NumBlocks(n, kPieceElements))) {}

void Collector::Look(int64_t begin, int64_t end, const float* values) {
  static const Filter filter = FastestFilter();
  uint32_t found[kPieceElements];
  float found_values[kPieceElements];
  for (; begin < end; begin += kPieceElements, values += kPieceElements) {
    const int64_t count = filter(values, std::min(end - begin, kPieceElements), min_magnitude_,
                                 static_cast<uint32_t>(begin), found, found_values);
    if (count == 0) continue;
    const Piece piece = MakePiece(static_cast<size_t>(count));
    std::copy_n(found, count, piece.indices);
    std::copy_n(found_values, count, piece.values);
    pieces_[begin / kPieceElements] = piece;
  }
}

Collector::Piece Collector::MakePiece(size_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (num_free_ < count) {
    num_free_ = next_slab_size_;
    next_slab_size_ *= 2;
    slabs_.push_back({std::unique_ptr<uint32_t[]>(new uint32_t[num_free_]),
                      std::unique_ptr<float[]>(new float[num_free_])});
  }
  num_free_ -= count;
  return {count, slabs_.back().indices.get() + num_free_, slabs_.back().values.get() + num_free_};
}

Candidates Collector::Take(Executor* executor) {
  std::vector<size_t> begins;
  begins.reserve(pieces_.size());
  size_t size = 0;
  for (const Piece& piece : pieces_) {
    begins.push_back(size);
    size += piece.count;
  }
  Candidates all{std::vector<uint32_t>(size), std::vector<float>(size)};
  const auto copy = [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces_[i];
      std::copy_n(piece.indices, piece.count, all.indices.data() + begins[i]);
      std::copy_n(piece.values, piece.count, all.values.data() + begins[i]);
    }
  };
  ForEachBlock(executor, static_cast<int64_t>(pieces_.size()), copy,
               kBlockElements / kPieceElements);
  return all;
}

Candidates CollectAtLeast(Span<const float> dense, uint32_t min_magnitude, Executor* executor) {
  const auto n = static_cast<int64_t>(dense.size());
  Collector collector(n, min_magnitude);
  ForEachBlock(executor, n, [&](int64_t, int64_t begin, int64_t end) {
    collector.Look(begin, end, dense.data() + begin);
  });
  return collector.Take(executor);
}

}  // namespace tfcompress
