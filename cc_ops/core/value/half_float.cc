// fp16 and bf16: values rounded to 16 bits, see half_formats.h.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/byte_io.h"
#include "core/registry.h"
#include "core/value/half_formats.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define TFC_HAS_F16C 1
#endif

namespace tfcompress {
namespace {

// A format: its conversions over arrays at any alignment, and its limits.
struct Fp16 {
  static constexpr const char* kName = "fp16";
  static constexpr double kLargest = 65504.0;
  static constexpr double kHalfUnit = 0x1p-11;       // Relative error of a normal number.
  static constexpr double kHalfSubnormal = 0x1p-25;  // Absolute error of a subnormal number.

  static uint16_t Narrow(float value) { return SaturatingHalf(value); }
  static float Widen(uint16_t half) { return HalfToFloat(half); }
  static bool IsFinite(uint16_t half) { return IsFiniteHalf(half); }

  // Convert a multiple of 8 elements and return how many, with the same bits as Narrow and Widen.
  static int64_t NarrowVector(const float* values, int64_t count, unsigned char* out);
  static int64_t WidenVector(const unsigned char* in, int64_t count, float* values);
};

struct Bf16 {
  static constexpr const char* kName = "bf16";
  static constexpr double kLargest = 0x1.FEp127;
  static constexpr double kHalfUnit = 0x1p-8;
  static constexpr double kHalfSubnormal = 0x1p-134;

  static uint16_t Narrow(float value) { return SaturatingBFloat16(value); }
  static float Widen(uint16_t bfloat16) { return BFloat16ToFloat(bfloat16); }
  static bool IsFinite(uint16_t bfloat16) { return IsFiniteBFloat16(bfloat16); }

  // The compiler turns the plain loops into vector code.
  static int64_t NarrowVector(const float*, int64_t, unsigned char*) { return 0; }
  static int64_t WidenVector(const unsigned char*, int64_t, float*) { return 0; }
};

#ifdef TFC_HAS_F16C

bool HasF16c() {
  // Every processor with AVX2 has F16C, for which not every compiler can test.
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

__attribute__((target("f16c,avx"))) void NarrowF16c(const float* values, int64_t count,
                                                    unsigned char* out) {
  const __m256 largest = _mm256_set1_ps(65504.0f);
  const __m256 lowest = _mm256_set1_ps(-65504.0f);
  for (int64_t i = 0; i < count; i += 8) {
    const __m256 clamped =
        _mm256_max_ps(_mm256_min_ps(_mm256_loadu_ps(values + i), largest), lowest);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i),
                     _mm256_cvtps_ph(clamped, _MM_FROUND_TO_NEAREST_INT));
  }
}

__attribute__((target("f16c,avx"))) void WidenF16c(const unsigned char* in, int64_t count,
                                                   float* values) {
  for (int64_t i = 0; i < count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i));
    _mm256_storeu_ps(values + i, _mm256_cvtph_ps(halves));
  }
}

#else

bool HasF16c() { return false; }
void NarrowF16c(const float*, int64_t, unsigned char*) {}
void WidenF16c(const unsigned char*, int64_t, float*) {}

#endif  // TFC_HAS_F16C

int64_t Fp16::NarrowVector(const float* values, int64_t count, unsigned char* out) {
  const int64_t num_done = HasF16c() ? count / 8 * 8 : 0;
  if (num_done > 0) NarrowF16c(values, num_done, out);
  return num_done;
}

int64_t Fp16::WidenVector(const unsigned char* in, int64_t count, float* values) {
  const int64_t num_done = HasF16c() ? count / 8 * 8 : 0;
  if (num_done > 0) WidenF16c(in, num_done, values);
  return num_done;
}

template <typename Format>
class HalfFloat : public ValueCodec {
 public:
  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    unsigned char* section = ByteWriter(out).Extend(2 * values.size());
    ForEachBlock(context.executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
      int64_t i = begin + Format::NarrowVector(&values[begin], end - begin, section + 2 * begin);
      for (; i < end; ++i) StoreUnaligned(section + 2 * i, Format::Narrow(values[i]));
    });
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    ByteSpan bytes;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("values", 2 * uint64_t{values.size()}, &bytes));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd(Format::kName));
    std::atomic<bool> finite{true};
    ForEachBlock(context.executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
      const unsigned char* in = bytes.data();
      bool block_finite = true;
      for (int64_t i = begin; i < end; ++i) {
        block_finite &= Format::IsFinite(LoadUnaligned<uint16_t>(in + 2 * i));
      }
      if (!block_finite) finite = false;
      int64_t i = begin + Format::WidenVector(in + 2 * begin, end - begin, &values[begin]);
      for (; i < end; ++i) values[i] = Format::Widen(LoadUnaligned<uint16_t>(in + 2 * i));
    });
    if (!finite) return DataLoss(Format::kName, ": a value is not finite");
    return OkStatus();
  }

  uint64_t MinEncodedBytes(uint32_t k) const override { return 2 * uint64_t{k}; }
  uint64_t MaxEncodedBytes(uint32_t k) const override { return 2 * uint64_t{k}; }

  double MaxError(Span<const float> values) const override {
    double largest = 0;
    for (float value : values) largest = std::max(largest, std::fabs(double{value}));
    if (largest == 0) return 0;
    return std::max(
        {largest - Format::kLargest, largest * Format::kHalfUnit, Format::kHalfSubnormal});
  }
};

template <typename Format>
std::unique_ptr<const ValueCodec> Make(const Params&) {
  return std::make_unique<HalfFloat<Format>>();
}

}  // namespace

Definition<ValueCodec> Fp16Value() {
  return {"values as IEEE binary16, rounded to nearest even, saturating",
          {},
          Make<Fp16>,
          "half a unit in the last place (2^-11 relative); saturates at 65504",
          "2 k"};
}

Definition<ValueCodec> Bf16Value() {
  return {"values as bfloat16, rounded to nearest even, saturating",
          {},
          Make<Bf16>,
          "half a unit in the last place (2^-8 relative); saturates",
          "2 k"};
}

}  // namespace tfcompress
