#include "cuda/device_variants.h"

#include "core/bit_io.h"
#include "core/float_order.h"
#include "core/frame_codecs.h"
#include "core/joint/grouped_sketch.h"
#include "core/linear_codec.h"
#include "core/registry.h"
#include "core/spec.h"
#include "core/value/block_int_levels.h"

namespace tfcompress {
namespace device {
namespace {

constexpr MemoryKind kMemories[] = {MemoryKind::kNone, MemoryKind::kResidual,
                                    MemoryKind::kMomentum};
constexpr SparsifierKind kSparsifiers[] = {SparsifierKind::kDense, SparsifierKind::kNonzero,
                                           SparsifierKind::kTopK, SparsifierKind::kThreshold,
                                           SparsifierKind::kRandomK};
constexpr IndexKind kIndexCodecs[] = {IndexKind::kRaw,           IndexKind::kBitmap,
                                      IndexKind::kDeltaBinary,   IndexKind::kBloom,
                                      IndexKind::kDeltaAdaptive, IndexKind::kDeltaFlag};
constexpr ValueKind kValueCodecs[] = {
    ValueKind::kRaw,     ValueKind::kFp16,    ValueKind::kBf16, ValueKind::kQuantile,
    ValueKind::kDexp,    ValueKind::kQsgd,    ValueKind::kLog,  ValueKind::kLogquant,
    ValueKind::kUniform, ValueKind::kTernary, ValueKind::kSign, ValueKind::kBlockInt};
constexpr JointKind kJointCodecs[] = {JointKind::kSketchml, JointKind::kSkcompress};
constexpr LinearKind kLinearCodecs[] = {LinearKind::kCountSketch, LinearKind::kSharedRandomK};

template <typename Interface, typename Kind, size_t kSize>
std::vector<std::string> Names(const Kind (&kinds)[kSize]) {
  std::vector<std::string> names;
  for (const Kind kind : kinds)
    names.push_back(FindById<Interface>(static_cast<uint8_t>(kind))->name);
  return names;
}

template <typename Interface, typename Kind, size_t kSize>
Result<Kind> KindOf(const char* what, const RegistryRow<Interface>& row,
                    const Kind (&kinds)[kSize]) {
  for (const Kind kind : kinds) {
    if (static_cast<uint8_t>(kind) == row.id) return kind;
  }
  std::string known;
  for (const std::string& name : Names<Interface>(kinds))
    known += (known.empty() ? "" : ", ") + name;
  return InvalidArgument("the ", what, " '", row.name,
                         "' has no device variant; those that have: ", known);
}

Status ParseSparsifier(const std::string& sparsifier, DeviceSpec* spec) {
  const std::string name = NameOf(sparsifier);
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<Sparsifier>("sparsifier", name));
  TFC_ASSIGN_OR_RETURN(spec->sparsifier, KindOf("sparsifier", *row, kSparsifiers));
  TFC_ASSIGN_OR_RETURN(const Params params, ParamsOf(*row, sparsifier));
  switch (spec->sparsifier) {
    case SparsifierKind::kDense:
      break;
    case SparsifierKind::kNonzero:
      spec->min_magnitude = 1;  // The smallest subnormal number.
      break;
    case SparsifierKind::kThreshold:
      spec->min_magnitude = MagnitudeBits(static_cast<float>(params.Float("tau")));
      break;
    case SparsifierKind::kTopK:
    case SparsifierKind::kRandomK:
      spec->ratio = params.Float("ratio");
      break;
  }
  return OkStatus();
}

Status ParseIndex(const std::string& index, DeviceSpec* spec) {
  const std::string name = NameOf(index);
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<IndexCodec>("index codec", name));
  TFC_ASSIGN_OR_RETURN(spec->index, KindOf("index codec", *row, kIndexCodecs));
  TFC_ASSIGN_OR_RETURN(const Params params, ParamsOf(*row, index));
  if (spec->index == IndexKind::kDeltaFlag)
    spec->flag_bits = static_cast<int>(params.Int("flag_bits"));
  if (spec->index != IndexKind::kBloom) return OkStatus();
  spec->policy = static_cast<BloomPolicy>(params.Choice("policy"));
  spec->fpr = params.Float("fpr");
  return OkStatus();
}

Result<ValueSpec> ParseValue(const std::string& value) {
  const std::string name = NameOf(value);
  ValueSpec spec{};
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<ValueCodec>("value codec", name));
  TFC_ASSIGN_OR_RETURN(spec.kind, KindOf("value codec", *row, kValueCodecs));
  TFC_ASSIGN_OR_RETURN(const Params params, ParamsOf(*row, value));
  switch (spec.kind) {
    case ValueKind::kRaw:
      spec.num_bits = 32;
      break;
    case ValueKind::kFp16:
    case ValueKind::kBf16:
      spec.num_bits = 16;
      break;
    case ValueKind::kQsgd:
      spec.num_bits = static_cast<int>(params.Int("bits"));
      spec.bucket_size = static_cast<uint32_t>(params.Int("bucket"));
      break;
    case ValueKind::kUniform:
      spec.num_bits = params.Choice("bits") == 0 ? 8 : 16;
      break;
    case ValueKind::kLogquant:
      if (params.Choice("rounding") != 0)
        return InvalidArgument("'logquant' has a device variant for rounding=nearest");
      spec.num_bits = static_cast<int>(params.Int("bits"));
      break;
    case ValueKind::kTernary:
      spec.clip = params.Float("clip");
      break;
    case ValueKind::kSign:
      spec.num_bits = 1;
      break;
    case ValueKind::kQuantile:
      spec.num_buckets = static_cast<uint32_t>(params.Int("buckets"));
      break;
    case ValueKind::kLog:
      spec.base = params.Float("base");
      spec.adapts = params.Int("tau") == 0;
      spec.max_levels = 1 + (spec.adapts ? LogScale::AdaptedTau(spec.base, kMaxElements)
                                         : static_cast<uint32_t>(params.Int("tau")));
      spec.num_bits = BitsFor(2 * uint64_t{spec.max_levels} + 1);
      break;
    case ValueKind::kDexp:
      spec.num_curves = 2;
      break;
    case ValueKind::kBlockInt:
      spec.num_bits = static_cast<int>(params.Int("bits"));
      spec.spacing = static_cast<LevelSpacing>(params.Choice("levels"));
      spec.bucket_size = 1u << (BlockIntLevels::kMinBlockBits + 2 * params.Choice("block"));
      break;
    case ValueKind::kNone:
      break;
  }
  return spec;
}

