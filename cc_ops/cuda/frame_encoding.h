// What one encoding of a FrameEncoder works on. For its sources.
#ifndef TFCOMPRESS_CUDA_FRAME_ENCODING_H_
#define TFCOMPRESS_CUDA_FRAME_ENCODING_H_

#include <cstdint>
#include <vector>

#include "cuda/bloom.h"
#include "cuda/coded_values.h"
#include "cuda/delta_bytes.h"
#include "cuda/device_variants.h"
#include "cuda/encoded_frame.h"
#include "cuda/frame_encoder.h"
#include "cuda/frame_keys.h"
#include "cuda/grouped_sketch.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/prefixed_deltas.h"

namespace tfcompress {
namespace device {

inline DeltaCoding DeltaCodingOf(const DeviceSpec& spec) {
  return {spec.index == IndexKind::kDeltaAdaptive, spec.flag_bits};
}

inline BloomSpec BloomSpecOf(const DeviceSpec& spec) { return {spec.policy, BloomRate(spec.fpr)}; }

// Buffers that tensors share, in which those of each lie end to end, and the frame of each tensor.
struct FrameEncoder::Encoding {
  Tables tables;
  Marks marks;
  uint32_t* supports_dev = nullptr;
  float* gathered_dev = nullptr;  // Copies of values that are not sent at sent_dev.
  BloomBuffers bloom;
  FrameKeys keys;
  DeltaBuffers deltas;
  DeltaWriteBuffers prefixed;
  GroupedSketchBuffers sketch{};
  CodedBuffers values;
  std::vector<EncodedFrame> frames_on_host;

  Parts<EncodedFrame> frames() const { return {frames_on_host, tables.frames_dev}; }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_ENCODING_H_
