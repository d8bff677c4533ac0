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

__global__ void GatherValuesKernel(const EncodedFrame* frames, const uint32_t* supports,
                                   float* gathered) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const SelectedValues values = frame.Support();
  float* const own = gathered + (frame.support_dev - supports);
  const uint32_t k = frame.state_dev->k;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads()) own[i] = values.At(i);
}

}  // namespace

Status EncodeValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                    const CodedBuffers& buffers, cudaStream_t stream) {
  if (IsCoded(spec.kind)) return EncodeCodedValues(spec, frames, buffers, stream);
  return LaunchFrames("encode values", EncodeValuesKernel, frames, MaxSentOf, stream, spec.kind);
}

Status GatherValues(const Parts<EncodedFrame>& frames, const uint32_t* supports_dev,
                    float* gathered_dev, cudaStream_t stream) {
  return LaunchFrames("gather values", GatherValuesKernel, frames, MaxSupportOf, stream,
                      supports_dev, gathered_dev);
}

}  // namespace device
}  // namespace tfcompress
