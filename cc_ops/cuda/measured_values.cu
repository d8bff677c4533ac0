#include <vector>

#include "cuda/coded_values.h"
#include "cuda/launch.h"
#include "cuda/launch_frames.h"
#include "cuda/reciprocal_log_levels.h"

namespace tfcompress {
namespace device {
namespace {

// One thread per frame.
__global__ void MeasureQuantileKernel(const EncodedFrame* frames, uint64_t num_frames,
                                      ValueSpec spec, const QuantizerPart* parts,
                                      const uint64_t* begins, const uint32_t* codes) {
  for (uint64_t i = ThisThread(); i < num_frames; i += NumThreads()) {
    const uint32_t k = frames[i].state_dev->k;
    ValueParams found{};
    found.spec = spec;
    found.spec.num_buckets = parts[i].state_dev->num_buckets;
    found.spec.num_bits = found.spec.CodeBits(k);
    found.codes = codes + begins[i];
    found.first_code = parts[i].first_code;
    found.codes_begin = found.spec.CodesBegin(k);
    found.num_bytes = found.spec.SectionBytes(k);
    *frames[i].params_dev = found;
  }
}

// One thread per frame. Keeps the curves in the parameters.
__global__ void MeasureDexpKernel(const EncodedFrame* frames, uint64_t num_frames, ValueSpec spec,
                                  const uint64_t* begins, const uint32_t* ranks,
                                  const float* table) {
  for (uint64_t i = ThisThread(); i < num_frames; i += NumThreads()) {
    const uint32_t k = frames[i].state_dev->k;
    ValueParams* const params = frames[i].params_dev;
    ValueParams found{};
    found.spec = spec;
    found.spec.num_curves = 0;
    for (int sign = 0; sign < 2; ++sign) {
      found.curves[sign] = params->curves[sign];
      found.spec.num_curves += found.curves[sign].count > 0;
    }
    found.spec.num_bits = BitsFor(k);
    found.codes = ranks + begins[i];
    found.table = table + begins[i];
    found.num_ranks = k;
    found.codes_begin = found.spec.CodesBegin(k);
    found.num_bytes = found.spec.SectionBytes(k);
    *params = found;
  }
}

Status MeasureQuantile(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                       const QuantizerBuffers& quantizer, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(FindExtremes(frames, ObservedValues::kSent, stream));
  std::vector<QuantizerPart> parts = quantizer.parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const EncodedFrame& frame = frames.on_host[i];
    parts[i].values = frame.values;
    parts[i].count_dev = &frame.state_dev->k;
    parts[i].num_negative_dev = &frame.extremes_dev->num_negative;
  }
  TFC_RETURN_IF_ERROR(QuantizeToBuckets(parts, quantizer, stream));
  return LaunchThreads("measure quantile", MeasureQuantileKernel, frames.size(), stream,
                       frames.data_dev, frames.size(), spec, quantizer.parts_dev,
                       quantizer.begins_dev, quantizer.codes_dev());
}

Status MeasureDexp(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                   const CodedBuffers& buffers, cudaStream_t stream) {
  const SortedBuffers& sorted = buffers.sorted;
  TFC_RETURN_IF_ERROR(SortValues(frames, sorted, stream));
  TFC_RETURN_IF_ERROR(FitCurves(frames, sorted, buffers.curves, stream));
  TFC_RETURN_IF_ERROR(EvaluateCurves(frames, sorted, stream));
  return LaunchThreads("measure dexp", MeasureDexpKernel, frames.size(), stream, frames.data_dev,
                       frames.size(), spec, sorted.begins_dev, sorted.ranks_dev(),
                       sorted.table_dev());
}

}  // namespace

Status MeasureValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                     const CodedBuffers& buffers, cudaStream_t stream) {
  if (spec.kind == ValueKind::kLog) return MeasureLog(spec, frames, buffers.levels_dev, stream);
  if (spec.kind == ValueKind::kDexp) return MeasureDexp(spec, frames, buffers, stream);
  return MeasureQuantile(spec, frames, buffers.quantizer, stream);
}

}  // namespace device
}  // namespace tfcompress
