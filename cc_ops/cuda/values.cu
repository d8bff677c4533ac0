#include "core/frame.h"
#include "cuda/launch.h"
#include "cuda/values.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void EncodeValuesKernel(ValueFormat format, DenseVector dense, const uint32_t* indices,
                                   const EncodeState* state, float* residual,
                                   unsigned char* frame) {
  unsigned char* section = frame + kFrameHeaderBytes + state->num_index_bytes;
  for (uint64_t i = ThisThread(); i < state->k; i += NumThreads()) {
    const uint32_t index = indices == nullptr ? static_cast<uint32_t>(i) : indices[i];
    const float decoded = EncodeValue(format, dense.At(index), i, section);
    if (residual != nullptr) residual[index] -= decoded;
  }
}

__global__ void AddScaledKernel(ValueFormat format, const unsigned char* section,
                                const uint32_t* indices, uint32_t k, float scale, uint32_t bits,
                                uint32_t* error, float* sum) {
  if (*error != 0) return;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads()) {
    const float value = DecodeValue(format, section, i);
    if (!IsFiniteBits(FloatBits(value))) atomicOr(error, bits);
    sum[indices == nullptr ? i : indices[i]] += scale * value;
  }
}

}  // namespace

Status EncodeValues(ValueFormat format, const DenseVector& dense, const uint32_t* indices_dev,
                    uint32_t max_k, const EncodeState* state_dev, float* residual_dev,
                    unsigned char* frame_dev, cudaStream_t stream) {
  return LaunchThreads("encode values", EncodeValuesKernel, max_k, stream, format, dense,
                       indices_dev, state_dev, residual_dev, frame_dev);
}

Status AddScaled(ValueFormat format, const unsigned char* section_dev, const uint32_t* indices_dev,
                 uint32_t k, float scale, uint32_t bits, uint32_t* error_dev, float* sum_dev,
                 cudaStream_t stream) {
  return LaunchThreads("add scaled", AddScaledKernel, k, stream, format, section_dev, indices_dev,
                       k, scale, bits, error_dev, sum_dev);
}

}  // namespace device
}  // namespace tfcompress
