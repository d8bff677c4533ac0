#include <limits>
#include <type_traits>

#include "core/float_order.h"
#include "core/sketch/bucket_quantizer.h"
#include "cuda/coded_values.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/launch_frames.h"
#include "cuda/ordered_sums.h"
#include "cuda/raw_bytes.h"
#include "cuda/reciprocal_log_levels.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Header of a section -----------------------------------------------------------------------

// Derives the parameters from the statistics of k > 0 values. Called by a warp.
__device__ ValueParams ParamsOf(const ValueSpec& spec, uint32_t k, const Extremes& extremes,
                                const SumBuffers& first, const SumBuffers& second) {
  ValueParams params{};
  params.spec = spec;
  params.codes_begin = spec.CodesBegin(k);
  const float largest = FlushSubnormal(FloatFromBits(extremes.largest_magnitude));
  switch (spec.kind) {
    case ValueKind::kUniform:
      params.range = ValueRange::OfKeys(~extremes.complement_of_least_key, extremes.largest_key);
      break;
    case ValueKind::kLogquant:
      params.largest_exponent = PowerLevels::Exponent(largest, PowerLevels::kNearest);
      break;
    case ValueKind::kTernary:
      params.scale = largest;
      if (spec.NumSums() > 0 && largest != 0)
        params.scale = TernaryScale::Clipped(largest, spec.clip, SumOfBlocks(first, k), k).scale;
      break;
    case ValueKind::kSign:
      params.means.of_sign[0] =
          SignMeans::Mean(SumOfBlocks(first, k), uint64_t{k} - extremes.num_negative);
      params.means.of_sign[1] = SignMeans::Mean(SumOfBlocks(second, k), extremes.num_negative);
      break;
    default:
      break;
  }
  return params;
}

// Writes one part of dexp; returns the address after it.
__device__ unsigned char* WriteCurve(const CurvePart& part, unsigned char* section) {
  StoreUnaligned(section, part.count);
  section += sizeof(part.count);
  if (part.count == 0) return section;
  StoreUnaligned(section, part.curve);
  StoreUnaligned(section + sizeof(part.curve), part.range);
  return section + CurvePart::kCurveBytes;
}

// Writes the parameters, except the norms of qsgd, the scales of block_int and the means of
// quantile, which have their own kernels.
__device__ void WriteParams(const ValueParams& params, unsigned char* section) {
  const auto num_bits = static_cast<uint8_t>(params.spec.num_bits);
  switch (params.spec.kind) {
    case ValueKind::kBlockInt:
      section[0] = BlockIntLevels(num_bits, params.spec.spacing).Byte();
      section[1] = static_cast<uint8_t>(BitsFor(params.spec.bucket_size));
      break;
    case ValueKind::kQsgd:
      section[0] = num_bits;
      StoreUnaligned(section + 1, params.spec.bucket_size);
      break;
    case ValueKind::kUniform:
      section[0] = num_bits;
      StoreUnaligned(section + 1, params.range.least);
      StoreUnaligned(section + 5, params.range.largest);
      break;
    case ValueKind::kLogquant:
      section[0] = num_bits;
      section[1] = static_cast<uint8_t>(params.largest_exponent);
      break;
    case ValueKind::kTernary:
      StoreUnaligned(section, params.scale);
      break;
    case ValueKind::kSign:
      StoreUnaligned(section, params.means);
      break;
    case ValueKind::kQuantile:
      StoreUnaligned(section, params.spec.num_buckets);
      break;
    case ValueKind::kDexp:
      section = WriteCurve(params.curves[0], section);
      WriteCurve(params.curves[1], section);
      break;
    case ValueKind::kLog:
      StoreUnaligned(section, params.log_scale.base);
      StoreUnaligned(section + 8, params.log_scale.sum);
      StoreUnaligned(section + 16, params.log_scale.first);
      StoreUnaligned(section + 18, params.log_scale.num_levels);
      break;
    default:
      break;
  }
}

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

