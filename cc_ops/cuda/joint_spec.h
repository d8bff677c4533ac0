// Joint codecs with their parameters.
#ifndef TFCOMPRESS_CUDA_JOINT_SPEC_H_
#define TFCOMPRESS_CUDA_JOINT_SPEC_H_

#include "core/joint/bucket_groups.h"

namespace tfcompress {
namespace device {

enum class JointKind { kNone, kThreelc, kSketchml };

struct JointSpec {
  JointKind kind;
  double multiplier;           // threelc
  GroupedSketchConfig sketch;  // sketchml
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_JOINT_SPEC_H_
