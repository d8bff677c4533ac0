#include <type_traits>

#include "core/float_order.h"
#include "cuda/coded_values.h"
#include "cuda/launch.h"
#include "cuda/launch_frames.h"
#include "cuda/ordered_sums.h"
#include "cuda/raw_bytes.h"

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

// One warp for a frame.
__global__ void BeginSectionKernel(const EncodedFrame* frames, ValueSpec spec) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const uint32_t k = frame.state_dev->k;
  if (k == 0) return;
  if (!IsMeasured(spec.kind)) {
    const ValueParams found = ParamsOf(spec, k, *frame.extremes_dev, frame.sums[0], frame.sums[1]);
    if (ThisThread() == 0) *frame.params_dev = found;
  }
  if (ThisThread() == 0) WriteParams(*frame.params_dev, frame.ValueSection());
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

__global__ void WriteMeansKernel(const QuantizerPart* parts, const EncodedFrame* frames) {
  const EncodedFrame& frame = frames[blockIdx.y];
  if (frame.state_dev->k == 0) return;
  const float* const means = parts[blockIdx.y].means_dev;
  unsigned char* table = frame.ValueSection() + ValueSpec::HeaderBytes(ValueKind::kQuantile);
  const uint32_t num_buckets = frame.params_dev->spec.num_buckets;
  for (uint64_t bucket = ThisThread(); bucket < num_buckets; bucket += NumThreads())
    StoreAt(table, bucket, means[bucket]);
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
  TFC_RETURN_IF_ERROR(FindExtremes(frames, ObservedValues::kSent, stream));
  if (spec.kind == ValueKind::kTernary && spec.NumSums() > 0) return SumSquares(frames, stream);
  return spec.kind == ValueKind::kSign ? SumSigns(frames, stream) : OkStatus();
}

// Writes what precedes the codes, except the norms of qsgd and the scales of block_int.
Status BeginSections(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                     const CodedBuffers& buffers, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(
      LaunchWarpForEach("begin value sections", BeginSectionKernel, frames, stream, spec));
  if (spec.kind != ValueKind::kQuantile) return OkStatus();
  const auto max_buckets = [](const QuantizerPart& part) { return part.max_used_buckets(); };
  return LaunchFrames("write means", WriteMeansKernel, buffers.quantizer.quantized(), max_buckets,
                      stream, frames.data_dev);
}

}  // namespace

Status TakeCodedBuffers(const ValueSpec& spec, Workspace* workspace, Span<EncodedFrame> frames,
                        CodedBuffers* buffers) {
  auto* params_dev = workspace->Take<ValueParams>(frames.size());
  auto* extremes_dev = workspace->Take<Extremes>(frames.size());
  for (EncodedFrame& frame : frames) {
    frame.params_dev = params_dev++;
    frame.extremes_dev = extremes_dev++;
    if (IsMeasured(spec.kind)) frame.lengths.num_value_bytes_dev = &frame.params_dev->num_bytes;
  }
  TakeSums(spec.NumSums(), workspace, frames);
  if (spec.kind == ValueKind::kLog)
    buffers->levels_dev = workspace->Take<float>(frames.size() * spec.max_levels);
  if (HasRanks(spec.kind))
    TFC_RETURN_IF_ERROR(TakeSortedBuffers(frames, workspace, &buffers->sorted));
  if (spec.kind == ValueKind::kDexp) TakeCurveBuffers(frames, workspace, &buffers->curves);
  if (spec.kind != ValueKind::kQuantile) return OkStatus();
  std::vector<QuantizerSize> sizes;
  uint64_t max_count = 0;
  for (const EncodedFrame& frame : frames) {
    sizes.push_back({frame.max_sent, spec.num_buckets});
    max_count += frame.max_sent;
  }
  return TakeQuantizerBuffers(sizes, max_count, 0, workspace, &buffers->quantizer);
}

Status EncodeCodedValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                         const CodedBuffers& buffers, cudaStream_t stream) {
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

}  // namespace device
}  // namespace tfcompress