// One warp for a frame.
__global__ void BeginSectionKernel(const EncodedFrame* frames, ValueSpec spec) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const uint32_t k = frame.state_dev->k;
  if (k == 0) return;
  const ValueParams found =
      IsMeasured(spec.kind) ? *frame.params_dev
                            : ParamsOf(spec, k, *frame.extremes_dev, frame.sums[0], frame.sums[1]);
  if (ThisThread() != 0) return;
  *frame.params_dev = found;
  WriteParams(found, frame.ValueSection());
}

__device__ void ReadSection(const AddedValues& added, uint32_t bits, const float* table) {
  const ValueSectionView& section = added.section;
  ValueParams found{};
  const bool valid = section.num_bytes >= ValueSpec::HeaderBytes(section.kind) &&
                     ReadParams(section, &found) &&
                     found.spec.SectionBytes(section.k) == section.num_bytes;
  if (!valid) atomicOr(added.error_dev, bits);
  found.codes_begin = valid ? found.spec.CodesBegin(section.k) : 0;
  found.table = table;
  *added.params_dev = found;
}

// One thread per section.
__global__ void ReadSectionsKernel(const AddedValues* sections, uint64_t num_sections,
                                   uint32_t bits, const float* table) {
  for (uint64_t i = ThisThread(); i < num_sections; i += NumThreads())
    if (sections[i].section.k > 0) ReadSection(sections[i], bits, table);
}

__global__ void MeasureQuantileKernel(ValueSpec spec, const uint32_t* k,
                                      const uint32_t* num_buckets, const uint32_t* codes,
                                      ValueParams* params) {
  if (ThisThread() != 0) return;
  ValueParams found{};
  found.spec = spec;
  found.spec.num_buckets = *num_buckets;
  found.spec.num_bits = found.spec.CodeBits(*k);
  found.codes = codes;
  found.codes_begin = found.spec.CodesBegin(*k);
  found.num_bytes = found.spec.SectionBytes(*k);
  *params = found;
}

// Takes the curves from *params.
__global__ void MeasureDexpKernel(ValueSpec spec, const uint32_t* k, const uint32_t* ranks,
                                  const float* table, ValueParams* params) {
  if (ThisThread() != 0) return;
  ValueParams found{};
  found.spec = spec;
  found.spec.num_curves = 0;
  for (int sign = 0; sign < 2; ++sign) {
    found.curves[sign] = params->curves[sign];
    found.spec.num_curves += found.curves[sign].count > 0;
  }
  found.spec.num_bits = BitsFor(*k);
  found.codes = ranks;
  found.table = table;
  found.num_ranks = *k;
  found.codes_begin = found.spec.CodesBegin(*k);
  found.num_bytes = found.spec.SectionBytes(*k);
  *params = found;
}

// ---- Norms, scales and means of buckets --------------------------------------------------------

__global__ void WriteNormsKernel(const EncodedFrame* frames, uint32_t bucket_size) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const SelectedValues values = frame.values;
  unsigned char* norms = frame.ValueSection() + ValueSpec::HeaderBytes(ValueKind::kQsgd);
  const auto store = [&](uint64_t bucket, double sum) {
    StoreUnaligned(norms + sizeof(float) * bucket, QsgdLevels::Norm(sum));
  };
  SumEachPart(values, frame.state_dev->k, bucket_size, SquareTerm{}, store);
}

__global__ void WriteScalesKernel(const EncodedFrame* frames, BlockIntLevels levels,
                                  uint32_t block_size) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const SelectedValues values = frame.values;
  const uint64_t k = frame.state_dev->k;
  unsigned char* scales = frame.ValueSection() + ValueSpec::HeaderBytes(ValueKind::kBlockInt);
  if (levels.are_four()) {
    const auto square = [](float value) { return BlockIntLevels::Square(value); };
    SumEachPart(values, k, block_size, square, [&](uint64_t block, double sum) {
      const uint64_t begin = block * block_size;
      const uint64_t size = k - begin < block_size ? k - begin : block_size;
      StoreAt(scales, block, BlockIntLevels::ScaleOfSquares(sum, static_cast<int64_t>(size)));
    });
    return;
  }
  const auto largest = [&](uint64_t begin, uint64_t end) {
    return MaxByFourLanes(
        begin, end, [&](uint64_t i) { return FloatBits(values.At(i)) & kFloatMagnitudeBits; });
  };
  ReduceEachPart(k, block_size, largest, [&](uint64_t block, uint32_t magnitude) {
    StoreAt(scales, block, BlockIntLevels::ScaleOf(FloatFromBits(magnitude)));
  });
}

