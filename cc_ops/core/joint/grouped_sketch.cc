#include "core/joint/grouped_sketch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "core/bit_io.h"
#include "core/entropy/bucket_tables.h"
#include "core/float_order.h"
#include "core/radix_sort.h"
#include "core/sketch/bucket_quantizer.h"
#include "core/sketch/minmax_sketch.h"
#include "core/sketch/sign_split.h"

namespace tfcompress {
namespace {

// Identifies a group, and gives the number of its buckets.
struct GroupId {
  uint32_t sign;
  uint32_t group;
  uint32_t width;

  uint64_t SketchSeed(uint64_t seed) const { return GroupSketchSeed(sign, group, seed); }
};

// The elements of one group.
struct GroupPart {
  GroupId id;
  std::vector<uint32_t> keys;
  std::vector<uint16_t> offsets;  // Their buckets, counted from the first one of the group.
};

std::vector<GroupPart> SplitGroups(uint32_t sign, Span<const uint32_t> keys,
                                   Span<const uint32_t> codes, const BucketGroups& grouping) {
  std::vector<uint32_t> counts(grouping.num_buckets);
  for (uint32_t code : codes) ++counts[code];

  // Group and offset of each bucket, in a table, since dividing by the width is slow.
  struct Target {
    uint32_t group;
    uint16_t offset;
  };
  std::vector<Target> targets(grouping.num_buckets);
  std::vector<GroupPart> groups(grouping.num_groups);
  for (uint32_t group = 0; group < grouping.num_groups; ++group) {
    groups[group].id = {sign, group, grouping.Width(group)};
    size_t size = 0;
    for (uint32_t offset = 0; offset < grouping.Width(group); ++offset) {
      const uint32_t bucket = grouping.FirstBucket(group) + offset;
      targets[bucket] = {group, static_cast<uint16_t>(offset)};
      size += counts[bucket];
    }
    groups[group].keys.resize(size);
    groups[group].offsets.resize(size);
  }

  std::vector<size_t> sizes(grouping.num_groups);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Target target = targets[codes[i]];
    const size_t slot = sizes[target.group]++;
    groups[target.group].keys[slot] = keys[i];
    groups[target.group].offsets[slot] = target.offset;
  }
  return groups;
}

Bytes EncodeGroup(const GroupPart& group, const GroupedSketchConfig& config,
                  const GroupFormat& format, uint64_t seed) {
  const uint32_t num_columns = NumSketchColumns(config.columns, group.keys.size());
  MinMaxSketch sketch(config.rows, num_columns, group.id.SketchSeed(seed));
  for (uint32_t row = 0; row < config.rows; ++row) {
    for (size_t i = 0; i < group.keys.size(); ++i) {
      sketch.InsertIntoRow(row, group.keys[i], group.offsets[i]);
    }
  }
  sketch.FillEmpty(0);
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Write(static_cast<uint32_t>(group.keys.size()));
  writer.Write(num_columns);
  format.WriteKeys(group.keys, &bytes);
  format.WriteCells(sketch.cells(), group.id.width, &bytes);
  return bytes;
}

// One group of a section, located but not decoded yet.
struct GroupSection {
  GroupId id;
  const float* means;  // Means of the buckets of the group.
  size_t first_item;   // Position of its elements among those of all groups.
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

// Decodes the elements of a group to items of key and float bits.
Status DecodeGroup(const GroupSection& section, uint32_t rows, uint32_t n,
                   const GroupFormat& format, uint64_t seed, uint64_t* items) {
  ByteReader reader(section.content);
  std::vector<uint32_t> keys;
  TFC_RETURN_IF_ERROR(format.ReadKeys(section.num_keys, n, &reader, &keys));
  MinMaxSketch sketch(rows, section.num_columns, section.id.SketchSeed(seed));
  TFC_RETURN_IF_ERROR(format.ReadCells(section.id.width, &reader, sketch.cells()));
  TFC_RETURN_IF_ERROR(reader.ExpectEnd("group"));
  const uint32_t sign_bit = section.id.sign == 0 ? 0 : kFloatSignBit;
  for (size_t i = 0; i < keys.size(); ++i) {
    const float magnitude = section.means[sketch.Query(keys[i])];
    items[i] = PackItem(keys[i], FloatBits(magnitude) | sign_bit);
  }
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
                           num_keys,
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

// Sorts the elements of all groups by key and writes them to `out`.
Status MergeItems(Executor* executor, std::vector<uint64_t>* items, SparseTensor* out) {
  RadixSort(32, BitsFor(out->n), executor, items);
  const size_t k = items->size();
  if (out->everything && k != out->n) return DataLoss(k, " elements, all ", out->n, " expected");
  out->values.resize(k);
  out->indices.resize(out->everything ? 0 : k);
  std::atomic<bool> unique{true};
  ForEachBlock(executor, k, [&](int64_t, int64_t begin, int64_t end) {
    bool block_unique = true;
    for (int64_t i = begin; i < end; ++i) {
      block_unique &= i == 0 || ItemKey((*items)[i]) != ItemKey((*items)[i - 1]);
      out->values[i] = FloatFromBits(ItemPayload((*items)[i]));
      if (!out->everything) out->indices[i] = ItemKey((*items)[i]);
    }
    if (!block_unique) unique = false;
  });
  if (!unique) return DataLoss("a key is in two groups");
  return OkStatus();
}

class GroupedSketch : public SparseCodec {
 public:
  GroupedSketch(const GroupedSketchConfig& config, const GroupFormat* format)
      : config_(config), format_(*format) {}

  Result<uint32_t> Encode(Span<const float> values, const Support& support,
                          const CodecContext& context, Bytes* out) const override {
    if (!support.everything()) {
      TFC_RETURN_IF_ERROR(CheckIndices(support.indices(), support.n()));
    }
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
  void EncodeSection(Span<const float> values, const Support& support, const CodecContext& context,
                     Bytes* out) const {
    const auto parts = SplitSigns(support, values);
    std::array<std::vector<float>, kNumSigns> means;
    std::vector<GroupPart> groups;
    for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
      BucketCodes buckets =
          QuantizeToBuckets(parts[sign].magnitudes, config_.buckets, context.executor);
      const BucketGroups grouping(static_cast<uint32_t>(buckets.means.size()), config_.groups);
      for (GroupPart& group : SplitGroups(sign, parts[sign].keys, buckets.codes, grouping)) {
        groups.push_back(std::move(group));
      }
      means[sign] = std::move(buckets.means);
    }
    std::vector<Bytes> encoded(groups.size());
    auto encode = [&](int64_t i, int64_t, int64_t) {
      encoded[i] = EncodeGroup(groups[i], config_, format_, context.seed);
    };
    ForEachBlock(context.executor, groups.size(), encode, /*block_elements=*/1);

    ByteWriter writer(out);
    writer.Write(config_.rows);
    writer.Write(config_.groups);
    size_t next = 0;
    for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
      WriteBucketMeans(means[sign], &writer);
      for (; next < groups.size() && groups[next].id.sign == sign; ++next) {
        writer.Write(static_cast<uint32_t>(encoded[next].size()));
        writer.WriteArray<unsigned char>(encoded[next]);
      }
    }
  }

  Status DecodeSection(ByteSpan section, uint32_t k, const CodecContext& context,
                       SparseTensor* out) const {
    Layout layout;
    TFC_RETURN_IF_ERROR(ReadLayout(section, k, &layout));
    std::vector<uint64_t> items(k);
    std::vector<Status> statuses(layout.groups.size());
    auto decode = [&](int64_t i, int64_t, int64_t) {
      const GroupSection& group = layout.groups[i];
      statuses[i] = DecodeGroup(group, layout.rows, out->n, format_, context.seed,
                                items.data() + group.first_item);
    };
    ForEachBlock(context.executor, layout.groups.size(), decode, /*block_elements=*/1);
    for (const Status& status : statuses) TFC_RETURN_IF_ERROR(status);
    return MergeItems(context.executor, &items, out);
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