Result<JointSpec> ParseJoint(const std::string& joint) {
  const std::string name = NameOf(joint);
  JointSpec spec{};
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<SparseCodec>("joint codec", name));
  TFC_ASSIGN_OR_RETURN(spec.kind, KindOf("joint codec", *row, kJointCodecs));
  TFC_ASSIGN_OR_RETURN(const Params params, ParamsOf(*row, joint));
  spec.sketch = GroupedSketchConfigOf(params);
  if (spec.kind != JointKind::kSkcompress || WidestGroup(spec.sketch) <= kMaxCodedWidth)
    return spec;
  return InvalidArgument("the joint codec 'skcompress' has a device variant for up to ",
                         kMaxCodedWidth, " buckets in a group, got ", WidestGroup(spec.sketch));
}

Result<DeviceSpec> ParseParts(const Compressor& compressor) {
  const std::vector<std::string> parts = PartsOf(compressor.spec(), Compressor::kMaxParts);
  DeviceSpec spec{};
  TFC_ASSIGN_OR_RETURN(spec.memory, DeviceMemoryOf(parts[0]));
  TFC_RETURN_IF_ERROR(ParseSparsifier(parts[1], &spec));
  if (compressor.support_kind() == SupportKind::kJoint) {
    TFC_ASSIGN_OR_RETURN(spec.joint, ParseJoint(parts[2]));
    return spec;
  }
  TFC_RETURN_IF_ERROR(ParseIndex(parts[2], &spec));
  TFC_ASSIGN_OR_RETURN(spec.value, ParseValue(parts[3]));
  if (compressor.support_kind() != SupportKind::kIndexSection) spec.index = IndexKind::kImplied;
  return spec;
}

}  // namespace

Result<DeviceSpec> DeviceSpecOf(const Compressor& compressor) {
  const Result<DeviceSpec> spec = ParseParts(compressor);
  if (spec.ok()) return spec;
  return spec.status().WithContext("spec '" + compressor.spec() + "'");
}

Result<MemorySpec> DeviceMemoryOf(const std::string& memory) {
  const std::string name = NameOf(memory);
  MemorySpec spec{};
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<Memory>("memory", name));
  TFC_ASSIGN_OR_RETURN(spec.kind, KindOf("memory", *row, kMemories));
  if (spec.kind != MemoryKind::kMomentum) return spec;
  TFC_ASSIGN_OR_RETURN(const Params params, ParamsOf(*row, memory));
  spec.rate = static_cast<float>(params.Float("rate"));
  spec.nesterov = params.Choice("nesterov") == 1;
  return spec;
}

Result<LinearKind> DeviceLinearOf(const std::string& name) {
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<LinearCodec>("linear codec", name));
  return KindOf("linear codec", *row, kLinearCodecs);
}

Result<DeviceDecoder> DeviceDecoderOf(const FrameHeader& header) {
  if (header.support == SupportKind::kJoint) {
    const auto* row = FindById<SparseCodec>(header.value_id);
    if (row == nullptr) return DataLoss("unknown joint codec id ", int{header.value_id});
    DeviceDecoder decoder{};
    TFC_ASSIGN_OR_RETURN(decoder.joint, KindOf("joint codec", *row, kJointCodecs));
    return decoder;
  }
  const Result<FrameCodecs> known = FindCodecs(header);
  if (!known.ok()) return known.status();
  DeviceDecoder decoder{};
  decoder.is_seeded = header.support == SupportKind::kSeeded;
  decoder.index = IndexKind::kImplied;
  if (header.support == SupportKind::kIndexSection) {
    const auto* row = FindById<IndexCodec>(header.index_id);
    TFC_ASSIGN_OR_RETURN(decoder.index, KindOf("index codec", *row, kIndexCodecs));
  }
  const auto* row = FindById<ValueCodec>(header.value_id);
  TFC_ASSIGN_OR_RETURN(decoder.value, KindOf("value codec", *row, kValueCodecs));
  return decoder;
}

std::vector<std::string> DeviceMemories() { return Names<Memory>(kMemories); }
std::vector<std::string> DeviceSparsifiers() { return Names<Sparsifier>(kSparsifiers); }
std::vector<std::string> DeviceIndexCodecs() { return Names<IndexCodec>(kIndexCodecs); }
std::vector<std::string> DeviceValueCodecs() { return Names<ValueCodec>(kValueCodecs); }
std::vector<std::string> DeviceJointCodecs() { return Names<SparseCodec>(kJointCodecs); }
std::vector<std::string> DeviceLinearCodecs() { return Names<LinearCodec>(kLinearCodecs); }

}  // namespace device
}  // namespace tfcompress