__global__ void WriteMeansKernel(const EncodedFrame* frames, const float* means) {
  const EncodedFrame& frame = frames[blockIdx.y];
  if (frame.state_dev->k == 0) return;
  unsigned char* table = frame.ValueSection() + ValueSpec::HeaderBytes(ValueKind::kQuantile);
  const uint32_t num_buckets = frame.params_dev->spec.num_buckets;
  for (uint64_t bucket = ThisThread(); bucket < num_buckets; bucket += NumThreads())
    StoreAt(table, bucket, means[bucket]);
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
  if (added.section.k == 0 || *added.error_dev != 0) return;
  const ValueKind kind = added.section.kind;
  const uint64_t header_bytes = ValueSpec::HeaderBytes(kind);
  const uint64_t num_buckets =
      (added.params_dev->codes_begin - header_bytes) / ValueSpec::BucketBytes(kind);
  for (uint64_t bucket = ThisThread(); bucket < num_buckets; bucket += NumThreads()) {
    if (!IsBucket(kind, added.section.data_dev + header_bytes, bucket))
      atomicOr(added.error_dev, bits);
  }
}

// ---- Codes -------------------------------------------------------------------------------------

// A warp makes the codes of 32 groups: its lanes take values that stand side by side, then a group
// each.
template <typename Codes>
__global__ void EncodeCodesKernel(const EncodedFrame* frames) {
  constexpr uint64_t kGroup = Codes::kGroup;
  constexpr uint64_t kWarpCodes = kWarpThreads * kGroup;
  __shared__ uint32_t codes_of_warps[kBlockWarps][kWarpCodes];
  uint32_t* const codes = codes_of_warps[threadIdx.x / kWarpThreads];
  const EncodedFrame& frame = frames[blockIdx.y];
  const uint64_t k = frame.state_dev->k;
  if (k == 0) return;
  const SelectedValues values = frame.values;
  const SentResidual residual = frame.Residual();
  Codes codec(*frame.params_dev, frame.ValueSection(), frame.header.seed);
  for (uint64_t begin = ThisWarp() * kWarpCodes; begin < k; begin += NumWarps() * kWarpCodes) {
    for (uint64_t j = ThisLane(); j < kWarpCodes && begin + j < k; j += kWarpThreads) {
      const uint64_t i = begin + j;
      codes[j] = codec.Code(values.At(i), i);
      residual.TakeOut(i, codec.Value(codes[j], i));
    }
    __syncwarp();
    const uint64_t first = begin + ThisLane() * kGroup;
    if (first < k) {
      const uint64_t size = k - first < kGroup ? k - first : kGroup;
      codec.Store(first / kGroup, codes + (first - begin), static_cast<int>(size));
    }
    __syncwarp();
  }
}

template <typename Codes>
__global__ void AddCodesKernel(const AddedValues* sections, float scale, uint32_t bits) {
  const AddedValues added = sections[blockIdx.y];
  const uint64_t k = added.section.k;
  if (k == 0 || *added.error_dev != 0) return;
  const uint32_t* indices = added.indices_dev;
  // Read only: the codec only loads here.
  Codes codec(*added.params_dev, const_cast<unsigned char*>(added.section.data_dev), 0);
  bool finite = true;
  // A lane's values are near each other, so that they share the numbers of a bucket. Its sums are
  // loaded before the first is needed.
  constexpr uint64_t kWarpCodes = kWarpThreads * Codes::kGroup;
  for (uint64_t begin = ThisWarp() * kWarpCodes; begin < k; begin += NumWarps() * kWarpCodes) {
    const uint64_t first = begin + ThisLane();
    uint32_t at[Codes::kGroup];
    float sums[Codes::kGroup];
    for (uint64_t j = 0; j < Codes::kGroup; ++j) {
      const uint64_t i = first + j * kWarpThreads;
      if (i >= k) break;
      at[j] = indices == nullptr ? static_cast<uint32_t>(i) : indices[i];
      sums[j] = added.sum_dev[at[j]];
    }
    for (uint64_t j = 0; j < Codes::kGroup; ++j) {
      const uint64_t i = first + j * kWarpThreads;
      if (i >= k) break;
      const float value = codec.Value(codec.Load(i), i);
      finite &= IsFiniteBits(FloatBits(value));
      added.sum_dev[at[j]] = sums[j] + scale * value;
    }
  }
  if (!finite) atomicOr(added.error_dev, bits);
}

