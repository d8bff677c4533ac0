#include "core/sketch/bloom_filter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/simd.h"

#ifdef TFC_HAS_X86_SIMD
#include <immintrin.h>
#endif

namespace tfcompress {
namespace {

// Keys filtered at a time: they and their positions leave most of the L1 cache to the filter.
constexpr uint32_t kChunkKeys = 1024;

// Moves those of the first num_keys keys of a chunk that pass probe `probe` to the front, and
// counts them. The filter has at least kGatherBytes bytes.
using Keep = size_t (*)(BloomShape shape, uint64_t seed, const unsigned char* bits, int probe,
                        uint32_t* keys, size_t num_keys);

constexpr uint64_t kGatherBytes = 4;

#ifdef TFC_HAS_X86_SIMD

// GCC 12 warns of its own intrinsics, whose undefined operands are meant to be.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Mix64 of eight lanes.
TFC_AVX512 inline __m512i Mix64Of(__m512i x) {
  x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 30));
  x = _mm512_mullo_epi64(x, _mm512_set1_epi64(static_cast<long long>(0xBF58476D1CE4E5B9u)));
  x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 27));
  x = _mm512_mullo_epi64(x, _mm512_set1_epi64(static_cast<long long>(0x94D049BB133111EBu)));
  return _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
}

// A gather of 16 probes costs less than 16 loads and the stores of their positions.
TFC_AVX512 size_t KeepAvx512(BloomShape shape, uint64_t seed, const unsigned char* bits, int probe,
                             uint32_t* keys, size_t num_keys) {
  const __m512i gamma = _mm512_set1_epi64(static_cast<long long>(kGoldenGamma));
  const __m512i offset = _mm512_set1_epi64(static_cast<long long>(Mix64(seed + kGoldenGamma)));
  const __m512i num_bits = _mm512_set1_epi64(shape.num_bits);
  const __m512i last = _mm512_set1_epi32(static_cast<int>(shape.num_bytes() - kGatherBytes));
  const __m512i low_halves =
      _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i high_halves = _mm512_add_epi32(low_halves, _mm512_set1_epi32(1));
  size_t count = 0;
  for (size_t j = 0; j < num_keys; j += 16) {
    const __m512i key = _mm512_loadu_si512(keys + j);
    const __m512i key0 = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(key));
    const __m512i key1 = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(key, 1));
    const __m512i hash0 = Mix64Of(_mm512_add_epi64(_mm512_mullo_epi64(key0, gamma), offset));
    const __m512i hash1 = Mix64Of(_mm512_add_epi64(_mm512_mullo_epi64(key1, gamma), offset));
    const __m512i step =
        _mm512_or_si512(_mm512_permutex2var_epi32(hash0, high_halves, hash1), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_permutex2var_epi32(hash0, low_halves, hash1),
                                         _mm512_mullo_epi32(step, _mm512_set1_epi32(probe)));
    // BloomFilter::Position of the even and of the odd lanes.
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(sum, num_bits), 32);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(sum, 32), num_bits);
    const __m512i position = _mm512_mask_blend_epi32(0xAAAA, even, odd);
    // Four bytes from the one with the bit on, or the last four: nothing is read past the filter.
    const __m512i byte = _mm512_min_epu32(_mm512_srli_epi32(position, 3), last);
    const __m512i bit = _mm512_sllv_epi32(_mm512_set1_epi32(1),
                                          _mm512_sub_epi32(position, _mm512_slli_epi32(byte, 3)));
    const auto lanes = static_cast<__mmask16>(num_keys - j < 16 ? (1u << (num_keys - j)) - 1 : ~0u);
    const __m512i found = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes, byte, bits, 1);
    const __mmask16 passes = _mm512_test_epi32_mask(found, bit);
    _mm512_storeu_si512(keys + count, _mm512_maskz_compress_epi32(passes, key));
    count += static_cast<size_t>(__builtin_popcount(passes));
  }
  return count;
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif

// The fastest one that takes a probe at a time; null where two at a time are faster.
Keep FastestKeep() {
#ifdef TFC_HAS_X86_SIMD
  if (CurrentSimd() >= Simd::kAvx512) return KeepAvx512;
#endif
  return nullptr;
}

}  // namespace

BloomRate::BloomRate(double fpr) : halvings_(std::log2(1 / fpr)) {
  const double num_hashes = std::round(halvings_);
  num_hashes_ = static_cast<int>(std::clamp(num_hashes, 1.0, static_cast<double>(kMaxBloomHashes)));
}

void BloomFilter::Insert(BloomShape shape, uint64_t seed, Span<const uint32_t> keys,
                         unsigned char* bits) {
  for (const uint32_t key : keys) {
    const uint64_t hash = HashKey(key, seed);
    for (int i = 0; i < shape.num_hashes; ++i) {
      const uint32_t position = Position(hash, static_cast<uint32_t>(i), shape.num_bits);
      bits[position >> 3] = static_cast<unsigned char>(bits[position >> 3] | 1u << (position & 7));
    }
  }
}

size_t BloomFilter::KeepPassing(int first_probe, uint32_t* keys, size_t num_keys) const {
  size_t num_kept = 0;
  Vectorized([=, shape = shape_, hash_of = hash_of_, bits = bits_, out = &num_kept] {
    const auto probe0 = static_cast<uint32_t>(first_probe);
    // The probe past the last one repeats it.
    const uint32_t probe1 = std::min(probe0 + 1, static_cast<uint32_t>(shape.num_hashes - 1));
    uint32_t positions0[kChunkKeys];
    uint32_t positions1[kChunkKeys];
    for (size_t j = 0; j < num_keys; ++j) {
      const uint64_t hash = hash_of(keys[j]);
      positions0[j] = Position(hash, probe0, shape.num_bits);
      positions1[j] = Position(hash, probe1, shape.num_bits);
    }
    auto bit_at = [=](uint32_t position) {
      return static_cast<uint32_t>(bits[position >> 3] >> (position & 7));
    };
    size_t count = 0;
    for (size_t j = 0; j < num_keys; ++j) {
      keys[count] = keys[j];
      count += bit_at(positions0[j]) & bit_at(positions1[j]) & 1;
    }
    *out = count;
  });
  return num_kept;
}

void BloomFilter::AppendContained(uint32_t begin, uint32_t end, std::vector<uint32_t>* keys) const {
  // Half of the bits of a full filter are set, so that a branch on a probe is mispredicted half of
  // the time. Instead, chunks of keys are filtered by one or two probes at a time, without a
  // branch.
  static const Keep fastest = FastestKeep();
  const Keep keep = shape_.num_bytes() >= kGatherBytes ? fastest : nullptr;
  uint32_t chunk[kChunkKeys];
  while (begin < end) {
    size_t num_keys = std::min(kChunkKeys, end - begin);
    std::iota(chunk, chunk + num_keys, begin);
    begin += static_cast<uint32_t>(num_keys);
    for (int probe = 0; probe < shape_.num_hashes; probe += keep == nullptr ? 2 : 1) {
      num_keys = keep == nullptr ? KeepPassing(probe, chunk, num_keys)
                                 : keep(shape_, seed_, bits_, probe, chunk, num_keys);
    }
    keys->insert(keys->end(), chunk, chunk + num_keys);
  }
}

}  // namespace tfcompress
