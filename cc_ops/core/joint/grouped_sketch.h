// Quantile buckets whose numbers are stored in grouped MinMaxSketches: the joint codecs of SketchML
// (3.2 to 3.4) and SKCompress (4.2), which differ in the coding of a group's keys and cells.
//
// Signs are separate (zero counts as positive), so that a collision never flips one. The buckets of
// a sign are numbered by distance from zero and divided into groups of consecutive ones; each group
// has its own key list and its own sketch of bucket numbers within the group, so that a collision
// moves a value towards zero by less than the width of a group. Everything is in the value section.
#ifndef TFCOMPRESS_CORE_JOINT_GROUPED_SKETCH_H_
#define TFCOMPRESS_CORE_JOINT_GROUPED_SKETCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/byte_io.h"
#include "core/codec.h"
#include "core/joint/bucket_groups.h"
#include "core/registry.h"

namespace tfcompress {

// Codes the keys and the cells of a group. Immutable.
class GroupFormat {
 public:
  virtual ~GroupFormat() = default;
  // Name of the codec, for messages.
  virtual const char* name() const = 0;

  // Keys ascend strictly and lie below n. A key takes at least a bit.
  virtual void WriteKeys(Span<const uint32_t> keys, Bytes* out) const = 0;
  virtual Status ReadKeys(uint32_t num_keys, uint32_t n, ByteReader* reader,
                          std::vector<uint32_t>* keys) const = 0;
  // Upper bound of the bytes of `num_keys` keys in `num_groups` groups.
  virtual uint64_t MaxKeyBytes(uint64_t num_keys, uint64_t num_groups) const = 0;

  // Cells lie below `width`.
  virtual void WriteCells(Span<const uint16_t> cells, uint32_t width, Bytes* out) const = 0;
  virtual Status ReadCells(uint32_t width, ByteReader* reader, Span<uint16_t> cells) const = 0;
  // Upper bound of the bytes that a group takes beyond those of packed cells.
  virtual uint64_t MaxExtraCellBytes() const = 0;
};

// The parameters of all these codecs.
std::vector<ParamSpec> GroupedSketchParams();

GroupedSketchConfig GroupedSketchConfigOf(const Params& params);

// Makes a codec with GroupedSketchParams(); `format` must outlive it.
std::unique_ptr<const SparseCodec> MakeGroupedSketch(const Params& params,
                                                     const GroupFormat* format);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_JOINT_GROUPED_SKETCH_H_