// Writes the norms of qsgd and the scales of block_int, and finds what other parameters follow
// from.
Status CollectStatistics(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                         cudaStream_t stream) {
  const auto bucket_threads = [&](const EncodedFrame& frame) {
    return 4 * CeilDiv(frame.max_sent, spec.bucket_size);
  };
  if (spec.kind == ValueKind::kQsgd) {
    return LaunchFrames("write norms", WriteNormsKernel, frames, bucket_threads, stream,
                        spec.bucket_size);
  }
  if (spec.kind == ValueKind::kBlockInt) {
    return LaunchFrames("write scales", WriteScalesKernel, frames, bucket_threads, stream,
                        BlockIntLevels(spec.num_bits, spec.spacing), spec.bucket_size);
  }
  if (IsMeasured(spec.kind)) return OkStatus();
  TFC_RETURN_IF_ERROR(FindExtremes(frames, stream));
  if (spec.kind == ValueKind::kTernary && spec.NumSums() > 0) return SumSquares(frames, stream);
  return spec.kind == ValueKind::kSign ? SumSigns(frames, stream) : OkStatus();
}

// Writes what precedes the codes, except the norms of qsgd and the scales of block_int.
Status BeginSections(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                     Span<const CodedBuffers> buffers, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(Launch("begin value sections", BeginSectionKernel,
                             dim3(1, static_cast<unsigned>(frames.size())), kWarpThreads, stream,
                             frames.data_dev, spec));
  if (spec.kind != ValueKind::kQuantile) return OkStatus();
  for (size_t i = 0; i < frames.size(); ++i) {
    const QuantizerBuffers& quantizer = buffers[i].quantizer;
    TFC_RETURN_IF_ERROR(LaunchThreads("write means", WriteMeansKernel, quantizer.max_used_buckets(),
                                      stream, frames.data_dev + i, quantizer.means_dev));
  }
  return OkStatus();
}

Status MeasureDexp(const ValueSpec& spec, const SelectedValues& values, uint32_t max_k,
                   const uint32_t* k_dev, const CodedBuffers& buffers, cudaStream_t stream) {
  CurvePart* curves_dev = buffers.params_dev->curves;
  TFC_RETURN_IF_ERROR(SortValues(values, k_dev, buffers.sorted, stream));
  TFC_RETURN_IF_ERROR(FitCurves(buffers.sorted, k_dev, buffers.curves, curves_dev, stream));
  TFC_RETURN_IF_ERROR(EvaluateCurves(curves_dev, max_k, nullptr, buffers.table_dev, stream));
  return Launch("measure dexp", MeasureDexpKernel, 1, kWarpThreads, stream, spec, k_dev,
                buffers.sorted.ranks_dev(), buffers.table_dev, buffers.params_dev);
}

}  // namespace

Status TakeCodedBuffers(const ValueSpec& spec, uint32_t max_k, Workspace* workspace,
                        CodedBuffers* buffers) {
  buffers->params_dev = workspace->Take<ValueParams>(1);
  buffers->extremes_dev = workspace->Take<Extremes>(1);
  for (int i = 0; i < 2; ++i)
    TakeSumBuffers(i < spec.NumSums() ? max_k : 0, workspace, &buffers->sums[i]);
  if (spec.kind == ValueKind::kLog) buffers->levels_dev = workspace->Take<float>(spec.max_levels);
  if (HasRanks(spec.kind)) {
    TFC_RETURN_IF_ERROR(TakeSortedBuffers(max_k, workspace, &buffers->sorted));
    buffers->table_dev = workspace->Take<float>(max_k);
  }
  if (spec.kind == ValueKind::kDexp) TakeCurveBuffers(max_k, workspace, &buffers->curves);
  if (spec.kind != ValueKind::kQuantile) return OkStatus();
  return TakeQuantizerBuffers(max_k, spec.num_buckets, 0, workspace, &buffers->quantizer);
}

