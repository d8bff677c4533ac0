#include "cuda/device_parts.h"

#include "core/frame_codecs.h"
#include "core/registry.h"
#include "core/sparsify/collect.h"
#include "core/spec.h"

namespace tfcompress {
namespace device {
namespace {

template <typename Kind>
struct Row {
  const char* name;
  Kind kind;
};

constexpr Row<MemoryKind> kMemories[] = {
    {"none", MemoryKind::kNone},
    {"residual", MemoryKind::kResidual},
};
constexpr Row<SparsifierKind> kSparsifiers[] = {
    {"dense", SparsifierKind::kDense},         {"nonzero", SparsifierKind::kNonzero},
    {"threshold", SparsifierKind::kThreshold}, {"topk", SparsifierKind::kTopK},
    {"randomk", SparsifierKind::kRandomK},
};
constexpr Row<IndexKind> kIndexCodecs[] = {
    {"raw", IndexKind::kRaw},
    {"bitmap", IndexKind::kBitmap},
    {"delta_binary", IndexKind::kDeltaBinary},
};
constexpr Row<ValueFormat> kValueCodecs[] = {
    {"raw", ValueFormat::kRaw},
    {"fp16", ValueFormat::kFp16},
    {"bf16", ValueFormat::kBf16},
};

template <typename Kind, size_t kSize>
std::vector<std::string> Names(const Row<Kind> (&rows)[kSize]) {
  std::vector<std::string> names;
  for (const Row<Kind>& row : rows) names.push_back(row.name);
  return names;
}

template <typename Kind, size_t kSize>
Result<Kind> Find(const char* what, const std::string& name, const Row<Kind> (&rows)[kSize]) {
  for (const Row<Kind>& row : rows) {
    if (row.name == name) return row.kind;
  }
  std::string known;
  for (const std::string& other : Names(rows)) known += (known.empty() ? "" : ", ") + other;
  return InvalidArgument("the ", what, " '", name,
                         "' has no device variant; those that have: ", known);
}

template <typename Interface>
std::string NameById(uint8_t id) {
  for (const auto& row : Registry<Interface>()) {
    if (row.id == id) return row.name;
  }
  return "";
}

// The parameters of a part of a canonical spec.
Result<Params> ParamsOf(const std::string& sparsifier) {
  const std::string name = NameOf(sparsifier);
  TFC_ASSIGN_OR_RETURN(const auto* row, FindRow<Sparsifier>("sparsifier", name));
  TFC_ASSIGN_OR_RETURN(const auto given, KeyValuesOf(sparsifier));
  return Params::Parse(name, row->definition.params, given);
}

Status ParseSparsifier(const std::string& sparsifier, DeviceSpec* spec) {
  TFC_ASSIGN_OR_RETURN(spec->sparsifier, Find("sparsifier", NameOf(sparsifier), kSparsifiers));
  TFC_ASSIGN_OR_RETURN(const Params params, ParamsOf(sparsifier));
  switch (spec->sparsifier) {
    case SparsifierKind::kDense:
      break;
    case SparsifierKind::kNonzero:
      spec->min_magnitude = 1;  // Of the smallest subnormal number.
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

Result<DeviceSpec> ParseParts(const Compressor& compressor) {
  std::vector<std::string> parts = Split(compressor.spec(), '|');
  if (FindByName<Memory>(NameOf(parts[0])) == nullptr) parts.insert(parts.begin(), "none");
  DeviceSpec spec{};
  TFC_ASSIGN_OR_RETURN(spec.memory, Find("memory", NameOf(parts[0]), kMemories));
  TFC_RETURN_IF_ERROR(ParseSparsifier(parts[1], &spec));
  if (compressor.support_kind() == SupportKind::kJoint) {
    return InvalidArgument("the joint codec '", NameOf(parts[2]),
                           "' has no device variant; none has");
  }
  TFC_ASSIGN_OR_RETURN(spec.index, Find("index codec", NameOf(parts[2]), kIndexCodecs));
  TFC_ASSIGN_OR_RETURN(spec.value, Find("value codec", NameOf(parts[3]), kValueCodecs));
  if (compressor.support_kind() != SupportKind::kIndexSection) spec.index = IndexKind::kImplied;
  return spec;
}

}  // namespace

Result<DeviceSpec> DeviceSpecOf(const Compressor& compressor) {
  const Result<DeviceSpec> spec = ParseParts(compressor);
  if (spec.ok()) return spec;
  return spec.status().WithContext("spec '" + compressor.spec() + "'");
}

Result<DeviceDecoder> DeviceDecoderOf(const FrameHeader& header) {
  if (header.support == SupportKind::kJoint) {
    const std::string name = NameById<SparseCodec>(header.value_id);
    if (name.empty()) return DataLoss("unknown joint codec id ", int{header.value_id});
    return InvalidArgument("the joint codec '", name, "' has no device variant; none has");
  }
  const Result<FrameCodecs> known = FindCodecs(header);
  if (!known.ok()) return known.status();
  DeviceDecoder decoder{};
  decoder.is_seeded = header.support == SupportKind::kSeeded;
  decoder.index = IndexKind::kImplied;
  if (header.support == SupportKind::kIndexSection) {
    const std::string name = NameById<IndexCodec>(header.index_id);
    TFC_ASSIGN_OR_RETURN(decoder.index, Find("index codec", name, kIndexCodecs));
  }
  const std::string name = NameById<ValueCodec>(header.value_id);
  TFC_ASSIGN_OR_RETURN(decoder.value, Find("value codec", name, kValueCodecs));
  return decoder;
}

std::vector<std::string> DeviceMemories() { return Names(kMemories); }
std::vector<std::string> DeviceSparsifiers() { return Names(kSparsifiers); }
std::vector<std::string> DeviceIndexCodecs() { return Names(kIndexCodecs); }
std::vector<std::string> DeviceValueCodecs() { return Names(kValueCodecs); }

}  // namespace device
}  // namespace tfcompress
