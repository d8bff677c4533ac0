// sketchml: quantile buckets whose numbers are kept in grouped MinMaxSketches, and delta-coded keys
// (SketchML 3.2 to 3.4; SKCompress 4.2, with its default of d/5 columns in 2 rows).
//
// Signs are apart (zero counts as positive), so that a collision never flips one. The buckets of a
// sign are numbered by distance from zero and divided into groups of consecutive ones; each group
// has its own key list and its own sketch of bucket numbers within the group, so that a collision
// moves a value towards zero by less than the width of a group. Everything is in the value section.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/entropy/delta_bytes.h"
#include "core/float_order.h"
#include "core/hash.h"
#include "core/radix_sort.h"
#include "core/registry.h"
#include "core/sketch/bucket_quantizer.h"
#include "core/sketch/minmax_sketch.h"

namespace tfcompress {
namespace {

constexpr uint32_t kMaxBuckets = 32768;  // Of a sign. A cell holds less than MinMaxSketch::kEmpty.
constexpr uint32_t kMaxGroups = 256;
constexpr uint32_t kMaxRows = 8;
constexpr uint32_t kNumSigns = 2;

struct Config {
  uint32_t buckets;
  uint32_t groups;
  uint32_t rows;
  double columns;  // For each key.
};

// How the buckets of a sign are divided: groups of `width`, the last one possibly narrower.
struct Grouping {
  Grouping(uint32_t num_buckets, uint32_t max_groups)
      : num_buckets(num_buckets),
        width((num_buckets + max_groups - 1) / max_groups),
        num_groups(num_buckets == 0 ? 0 : (num_buckets + width - 1) / width) {}

  uint32_t FirstBucket(uint32_t group) const { return group * width; }
  uint32_t Width(uint32_t group) const { return std::min(width, num_buckets - group * width); }

  uint32_t num_buckets;
  uint32_t width;
  uint32_t num_groups;
};

uint64_t SketchSeed(uint64_t seed, uint32_t sign, uint32_t group) {
  return HashKey(sign * kMaxGroups + group, seed);
}

// The elements of one sign.
struct SignPart {
  std::vector<uint32_t> keys;
  std::vector<float> magnitudes;
};

// The elements of one group.
struct GroupPart {
  std::vector<uint32_t> keys;
  std::vector<uint16_t> offsets;  // Of their buckets, from the first one of the group.
};

// Reads are apart from what depends on them below, so that many cache misses overlap.
std::vector<float> GatherValues(const SparseInput& input, Executor* executor) {
  std::vector<float> values(input.support.size());
  ForEachBlock(executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = input.dense[input.support[i]];
  });
  return values;
}

std::array<SignPart, kNumSigns> SplitSigns(const Support& support, Span<const float> values) {
  std::array<SignPart, kNumSigns> parts;
  std::array<size_t, kNumSigns> sizes = {};
  for (float value : values) ++sizes[IsNegative(value)];
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    // One more, for the store that follows the last element.
    parts[sign].keys.resize(sizes[sign] + 1);
    parts[sign].magnitudes.resize(sizes[sign] + 1);
  }
  // Every element is stored on both sides, and kept on one: a branch would be mispredicted half of
  // the time.
  size_t num_negative = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t num_nonnegative = i - num_negative;
    const float magnitude = std::fabs(values[i]);
    parts[0].keys[num_nonnegative] = parts[1].keys[num_negative] = support[i];
    parts[0].magnitudes[num_nonnegative] = parts[1].magnitudes[num_negative] = magnitude;
    num_negative += IsNegative(values[i]);
  }
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    parts[sign].keys.resize(sizes[sign]);
    parts[sign].magnitudes.resize(sizes[sign]);
  }
  return parts;
}

