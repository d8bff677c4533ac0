// Joint codecs with their parameters.
#ifndef TFCOMPRESS_CUDA_JOINT_SPEC_H_
#define TFCOMPRESS_CUDA_JOINT_SPEC_H_

namespace tfcompress {
namespace device {

enum class JointKind { kNone, kThreelc };

struct JointSpec {
  JointKind kind;
  double multiplier;  // threelc
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_JOINT_SPEC_H_
