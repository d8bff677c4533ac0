// Joint codecs with their parameters.
#ifndef TFCOMPRESS_CUDA_JOINT_SPEC_H_
#define TFCOMPRESS_CUDA_JOINT_SPEC_H_

#include <cstdint>

#include "core/joint/bucket_groups.h"

namespace tfcompress {
namespace device {

// The joint codecs differ in the keys and cells of a group. kSketchml: delta bytes and numbers.
// kSkcompress: adaptive deltas, and a Huffman code for the cells if that is shorter. The ids of the
// registry.
enum class JointKind : uint8_t { kNone = 0, kSketchml = 1, kSkcompress = 2 };

// Maximum buckets of a group when skcompress is written: a thread block finds the Huffman code of a
// group in its shared memory.
inline constexpr uint32_t kMaxCodedWidth = 1024;

inline uint32_t WidestGroup(const GroupedSketchConfig& config) {
  return BucketGroups(config.buckets, config.groups).width;
}

struct JointSpec {
  JointKind kind;
  GroupedSketchConfig sketch;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_JOINT_SPEC_H_
