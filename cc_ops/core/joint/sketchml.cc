// sketchml: grouped MinMaxSketches with packed cells and byte-wise delta-coded keys (SketchML 3.2
// to 3.4; SKCompress 4.2, with its default of d/5 columns in 2 rows).
#include "core/entropy/bucket_tables.h"
#include "core/entropy/delta_bytes.h"
#include "core/joint/grouped_sketch.h"

namespace tfcompress {
namespace {

class SketchmlFormat : public GroupFormat {
 public:
  const char* name() const override { return "sketchml"; }

  void WriteKeys(Span<const uint32_t> keys, Bytes* out) const override {
    EncodeDeltaBytes(keys, SerialExecutor(), out);
  }
  Status ReadKeys(uint32_t num_keys, uint32_t n, ByteReader* reader,
                  std::vector<uint32_t>* keys) const override {
    return DecodeDeltaBytes(num_keys, n, SerialExecutor(), reader, keys);
  }
  uint64_t MaxKeyBytes(uint64_t num_keys, uint64_t num_groups) const override {
    return MaxDeltaBytes(num_keys) + num_groups;  // Each rounds its flags up to whole bytes.
  }

  void WriteCells(Span<const uint16_t> cells, uint32_t width, Bytes* out) const override {
    ByteWriter writer(out);
    WritePackedCells(cells, width, &writer);
  }
  Status ReadCells(uint32_t width, ByteReader* reader, Span<uint16_t> cells) const override {
    return ReadPackedCells(width, reader, cells);
  }
  uint64_t MaxExtraCellBytes() const override { return 0; }
};

}  // namespace

Definition<SparseCodec> SketchmlJoint() {
  return {"quantile buckets in grouped MinMaxSketches (SketchML 3.2-3.4, SKCompress 4.2)",
          GroupedSketchParams(),
          [](const Params& params) {
            static const SketchmlFormat format;
            return MakeGroupedSketch(params, &format);
          },
          "towards zero by less than a group of buckets; never the sign",
          "8 buckets + keys of delta_binary + rows columns k ceil(log2(buckets / groups)) / 8"};
}

}  // namespace tfcompress
