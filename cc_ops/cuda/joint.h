// Joint codecs on the device: the interface that FrameEncoder uses.
#ifndef TFCOMPRESS_CUDA_JOINT_H_
#define TFCOMPRESS_CUDA_JOINT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/grouped_sketch.h"
#include "cuda/joint_spec.h"
#include "cuda/sent_slots.h"
#include "cuda/threelc.h"
#include "cuda/value_statistics.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// The format of a kind that is a grouped sketch.
inline GroupFormat FormatOf(JointKind kind) {
  return kind == JointKind::kSkcompress ? GroupFormat::kSkcompress : GroupFormat::kSketchml;
}

struct JointBuffers {
  ThreelcBuffers threelc;
  GroupedSketchBuffers sketch;
};

// Takes buffers for encoding up to max_k of n elements in up to max_bytes bytes.
Status TakeJointBuffers(const JointSpec& spec, uint32_t n, uint32_t max_k, uint64_t max_bytes,
                        Workspace* workspace, JointBuffers* buffers);

// Codes the state_dev->k <= max_k values and sets state_dev->k to the number that receivers will
// decode; `seed` is the frame's.
Status PrepareJoint(const JointSpec& spec, const SelectedValues& values, uint32_t max_k,
                    uint64_t seed, const JointBuffers& buffers, EncodeState* state_dev,
                    cudaStream_t stream);
// The address of the length of the value section, which PrepareJoint sets. There is no other
// section.
const uint64_t* JointValueBytes(const JointSpec& spec, const JointBuffers& buffers);
// Writes the section into the frame with the lengths in state_dev, and subtracts its decoded values
// from the slots. Does nothing if state_dev->k is 0.
Status WriteJoint(const JointSpec& spec, const SelectedValues& values, const JointBuffers& buffers,
                  const EncodeState* state_dev, const SentSlots& slots, unsigned char* frame_dev,
                  cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_JOINT_H_
