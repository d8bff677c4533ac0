// Joint codecs with their parameters.
#ifndef TFCOMPRESS_CUDA_JOINT_SPEC_H_
#define TFCOMPRESS_CUDA_JOINT_SPEC_H_

#include "core/joint/bucket_groups.h"

namespace tfcompress {
namespace device {

enum class JointKind { kNone, kThreelc, kSketchml, kSkcompress };

// Maximum buckets of a group when skcompress is written: a thread block finds the Huffman code of a
// group in its shared memory.
inline constexpr uint32_t kMaxCodedWidth = 1024;

inline uint32_t WidestGroup(const GroupedSketchConfig& config) {
  return BucketGroups(config.buckets, config.groups).width;
}

struct JointSpec {
  JointKind kind;
  double multiplier;           // threelc
  GroupedSketchConfig sketch;  // sketchml, skcompress
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_JOINT_SPEC_H_
