#include <algorithm>

#include "core/float_order.h"
#include "core/sketch/bucket_quantizer.h"
#include "cuda/coded_values.h"
#include "cuda/launch.h"
#include "cuda/load_volatile.h"
#include "cuda/raw_bytes.h"
#include "cuda/reciprocal_log_levels.h"

namespace tfcompress {
namespace device {
namespace {

// Inverse of WriteCurve.
__device__ bool ReadCurve(const unsigned char* section, CurvePart* part) {
  part->curve = LoadUnaligned<DoubleExponential>(section);
  part->range = LoadUnaligned<MagnitudeRange>(section + sizeof(part->curve));
  return part->curve.IsFinite() && part->range.IsValid();
}

// Reads the curves of a section of at least HeaderBytes bytes.
__device__ bool ReadCurves(const ValueSectionView& section, ValueParams* params) {
  const uint32_t k = section.k;
  const unsigned char* from = section.data_dev;
  CurvePart& nonnegative = params->curves[0];
  CurvePart& negative = params->curves[1];
  nonnegative.count = LoadUnaligned<uint32_t>(from);
  from += sizeof(uint32_t);
  if (nonnegative.count > k) return false;
  negative.count = k - nonnegative.count;
  params->spec.num_curves = (nonnegative.count > 0) + (negative.count > 0);
  if (params->spec.SectionBytes(k) != section.num_bytes) return false;
  if (nonnegative.count > 0) {
    if (!ReadCurve(from, &nonnegative)) return false;
    from += CurvePart::kCurveBytes;
  }
  if (LoadUnaligned<uint32_t>(from) != negative.count) return false;
  return negative.count == 0 || ReadCurve(from + sizeof(uint32_t), &negative);
}

// Inverse of WriteParams for at least HeaderBytes untrusted bytes; false if no section of k > 0
// values begins so.
__device__ bool ReadParams(const ValueSectionView& view, ValueParams* params) {
  ValueSpec& spec = params->spec;
  const unsigned char* section = view.data_dev;
  spec.kind = view.kind;
  switch (view.kind) {
    case ValueKind::kBlockInt: {
      const int block_bits = section[1];
      BlockIntLevels levels(BlockIntLevels::kMinBits, LevelSpacing::kEven);
      if (!BlockIntLevels::Parse(section[0], &levels) ||
          block_bits < BlockIntLevels::kMinBlockBits || block_bits > BlockIntLevels::kMaxBlockBits)
        return false;
      spec.num_bits = levels.num_bits();
      spec.spacing = levels.spacing();
      spec.bucket_size = 1u << block_bits;
      return true;
    }
    case ValueKind::kQsgd:
      spec.num_bits = section[0];
      spec.bucket_size = LoadUnaligned<uint32_t>(section + 1);
      return spec.num_bits >= QsgdLevels::kMinBits && spec.num_bits <= QsgdLevels::kMaxBits &&
             spec.bucket_size > 0;
    case ValueKind::kUniform: {
      spec.num_bits = section[0];
      const ValueRange range = {LoadUnaligned<float>(section + 1),
                                LoadUnaligned<float>(section + 5)};
      params->range = {FlushSubnormal(range.least), FlushSubnormal(range.largest)};
      return (spec.num_bits == 8 || spec.num_bits == 16) && range.IsValid();
    }
    case ValueKind::kLogquant:
      spec.num_bits = section[0];
      params->largest_exponent = section[1];
      return PowerLevels{spec.num_bits, params->largest_exponent}.IsValid();
    case ValueKind::kTernary: {
      const auto scale = LoadUnaligned<float>(section);
      params->scale = FlushSubnormal(scale);
      return FloatBits(scale) < kFloatInfinityBits;
    }
    case ValueKind::kSign:
      spec.num_bits = 1;
      params->means = LoadUnaligned<SignMeans>(section);
      return params->means.AreFinite() && params->means.HaveTheirSigns();
    case ValueKind::kQuantile:
      spec.num_buckets = LoadUnaligned<uint32_t>(section);
      spec.num_bits = BitsFor(spec.num_buckets);
      return spec.num_buckets > 0 && spec.num_buckets <= view.k &&
             spec.num_buckets <= kMaxQuantileBuckets;
    case ValueKind::kLog:
      params->log_scale = {LoadUnaligned<double>(section), LoadUnaligned<double>(section + 8),
                           LoadUnaligned<uint16_t>(section + 16),
                           LoadUnaligned<uint16_t>(section + 18)};
      spec.num_bits = BitsFor(params->log_scale.NumCodes());
      return params->log_scale.IsValid();
    case ValueKind::kDexp:
      spec.num_bits = BitsFor(view.k);
      params->num_ranks = view.k;
      return ReadCurves(view, params);
    default:
      return false;
  }
}

__device__ void ReadSection(const AddedValues& added, uint32_t bits) {
  const ValueSectionView& section = added.section;
  ValueParams found{};
  const bool valid = section.num_bytes >= ValueSpec::HeaderBytes(section.kind) &&
                     ReadParams(section, &found) &&
                     found.spec.SectionBytes(section.k) == section.num_bytes;
  if (!valid) atomicOr(added.error_dev, bits);
  found.codes_begin = valid ? found.spec.CodesBegin(section.k) : 0;
  found.table = added.table_dev;
  *added.params_dev = found;
}

// One thread per section.
__global__ void ReadSectionsKernel(const AddedValues* sections, uint64_t num_sections,
                                   uint32_t bits) {
  for (uint64_t i = ThisThread(); i < num_sections; i += NumThreads())
    if (sections[i].section.k > 0) ReadSection(sections[i], bits);
}

// Whether a norm is finite and not negative, a mean finite, a scale in its range.
__device__ bool IsBucket(ValueKind kind, const unsigned char* buckets, uint64_t bucket) {
  if (kind == ValueKind::kBlockInt)
    return BlockIntLevels::IsScale(LoadAt<uint16_t>(buckets, bucket));
  const uint32_t ignored = kind == ValueKind::kQuantile ? kFloatSignBit : 0;
  // The bits of a negative number are greater than those of infinity.
  return (LoadAt<uint32_t>(buckets, bucket) & ~ignored) < kFloatInfinityBits;
}

__global__ void CheckBucketsKernel(const AddedValues* sections, uint32_t bits) {
  const AddedValues added = sections[blockIdx.y];
  if (added.section.k == 0 || LoadVolatile(added.error_dev) != 0) return;
  const ValueKind kind = added.section.kind;
  const uint64_t header_bytes = ValueSpec::HeaderBytes(kind);
  const uint64_t num_buckets =
      (added.params_dev->codes_begin - header_bytes) / ValueSpec::BucketBytes(kind);
  for (uint64_t bucket = ThisThread(); bucket < num_buckets; bucket += NumThreads()) {
    if (!IsBucket(kind, added.section.data_dev + header_bytes, bucket))
      atomicOr(added.error_dev, bits);
  }
}

}  // namespace

uint64_t TableSize(ValueKind kind, uint32_t k, uint64_t num_bytes) {
  if (HasRanks(kind)) return k;
  const uint64_t header_bytes = ValueSpec::HeaderBytes(kind);
  if (kind != ValueKind::kLog || num_bytes <= header_bytes) return 0;
  // Two codes for each level, and one more.
  constexpr uint64_t kMaxLevelBits = 16;
  return uint64_t{1} << std::min(8 * (num_bytes - header_bytes) / k, kMaxLevelBits);
}

Status ReadParameters(const Parts<AddedValues>& sections, uint32_t bits, cudaStream_t stream) {
  if (sections.size() == 0) return OkStatus();
  TFC_RETURN_IF_ERROR(LaunchThreads("read value sections", ReadSectionsKernel, sections.size(),
                                    stream, sections.data_dev, sections.size(), bits));
  switch (sections.on_host[0].section.kind) {
    case ValueKind::kQsgd:
    case ValueKind::kBlockInt:
    case ValueKind::kQuantile:
      return LaunchParts(
          "check buckets", CheckBucketsKernel,
          CountItems(sections.on_host, [](const AddedValues& added) { return added.section.k; }),
          sections.size(), stream, sections.data_dev, bits);
    case ValueKind::kLog:
      return ReadLevels(bits, sections, stream);
    case ValueKind::kDexp:
      return EvaluateCurves(sections, stream);
    default:
      return OkStatus();
  }
}

}  // namespace device
}  // namespace tfcompress