Status MeasureValues(const ValueSpec& spec, const SelectedValues& values, uint32_t max_k,
                     const uint32_t* k_dev, const CodedBuffers& buffers, cudaStream_t stream) {
  if (spec.kind == ValueKind::kLog)
    return MeasureLog(spec, /*filters=*/false, values, max_k, k_dev, buffers, stream);
  if (spec.kind == ValueKind::kDexp)
    return MeasureDexp(spec, values, max_k, k_dev, buffers, stream);
  TFC_RETURN_IF_ERROR(QuantizeToBuckets(values, k_dev, buffers.quantizer, stream));
  return Launch("measure quantile", MeasureQuantileKernel, 1, kWarpThreads, stream, spec, k_dev,
                buffers.quantizer.num_buckets_dev(), buffers.quantizer.codes_dev(),
                buffers.params_dev);
}

Status EncodeCodedValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                         Span<const CodedBuffers> buffers, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(CollectStatistics(spec, frames, stream));
  TFC_RETURN_IF_ERROR(BeginSections(spec, frames, buffers, stream));
  return WithCodes(spec.kind, [&](auto* codes) {
    using Codes = std::remove_pointer_t<decltype(codes)>;
    const auto num_groups = [](const EncodedFrame& frame) {
      return CeilDiv(frame.max_sent, Codes::kGroup);
    };
    return LaunchFrames("encode codes", EncodeCodesKernel<Codes>, frames, num_groups, stream);
  });
}

void TakeParamBuffers(const ParamNeeds& needs, Workspace* workspace, ParamBuffers* buffers) {
  buffers->levels_dev =
      workspace->Take<float>(needs.has_log ? std::numeric_limits<uint16_t>::max() : 0);
  buffers->table_dev = workspace->Take<float>(needs.max_ranks);
}

PartItems CountValues(const Parts<AddedValues>& sections) {
  return CountItems(sections.on_host, [](const AddedValues& added) { return added.section.k; });
}

Status ReadParameters(const Parts<AddedValues>& sections, uint32_t bits,
                      const ParamBuffers& buffers, cudaStream_t stream) {
  if (sections.size() == 0) return OkStatus();
  TFC_RETURN_IF_ERROR(LaunchThreads("read value sections", ReadSectionsKernel, sections.size(),
                                    stream, sections.data_dev, sections.size(), bits,
                                    buffers.table_dev));
  const AddedValues& first = sections.on_host[0];
  switch (first.section.kind) {
    case ValueKind::kQsgd:
    case ValueKind::kBlockInt:
    case ValueKind::kQuantile:
      return LaunchParts("check buckets", CheckBucketsKernel, CountValues(sections),
                         sections.size(), stream, sections.data_dev, bits);
    case ValueKind::kLog:
      return ReadLevels(bits, first.params_dev, buffers.levels_dev, first.error_dev, stream);
    case ValueKind::kDexp:
      return EvaluateCurves(first.params_dev->curves, first.section.k, first.error_dev,
                            buffers.table_dev, stream);
    default:
      return OkStatus();
  }
}

Status AddCodedValues(const Parts<AddedValues>& sections, float scale, uint32_t bits,
                      cudaStream_t stream) {
  return WithCodes(sections.on_host[0].section.kind, [&](auto* codes) {
    using Codes = std::remove_pointer_t<decltype(codes)>;
    const PartItems groups = CountItems(sections.on_host, [](const AddedValues& added) {
      return CeilDiv(added.section.k, Codes::kGroup);
    });
    return LaunchParts("add codes", AddCodesKernel<Codes>, groups, sections.size(), stream,
                       sections.data_dev, scale, bits);
  });
}

}  // namespace device
}  // namespace tfcompress
