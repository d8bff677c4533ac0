// Division of the buckets of a sign into groups with separate sketches; shared by grouped_sketch.cc
// and devices.
#ifndef TFCOMPRESS_CORE_JOINT_BUCKET_GROUPS_H_
#define TFCOMPRESS_CORE_JOINT_BUCKET_GROUPS_H_

#include <cstdint>

#include "core/hash.h"
#include "core/host_device.h"

namespace tfcompress {

inline constexpr uint32_t kMaxSketchBuckets = 32768;  // For a sign; below MinMaxSketch::kEmpty.
inline constexpr uint32_t kMaxSketchGroups = 256;     // For a sign.
inline constexpr uint32_t kMaxSketchRows = 8;

// Bytes of a section before its means, and of a group before its keys: length, numbers of keys and
// of columns.
inline constexpr uint64_t kSketchHeaderBytes = 2 * sizeof(uint32_t);
inline constexpr uint64_t kGroupHeaderBytes = 3 * sizeof(uint32_t);

// The coding of the cells of a group of skcompress, as on the wire.
enum class CellCoding : uint8_t { kPacked = 0, kHuffman = 1 };

struct GroupedSketchConfig {
  uint32_t buckets;
  uint32_t groups;
  uint32_t rows;
  double columns;  // Columns per key.
};

// Groups of `width` consecutive buckets, the last one possibly narrower.
struct BucketGroups {
  TFC_HOST_DEVICE BucketGroups(uint32_t num_buckets, uint32_t max_groups)
      : num_buckets(num_buckets),
        width((num_buckets + max_groups - 1) / max_groups),
        num_groups(num_buckets == 0 ? 0 : (num_buckets + width - 1) / width) {}

  TFC_HOST_DEVICE uint32_t FirstBucket(uint32_t group) const { return group * width; }
  TFC_HOST_DEVICE uint32_t Width(uint32_t group) const {
    const uint32_t rest = num_buckets - group * width;
    return rest < width ? rest : width;
  }

  uint32_t num_buckets;
  uint32_t width;
  uint32_t num_groups;
};

// The seed of the sketch of a group, from that of the frame.
TFC_HOST_DEVICE inline uint64_t GroupSketchSeed(uint32_t sign, uint32_t group, uint64_t seed) {
  return HashKey(sign * kMaxSketchGroups + group, seed);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_JOINT_BUCKET_GROUPS_H_
