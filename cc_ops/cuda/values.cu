#include "cuda/launch.h"
#include "cuda/launch_frames.h"
#include "cuda/numbers.h"
#include "cuda/values.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void EncodeValuesKernel(const EncodedFrame* frames, ValueKind kind) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const SelectedValues values = frame.values;
  const SentResidual residual = frame.Residual();
  const uint32_t k = frame.state_dev->k;
  unsigned char* const section = frame.ValueSection();
  for (uint64_t i = ThisThread(); i < k; i += NumThreads())
    residual.TakeOut(i, EncodeNumber(kind, values.At(i), i, section));
}

__global__ void GatherValuesKernel(SelectedValues values, const uint32_t* k, float* gathered) {
  for (uint64_t i = ThisThread(); i < *k; i += NumThreads()) gathered[i] = values.At(i);
}

__global__ void AddScaledKernel(const AddedValues* sections, float scale, uint32_t bits) {
  const AddedValues added = sections[blockIdx.y];
  if (*added.error_dev != 0) return;
  const uint32_t* indices = added.indices_dev;
  for (uint64_t i = ThisThread(); i < added.section.k; i += NumThreads()) {
    const float value = DecodeNumber(added.section.kind, added.section.data_dev, i);
    if (!IsFiniteBits(FloatBits(value))) atomicOr(added.error_dev, bits);
    added.sum_dev[indices == nullptr ? i : indices[i]] += scale * value;
  }
}

}  // namespace

Status EncodeValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                    Span<const CodedBuffers> buffers, cudaStream_t stream) {
  if (IsCoded(spec.kind)) return EncodeCodedValues(spec, frames, buffers, stream);
  const auto most_values = [](const EncodedFrame& frame) { return frame.max_sent; };
  return LaunchFrames("encode values", EncodeValuesKernel, frames, most_values, stream, spec.kind);
}

Status GatherValues(const SelectedValues& values, const uint32_t* k_dev, uint32_t max_k,
                    float* gathered_dev, cudaStream_t stream) {
  return LaunchThreads("gather values", GatherValuesKernel, max_k, stream, values, k_dev,
                       gathered_dev);
}

Status AddScaled(const Parts<AddedValues>& sections, float scale, uint32_t bits,
                 cudaStream_t stream) {
  if (sections.size() == 0) return OkStatus();
  if (IsCoded(sections.on_host[0].section.kind))
    return AddCodedValues(sections, scale, bits, stream);
  return LaunchParts("add scaled", AddScaledKernel, CountValues(sections), sections.size(), stream,
                     sections.data_dev, scale, bits);
}

}  // namespace device
}  // namespace tfcompress
