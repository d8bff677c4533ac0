#include "core/joint/grouped_sketch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/bit_io.h"
#include "core/entropy/bucket_tables.h"
#include "core/float_order.h"
#include "core/joint/group_lists.h"
#include "core/joint/merge_groups.h"
#include "core/sketch/minmax_sketch.h"
#include "core/sketch/sign_ranks.h"

namespace tfcompress {
namespace {

// Identifies a group, and gives the number of its buckets.
struct GroupId {
  uint32_t sign;
  uint32_t group;
  uint32_t width;

  uint64_t SketchSeed(uint64_t seed) const { return GroupSketchSeed(sign, group, seed); }
};

// The values of the buckets of a group, from the mean magnitudes of all buckets of its sign.
std::vector<float> ValuesOf(const GroupId& id, const float* means) {
  std::vector<float> values(means, means + id.width);
  if (id.sign != 0) {
    for (float& value : values) value = FloatFromBits(FloatBits(value) | kFloatSignBit);
  }
  return values;
}

Bytes EncodeGroup(const GroupId& id, const GroupedSketchConfig& config, const GroupFormat& format,
                  uint64_t seed, const GroupElements& elements) {
  const std::vector<uint32_t>& keys = elements.keys;
  const uint32_t num_columns = NumSketchColumns(config.columns, keys.size());
  MinMaxSketch sketch(config.rows, num_columns, id.SketchSeed(seed));
  for (uint32_t row = 0; row < config.rows; ++row)
    sketch.InsertIntoRow(row, keys, elements.offsets.data());
  sketch.FillEmpty(0);
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Write(static_cast<uint32_t>(keys.size()));
  writer.Write(num_columns);
  format.WriteKeys(keys, &bytes);
  format.WriteCells(sketch.cells(), id.width, &bytes);
  return bytes;
}

// One group of a section, located but not decoded yet.
struct GroupSection {
  GroupId id;
  const float* means;  // Means of the buckets of the group.
  uint32_t num_keys = 0;
  uint32_t num_columns = 0;
  ByteSpan content;
};

Status ReadGroupSection(uint64_t max_keys, ByteReader* reader, GroupSection* section) {
  uint32_t num_bytes = 0;
  ByteSpan bytes;
  TFC_RETURN_IF_ERROR(reader->Read("group length", &num_bytes));
  TFC_RETURN_IF_ERROR(reader->ReadSpan("group", num_bytes, &bytes));
  ByteReader group(bytes);
  TFC_RETURN_IF_ERROR(group.Read("number of keys", &section->num_keys));
  TFC_RETURN_IF_ERROR(group.Read("number of columns", &section->num_columns));
  TFC_RETURN_IF_ERROR(group.ReadSpan("group content", group.remaining(), &section->content));
  // A key takes at least a bit, so its content bounds everything that a group allocates.
  if (section->num_keys > std::min<uint64_t>(max_keys, 8 * section->content.size())) {
    return DataLoss("a group has ", section->num_keys, " keys in ", section->content.size(),
                    " bytes, ", max_keys, " keys left");
  }
  if (section->num_columns == 0 || section->num_columns > section->num_keys) {
    return DataLoss("a sketch has ", section->num_columns, " columns for ", section->num_keys,
                    " keys");
  }
  return OkStatus();
}

Status DecodeGroup(const GroupSection& section, uint32_t rows, uint32_t n,
                   const GroupFormat& format, uint64_t seed, DecodedGroup* group) {
  ByteReader reader(section.content);
  GroupElements& elements = group->elements;
  TFC_RETURN_IF_ERROR(format.ReadKeys(section.num_keys, n, &reader, &elements.keys));
  MinMaxSketch sketch(rows, section.num_columns, section.id.SketchSeed(seed));
  TFC_RETURN_IF_ERROR(format.ReadCells(section.id.width, &reader, sketch.cells()));
  TFC_RETURN_IF_ERROR(reader.ExpectEnd("group"));
  elements.offsets.resize(elements.keys.size());
  sketch.Query(elements.keys, elements.offsets.data());
  group->values = ValuesOf(section.id, section.means);
  return OkStatus();
}

// The layout of a section, read before its elements are decoded.
struct Layout {
  uint32_t rows = 0;
  std::array<std::vector<float>, kNumSigns> means;
  std::vector<GroupSection> groups;
};

Status ReadLayout(ByteSpan section, uint32_t k, Layout* layout) {
  ByteReader reader(section);
  uint32_t max_groups = 0;
  TFC_RETURN_IF_ERROR(reader.Read("rows", &layout->rows));
  TFC_RETURN_IF_ERROR(reader.Read("groups", &max_groups));
  if (layout->rows < 1 || layout->rows > kMaxSketchRows || max_groups < 1 ||
      max_groups > kMaxSketchGroups) {
    return DataLoss(layout->rows, " rows and ", max_groups, " groups, at most ", kMaxSketchRows,
                    " and ", kMaxSketchGroups, " expected");
  }
  uint64_t num_keys = 0;
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    std::vector<float>& means = layout->means[sign];
    TFC_RETURN_IF_ERROR(ReadBucketMeans(std::min(k, kMaxSketchBuckets), &reader, &means));
    const BucketGroups grouping(static_cast<uint32_t>(means.size()), max_groups);
    for (uint32_t group = 0; group < grouping.num_groups; ++group) {
      GroupSection part = {{sign, group, grouping.Width(group)},
                           means.data() + grouping.FirstBucket(group),
                           0,
                           0,
                           {}};
      TFC_RETURN_IF_ERROR(ReadGroupSection(k - num_keys, &reader, &part));
      num_keys += part.num_keys;
      layout->groups.push_back(part);
    }
  }
  if (num_keys != k) return DataLoss(num_keys, " keys in all groups, ", k, " expected");
  return reader.ExpectEnd("groups");
}

class GroupedSketch : public SparseCodec {
 public:
  GroupedSketch(const GroupedSketchConfig& config, const GroupFormat* format)
      : config_(config), format_(*format) {}

