// fp16 and bf16: values rounded to 16 bits, see half_formats.h.
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/finite.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/value/half_formats.h"

#if defined(TFC_HAS_X86_SIMD)
#include <immintrin.h>
#elif defined(TFC_HAS_ARM_SIMD)
#include <arm_neon.h>
#endif

namespace tfcompress {
namespace {

// What the compiler makes vector code of.
template <uint16_t (*Narrow)(float)>
void NarrowLoop(const float* values, int64_t count, unsigned char* out) {
  Vectorized([=] {
    for (int64_t i = 0; i < count; ++i) StoreUnaligned(out + 2 * i, Narrow(values[i]));
  });
}
template <float (*Widen)(uint16_t)>
void WidenLoop(const unsigned char* in, int64_t count, float* values) {
  Vectorized([=] {
    for (int64_t i = 0; i < count; ++i) values[i] = Widen(LoadUnaligned<uint16_t>(in + 2 * i));
  });
}

// NarrowByInstruction and WidenByInstruction take multiples of 8 elements, as many as
// NumByInstruction says, and yield the same bits as SaturatingHalf and HalfToFloat.
#if defined(TFC_HAS_X86_SIMD)

TFC_AVX2 void NarrowByInstruction(const float* values, int64_t count, unsigned char* out) {
  const __m256 largest = _mm256_set1_ps(65504.0f);
  const __m256 lowest = _mm256_set1_ps(-65504.0f);
  for (int64_t i = 0; i < count; i += 8) {
    const __m256 clamped =
        _mm256_max_ps(_mm256_min_ps(_mm256_loadu_ps(values + i), largest), lowest);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i),
                     _mm256_cvtps_ph(clamped, _MM_FROUND_TO_NEAREST_INT));
  }
}

TFC_AVX2 void WidenByInstruction(const unsigned char* in, int64_t count, float* values) {
  for (int64_t i = 0; i < count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i));
    _mm256_storeu_ps(values + i, _mm256_cvtph_ps(halves));
  }
}

int64_t NumByInstruction(int64_t count) { return CurrentSimd() >= Simd::kAvx2 ? count / 8 * 8 : 0; }

#elif defined(TFC_HAS_ARM_SIMD)

uint16x4_t NarrowFour(const float* values) {
  const float32x4_t below = vminq_f32(vld1q_f32(values), vdupq_n_f32(65504.0f));
  return vreinterpret_u16_f16(vcvt_f16_f32(vmaxq_f32(below, vdupq_n_f32(-65504.0f))));
}

void NarrowByInstruction(const float* values, int64_t count, unsigned char* out) {
  for (int64_t i = 0; i < count; i += 8) {
    const uint16x8_t halves = vcombine_u16(NarrowFour(values + i), NarrowFour(values + i + 4));
    vst1q_u8(out + 2 * i, vreinterpretq_u8_u16(halves));
  }
}

void WidenByInstruction(const unsigned char* in, int64_t count, float* values) {
  for (int64_t i = 0; i < count; i += 8) {
    const float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(in + 2 * i));
    vst1q_f32(values + i, vcvt_f32_f16(vget_low_f16(halves)));
    vst1q_f32(values + i + 4, vcvt_f32_f16(vget_high_f16(halves)));
  }
}

int64_t NumByInstruction(int64_t count) { return count / 8 * 8; }

#else

void NarrowByInstruction(const float*, int64_t, unsigned char*) {}
void WidenByInstruction(const unsigned char*, int64_t, float*) {}
int64_t NumByInstruction(int64_t) { return 0; }

#endif

// A format: its conversions over arrays at any alignment, and its limits.
struct Fp16 {
  static constexpr const char* kName = "fp16";
  static constexpr double kLargest = 65504.0;
  static constexpr double kHalfUnit = 0x1p-11;       // Relative error of a normal number.
  static constexpr double kHalfSubnormal = 0x1p-25;  // Absolute error of a subnormal number.

  static void NarrowArray(const float* values, int64_t count, unsigned char* out) {
    const int64_t num_done = NumByInstruction(count);
    NarrowByInstruction(values, num_done, out);
    NarrowLoop<SaturatingHalf>(values + num_done, count - num_done, out + 2 * num_done);
  }
  static void WidenArray(const unsigned char* in, int64_t count, float* values) {
    const int64_t num_done = NumByInstruction(count);
    WidenByInstruction(in, num_done, values);
    WidenLoop<HalfToFloat>(in + 2 * num_done, count - num_done, values + num_done);
  }
};

struct Bf16 {
  static constexpr const char* kName = "bf16";
  static constexpr double kLargest = 0x1.FEp127;
  static constexpr double kHalfUnit = 0x1p-8;
  static constexpr double kHalfSubnormal = 0x1p-134;

  static constexpr auto NarrowArray = NarrowLoop<SaturatingBFloat16>;
  static constexpr auto WidenArray = WidenLoop<BFloat16ToFloat>;
};

template <typename Format>
class HalfFloat : public ValueCodec {
 public:
  ChunkEncoder OpenEncoder(uint32_t k, const CodecContext&, Bytes* out) const override {
    unsigned char* const section = ByteWriter(out).Extend(2 * uint64_t{k});
    return {kDecodeChunk, [=](int64_t begin, int64_t end, const float* values, float* pending) {
              Format::NarrowArray(values, end - begin, section + 2 * begin);
              if (pending == nullptr) return;
              float decoded[kDecodeChunk];
              Format::WidenArray(section + 2 * begin, end - begin, decoded);
              Subtract(decoded, end - begin, pending);
            }};
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    ByteReader reader(section);
    ByteSpan bytes;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("values", 2 * uint64_t{k}, &bytes));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd(Format::kName));
    *decoder = [=](int64_t begin, int64_t end, float* values) {
      Format::WidenArray(bytes.data() + 2 * begin, end - begin, values);
      if (AllFinite({values, static_cast<size_t>(end - begin)})) return OkStatus();
      return DataLoss(Format::kName, ": a value is not finite");
    };
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

}  // namespace

Definition<ValueCodec> Fp16Value() {
  return {"values as IEEE binary16, rounded to nearest even, saturating",
          {},
          Make<HalfFloat<Fp16>>,
          "half a unit in the last place (2^-11 relative); saturates at 65504",
          "2 k"};
}

Definition<ValueCodec> Bf16Value() {
  return {"values as bfloat16, rounded to nearest even, saturating",
          {},
          Make<HalfFloat<Bf16>>,
          "half a unit in the last place (2^-8 relative); saturates",
          "2 k"};
}

}  // namespace tfcompress