std::vector<GroupPart> SplitGroups(Span<const uint32_t> keys, Span<const uint32_t> codes,
                                   const Grouping& grouping) {
  std::vector<uint32_t> counts(grouping.num_buckets);
  for (uint32_t code : codes) ++counts[code];

  // Where elements of each bucket go: looked up, since dividing by the width is slow.
  struct Target {
    uint32_t group;
    uint16_t offset;
  };
  std::vector<Target> targets(grouping.num_buckets);
  std::vector<GroupPart> groups(grouping.num_groups);
  for (uint32_t group = 0; group < grouping.num_groups; ++group) {
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

// Cells as packed numbers, empty ones as 0.
void WriteCells(const MinMaxSketch& sketch, uint32_t width, ByteWriter* writer) {
  const Span<const uint16_t> cells = sketch.cells();
  std::vector<uint32_t> offsets(cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    offsets[i] = cells[i] == MinMaxSketch::kEmpty ? 0 : cells[i];
  }
  const int num_bits = BitsFor(width);
  PackBits(offsets, num_bits, SerialExecutor(),
           writer->Extend(PackedBytes(cells.size(), num_bits)));
}

Status ReadCells(uint32_t width, ByteReader* reader, MinMaxSketch* sketch) {
  const Span<uint16_t> cells = sketch->cells();
  const int num_bits = BitsFor(width);
  ByteSpan packed;
  TFC_RETURN_IF_ERROR(reader->ReadSpan("cells", PackedBytes(cells.size(), num_bits), &packed));
  std::vector<uint32_t> offsets(cells.size());
  UnpackBits(packed, num_bits, SerialExecutor(), offsets);
  for (size_t i = 0; i < cells.size(); ++i) {
    if (offsets[i] >= width)
      return DataLoss("a cell holds ", offsets[i], ", below ", width, " expected");
    cells[i] = static_cast<uint16_t>(offsets[i]);
  }
  return OkStatus();
}

Bytes EncodeGroup(const GroupPart& group, uint32_t width, const Config& config, uint64_t seed) {
  const auto num_columns = std::max<uint32_t>(
      1, static_cast<uint32_t>(std::ceil(config.columns * static_cast<double>(group.keys.size()))));
  MinMaxSketch sketch(config.rows, num_columns, seed);
  for (size_t i = 0; i < group.keys.size(); ++i) sketch.Insert(group.keys[i], group.offsets[i]);
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Write(static_cast<uint32_t>(group.keys.size()));
  writer.Write(num_columns);
  EncodeDeltaBytes(group.keys, SerialExecutor(), &bytes);
  WriteCells(sketch, width, &writer);
  return bytes;
}

// One group off the wire, found before it is decoded.
struct GroupSection {
  uint32_t sign;
  uint32_t group;
  uint32_t width;
  const float* means;  // Of the buckets of the group.
  uint32_t num_keys;
  uint32_t num_columns;
  size_t first_item;  // Where its elements go among those of all groups.
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
  // A key takes at least a byte, so its content bounds everything that a group allocates.
  if (section->num_keys > std::min<uint64_t>(max_keys, section->content.size())) {
    return DataLoss("a group has ", section->num_keys, " keys in ", section->content.size(),
                    " bytes, ", max_keys, " keys left");
  }
  if (section->num_columns == 0 || section->num_columns > section->num_keys) {
    return DataLoss("a sketch has ", section->num_columns, " columns for ", section->num_keys,
                    " keys");
  }
  return OkStatus();
}

// Writes the elements of a group as items of key and float bits.
Status DecodeGroup(const GroupSection& section, uint32_t rows, uint32_t n, uint64_t seed,
                   uint64_t* items) {
  ByteReader reader(section.content);
  std::vector<uint32_t> keys;
  TFC_RETURN_IF_ERROR(DecodeDeltaBytes(section.num_keys, n, SerialExecutor(), &reader, &keys));
  MinMaxSketch sketch(rows, section.num_columns, seed);
  TFC_RETURN_IF_ERROR(ReadCells(section.width, &reader, &sketch));
  TFC_RETURN_IF_ERROR(reader.ExpectEnd("group"));
  const uint32_t sign_bit = section.sign == 0 ? 0 : kFloatSignBit;
  for (size_t i = 0; i < keys.size(); ++i) {
    const float magnitude = section.means[sketch.Query(keys[i])];
    items[i] = PackItem(keys[i], FloatBits(magnitude) | sign_bit);
  }
  return OkStatus();
}

// What the section says before its elements are decoded.
struct Layout {
  uint32_t rows = 0;
  std::array<std::vector<float>, kNumSigns> means;
  std::vector<GroupSection> groups;
};

Status ReadMeans(uint32_t k, ByteReader* reader, std::vector<float>* means) {
  uint32_t num_buckets = 0;
  TFC_RETURN_IF_ERROR(reader->Read("number of buckets", &num_buckets));
  if (num_buckets > std::min(k, kMaxBuckets)) {
    return DataLoss(num_buckets, " buckets for ", k, " elements, at most ", kMaxBuckets);
  }
  TFC_RETURN_IF_ERROR(reader->ReadArray("means", num_buckets, means));
  for (float mean : *means) {
    // The bits of a number with a sign are greater than those of infinity.
    if (FloatBits(mean) >= kFloatInfinityBits) {
      return DataLoss("the magnitude of a bucket is ", mean);
    }
  }
  return OkStatus();
}

Status ReadLayout(ByteSpan section, uint32_t k, Layout* layout) {
  ByteReader reader(section);
  uint32_t max_groups = 0;
  TFC_RETURN_IF_ERROR(reader.Read("rows", &layout->rows));
  TFC_RETURN_IF_ERROR(reader.Read("groups", &max_groups));
  if (layout->rows < 1 || layout->rows > kMaxRows || max_groups < 1 || max_groups > kMaxGroups) {
    return DataLoss(layout->rows, " rows and ", max_groups, " groups, at most ", kMaxRows, " and ",
                    kMaxGroups, " expected");
  }
  uint64_t num_keys = 0;
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    std::vector<float>& means = layout->means[sign];
    TFC_RETURN_IF_ERROR(ReadMeans(k, &reader, &means));
    const Grouping grouping(static_cast<uint32_t>(means.size()), max_groups);
    for (uint32_t group = 0; group < grouping.num_groups; ++group) {
      GroupSection part = {
          sign,     group, grouping.Width(group), means.data() + grouping.FirstBucket(group), 0, 0,
          num_keys, {}};
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

Status DecodeSection(ByteSpan section, uint32_t k, const CodecContext& context, SparseTensor* out) {
  Layout layout;
  TFC_RETURN_IF_ERROR(ReadLayout(section, k, &layout));
  std::vector<uint64_t> items(k);
  std::vector<Status> statuses(layout.groups.size());
  auto decode = [&](int64_t i, int64_t, int64_t) {
    const GroupSection& group = layout.groups[i];
    statuses[i] =
        DecodeGroup(group, layout.rows, out->n, SketchSeed(context.seed, group.sign, group.group),
                    items.data() + group.first_item);
  };
  ForEachBlock(context.executor, layout.groups.size(), decode, /*block_elements=*/1);
  for (const Status& status : statuses) TFC_RETURN_IF_ERROR(status);
  return MergeItems(context.executor, &items, out);
}

class Sketchml : public SparseCodec {
 public:
  explicit Sketchml(const Config& config) : config_(config) {}

  Status Encode(const SparseInput& input, const CodecContext& context, Bytes* out,
                uint64_t* num_index_bytes, uint32_t* k, SparseTensor* decoded) const override {
    if (!input.support.everything()) {
      TFC_RETURN_IF_ERROR(
          CheckIndices(input.support.indices(), static_cast<uint32_t>(input.dense.size())));
    }
    *num_index_bytes = 0;
    *k = static_cast<uint32_t>(input.support.size());
    const size_t start = out->size();
    ByteWriter writer(out);
    writer.Write(config_.rows);
    writer.Write(config_.groups);
    const std::array<SignPart, kNumSigns> parts =
        SplitSigns(input.support, GatherValues(input, context.executor));
    for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
      EncodeSign(parts[sign], sign, context, &writer);
    }
    if (decoded == nullptr) return OkStatus();
    decoded->n = input.support.n();
    decoded->everything = input.support.everything();
    return DecodeSection(ByteSpan(out->data() + start, out->size() - start), *k, context, decoded);
  }

  Status Decode(const SparseSections& sections, uint32_t k, const CodecContext& context,
                SparseTensor* out) const override {
    TFC_RETURN_IF_ERROR(ByteReader(sections.indices).ExpectEnd("sketchml index section"));
    return DecodeSection(sections.values, k, context, out).WithContext("sketchml");
  }

  uint64_t MaxEncodedBytes(uint32_t, uint32_t k) const override {
    constexpr uint64_t kGroupHeaderBytes = 3 * sizeof(uint32_t);
    const uint64_t num_buckets = std::min<uint64_t>(kNumSigns * config_.buckets, k);
    const uint64_t num_groups = std::min<uint64_t>(kNumSigns * config_.groups, num_buckets);
    const auto num_columns = static_cast<uint64_t>(std::ceil(config_.columns * k)) + num_groups;
    const int cell_bits = BitsFor((config_.buckets + config_.groups - 1) / config_.groups);
    // Every group rounds the lengths of its flags and of its cells up to whole bytes.
    return 4 * sizeof(uint32_t) + num_buckets * sizeof(float) +
           num_groups * (kGroupHeaderBytes + 2) + MaxDeltaBytes(k) +
           PackedBytes(config_.rows * num_columns, cell_bits);
  }

 private:
  void EncodeSign(const SignPart& part, uint32_t sign, const CodecContext& context,
                  ByteWriter* writer) const {
    const BucketCodes buckets =
        QuantizeToBuckets(part.magnitudes, config_.buckets, context.executor);
    const Grouping grouping(static_cast<uint32_t>(buckets.means.size()), config_.groups);
    const std::vector<GroupPart> groups = SplitGroups(part.keys, buckets.codes, grouping);
    std::vector<Bytes> encoded(groups.size());
    auto encode = [&](int64_t group, int64_t, int64_t) {
      const auto g = static_cast<uint32_t>(group);
      encoded[g] =
          EncodeGroup(groups[g], grouping.Width(g), config_, SketchSeed(context.seed, sign, g));
    };
    ForEachBlock(context.executor, groups.size(), encode, /*block_elements=*/1);
    writer->Write(static_cast<uint32_t>(buckets.means.size()));
    writer->WriteArray<float>(buckets.means);
    for (const Bytes& group : encoded) {
      writer->Write(static_cast<uint32_t>(group.size()));
      writer->WriteArray<unsigned char>(group);
    }
  }

  Config config_;
};

}  // namespace

Definition<SparseCodec> SketchmlJoint() {
  return {
      "quantile buckets in grouped MinMaxSketches (SketchML 3.2-3.4, SKCompress 4.2)",
      {{"buckets", ParamKind::kInt, "256", "largest number of buckets of a sign", 2, kMaxBuckets},
       {"groups", ParamKind::kInt, "8", "groups of buckets of a sign", 1, kMaxGroups},
       {"rows", ParamKind::kInt, "2", "rows of a sketch", 1, kMaxRows},
       {"columns", ParamKind::kFloat, "0.2", "columns of a sketch for each key", 0, 1, true}},
      [](const Params& params) -> std::unique_ptr<const SparseCodec> {
        return std::make_unique<Sketchml>(Config{static_cast<uint32_t>(params.Int("buckets")),
                                                 static_cast<uint32_t>(params.Int("groups")),
                                                 static_cast<uint32_t>(params.Int("rows")),
                                                 params.Float("columns")});
      }};
}

}  // namespace tfcompress
