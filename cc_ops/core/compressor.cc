#include "core/compressor.h"

#include <utility>
#include <vector>

#include "core/linear_compressor.h"
#include "core/registry.h"
#include "core/spec.h"

namespace tfcompress {
namespace {

constexpr char kShape[] =
    "a spec is [memory|]sparsifier|index|value or [memory|]sparsifier|joint, each part "
    "name[:key=value,...]";

}  // namespace

Status Compressor::ParseJoint(const std::string& joint) {
  const std::string name = NameOf(joint);
  if (FindByName<SparseCodec>(name) == nullptr && FindByName<IndexCodec>(name) != nullptr) {
    return InvalidArgument("'", name, "' is an index codec and needs a value codec after it; ",
                           kShape);
  }
  TFC_ASSIGN_OR_RETURN(auto part, ParsePart<SparseCodec>("joint codec", joint));
  joint_ = std::move(part.object);
  support_kind_ = SupportKind::kJoint;
  value_id_ = part.id;
  spec_ += "|" + part.canonical;
  return OkStatus();
}

// Parses index and value codec. spec_ holds the front of the canonical spec already.
Status Compressor::ParseProduct(const std::string& index, const std::string& value) {
  for (const std::string& part : {index, value}) {
    if (FindByName<SparseCodec>(NameOf(part)) != nullptr) {
      return InvalidArgument(
          "'", NameOf(part),
          "' codes indices and values together and stands alone: write sparsifier|", part);
    }
  }
  TFC_ASSIGN_OR_RETURN(auto index_part, ParsePart<IndexCodec>("index codec", index));
  TFC_ASSIGN_OR_RETURN(auto value_part, ParsePart<ValueCodec>("value codec", value));
  const Implied implied = sparsifier_->implied();
  if (implied != Implied::kNothing && index_part.canonical != "raw") {
    return InvalidArgument("'", spec_, "' sends no index: its index codec must be 'raw', got '",
                           index, "'");
  }
  if (implied == Implied::kNothing) {
    index_ = std::move(index_part.object);
    index_id_ = index_part.id;
  } else {
    support_kind_ = implied == Implied::kSeeded ? SupportKind::kSeeded : SupportKind::kEverything;
  }
  value_ = std::move(value_part.object);
  value_id_ = value_part.id;
  spec_ += "|" + index_part.canonical + "|" + value_part.canonical;
  return OkStatus();
}

uint64_t Compressor::MaxSectionBytes(uint32_t n, uint32_t k) const {
  if (joint_ != nullptr) return joint_->MaxEncodedBytes(n, k);
  return (index_ == nullptr ? 0 : index_->MaxEncodedBytes(n, k)) + value_->MaxEncodedBytes(k);
}

Status Compressor::Parse(const std::string& spec) {
  if (IsLinearSpec(spec)) {
    return InvalidArgument(
        "names a linear codec: its payload is summed over ranks and can never be framed; a linear "
        "spec is [memory|]linear");
  }
  const std::vector<std::string> parts = PartsOf(spec, kMaxParts);
  if (parts.size() != 3 && parts.size() != kMaxParts) {
    return InvalidArgument("has ", Split(spec, '|').size(), " parts; ", kShape);
  }
  TFC_ASSIGN_OR_RETURN(auto memory, ParsePart<Memory>("memory", parts[0]));
  TFC_ASSIGN_OR_RETURN(auto sparsifier, ParsePart<Sparsifier>("sparsifier", parts[1]));
  memory_ = std::move(memory.object);
  sparsifier_ = std::move(sparsifier.object);
  spec_ = MemoryPrefix(memory.canonical) + sparsifier.canonical;
  return parts.size() == 3 ? ParseJoint(parts[2]) : ParseProduct(parts[2], parts[3]);
}

Result<std::shared_ptr<const Compressor>> Compressor::FromSpec(const std::string& spec) {
  std::shared_ptr<Compressor> compressor(new Compressor());
  TFC_RETURN_IF_ERROR(compressor->Parse(spec).WithContext("spec '" + spec + "'"));
  return std::shared_ptr<const Compressor>(std::move(compressor));
}

}  // namespace tfcompress