  Result<uint32_t> Encode(Span<const float> values, const Support& support,
                          const CodecContext& context, Bytes* out) const override {
    EncodeSection(values, support, context, out);
    return static_cast<uint32_t>(support.size());
  }

  Status Decode(ByteSpan section, uint32_t k, const CodecContext& context,
                SparseTensor* out) const override {
    return DecodeSection(section, k, context, out).WithContext(format_.name());
  }

  // One bucket in one group, whose keys take a bit each.
  uint64_t MinEncodedBytes(uint32_t, uint32_t k) const override {
    return kSketchHeaderBytes + kNumSigns * sizeof(uint32_t) + sizeof(float) + kGroupHeaderBytes +
           PackedBytes(k, 1);
  }
  uint64_t MaxEncodedBytes(uint32_t, uint32_t k) const override {
    const uint64_t num_buckets = std::min<uint64_t>(kNumSigns * config_.buckets, k);
    const uint64_t num_groups = std::min<uint64_t>(kNumSigns * config_.groups, num_buckets);
    const auto num_columns = static_cast<uint64_t>(std::ceil(config_.columns * k)) + num_groups;
    const int cell_bits = BitsFor((config_.buckets + config_.groups - 1) / config_.groups);
    // Every group rounds the length of its cells up to whole bytes.
    return kSketchHeaderBytes + kNumSigns * sizeof(uint32_t) + num_buckets * sizeof(float) +
           num_groups * (kGroupHeaderBytes + 1 + format_.MaxExtraCellBytes()) +
           format_.MaxKeyBytes(k, num_groups) + PackedBytes(config_.rows * num_columns, cell_bits);
  }

 private:
  void EncodeSection(Span<const float> values, const Support& given, const CodecContext& context,
                     Bytes* out) const {
    const SignRanks ranks(values, context.executor);
    // A list of all indices is none.
    const Support support = values.size() == given.n() ? Support::Everything(given.n()) : given;
    ByteWriter writer(out);
    writer.Write(config_.rows);
    writer.Write(config_.groups);
    for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
      const GroupLists lists(support, values, ranks, sign, config_, context.executor);
      EncodeSign(sign, lists, context, &writer);
    }
  }

  // Appends one sign.
  void EncodeSign(uint32_t sign, const GroupLists& lists, const CodecContext& context,
                  ByteWriter* writer) const {
    const BucketGroups& grouping = lists.grouping();
    std::vector<Bytes> encoded(grouping.num_groups);
    auto encode = [&](int64_t i, int64_t, int64_t) {
      const auto group = static_cast<uint32_t>(i);
      const GroupId id = {sign, group, grouping.Width(group)};
      encoded[i] = EncodeGroup(id, config_, format_, context.seed, lists.Elements(group));
    };
    ForEachBlock(context.executor, grouping.num_groups, encode, /*block_elements=*/1);
    WriteBucketMeans(lists.means(), writer);
    for (const Bytes& bytes : encoded) {
      writer->Write(static_cast<uint32_t>(bytes.size()));
      writer->WriteArray<unsigned char>(bytes);
    }
  }

  Status DecodeSection(ByteSpan section, uint32_t k, const CodecContext& context,
                       SparseTensor* out) const {
    Layout layout;
    TFC_RETURN_IF_ERROR(ReadLayout(section, k, &layout));
    std::vector<DecodedGroup> groups(layout.groups.size());
    std::vector<Status> statuses(groups.size());
    auto decode = [&](int64_t i, int64_t, int64_t) {
      statuses[i] =
          DecodeGroup(layout.groups[i], layout.rows, out->n, format_, context.seed, &groups[i]);
    };
    ForEachBlock(context.executor, groups.size(), decode, /*block_elements=*/1);
    for (const Status& status : statuses) TFC_RETURN_IF_ERROR(status);
    return MergeGroups(groups, context.executor, out);
  }

  GroupedSketchConfig config_;
  const GroupFormat& format_;
};

}  // namespace

std::vector<ParamSpec> GroupedSketchParams() {
  return {{"buckets", ParamKind::kInt, "256", "largest number of buckets of a sign", 2,
           kMaxSketchBuckets},
          {"groups", ParamKind::kInt, "8", "groups of buckets of a sign", 1, kMaxSketchGroups},
          {"rows", ParamKind::kInt, "2", "rows of a sketch", 1, kMaxSketchRows},
          {"columns", ParamKind::kFloat, "0.2", "columns of a sketch for each key", 0, 1, true}};
}

GroupedSketchConfig GroupedSketchConfigOf(const Params& params) {
  return {static_cast<uint32_t>(params.Int("buckets")), static_cast<uint32_t>(params.Int("groups")),
          static_cast<uint32_t>(params.Int("rows")), params.Float("columns")};
}

std::unique_ptr<const SparseCodec> MakeGroupedSketch(const Params& params,
                                                     const GroupFormat* format) {
  return std::make_unique<GroupedSketch>(GroupedSketchConfigOf(params), format);
}

}  // namespace tfcompress
