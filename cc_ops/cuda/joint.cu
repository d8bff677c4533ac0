#include "cuda/joint.h"

namespace tfcompress {
namespace device {

Status TakeJointBuffers(const JointSpec& spec, uint32_t n, uint32_t max_k, uint64_t max_bytes,
                        Workspace* workspace, JointBuffers* buffers) {
  switch (spec.kind) {
    case JointKind::kNone:
      break;
    case JointKind::kThreelc:
      return TakeThreelcBuffers(n, workspace, &buffers->threelc);
    case JointKind::kSketchml:
    case JointKind::kSkcompress:
      return TakeGroupedSketch(FormatOf(spec.kind), spec.sketch, max_k, max_bytes, workspace,
                               &buffers->sketch);
  }
  return OkStatus();
}

Status PrepareJoint(const JointSpec& spec, const SelectedValues& values, uint32_t max_k,
                    uint64_t seed, const JointBuffers& buffers, EncodeState* state_dev,
                    cudaStream_t stream) {
  switch (spec.kind) {
    case JointKind::kNone:
      break;
    case JointKind::kThreelc:
      return PrepareThreelc(values, max_k, spec.multiplier, buffers.threelc, state_dev, stream);
    case JointKind::kSketchml:
    case JointKind::kSkcompress:
      return PrepareGroupedSketch(values, &state_dev->k, seed, buffers.sketch, stream);
  }
  return OkStatus();
}

const uint64_t* JointValueBytes(const JointSpec& spec, const JointBuffers& buffers) {
  switch (spec.kind) {
    case JointKind::kNone:
      break;
    case JointKind::kThreelc:
      return &buffers.threelc.state_dev->num_value_bytes;
    case JointKind::kSketchml:
    case JointKind::kSkcompress:
      return buffers.sketch.num_value_bytes_dev;
  }
  return nullptr;
}

Status WriteJoint(const JointSpec& spec, const SelectedValues& values, const JointBuffers& buffers,
                  const EncodeState* state_dev, const SentSlots& slots, unsigned char* frame_dev,
                  cudaStream_t stream) {
  switch (spec.kind) {
    case JointKind::kNone:
      break;
    case JointKind::kThreelc:
      return WriteThreelc(values.dense.n, buffers.threelc, state_dev, slots, frame_dev, stream);
    case JointKind::kSketchml:
    case JointKind::kSkcompress:
      return WriteGroupedSketch(values.dense.n, buffers.sketch, state_dev, slots, frame_dev,
                                stream);
  }
  return OkStatus();
}

}  // namespace device
}  // namespace tfcompress
