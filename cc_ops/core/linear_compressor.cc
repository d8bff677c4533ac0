#include "core/linear_compressor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "core/spec.h"

namespace tfcompress {
namespace {

constexpr char kShape[] = "a linear spec is [memory|]linear, each part name[:key=value,...]";

}  // namespace

bool IsLinearSpec(const std::string& spec) {
  const std::vector<std::string> parts = Split(spec, '|');
  return std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
    return FindByName<LinearCodec>(NameOf(part)) != nullptr;
  });
}

Status LinearCompressor::Parse(const std::string& spec) {
  if (!IsLinearSpec(spec)) {
    return InvalidArgument(
        "names no linear codec, so that it makes frames and nothing to sum; known linear codecs: ",
        KnownNames<LinearCodec>(), "; ", kShape);
  }
  const std::vector<std::string> parts = PartsOf(spec, kMaxParts);
  if (parts.size() > kMaxParts) return InvalidArgument("has ", parts.size(), " parts; ", kShape);
  TFC_ASSIGN_OR_RETURN(auto memory, ParsePart<Memory>("memory", parts[0]));
  TFC_ASSIGN_OR_RETURN(auto linear, ParsePart<LinearCodec>("linear codec", parts[1]));
  spec_ = MemoryPrefix(memory.canonical) + linear.canonical;
  memory_ = std::move(memory.object);
  codec_ = std::move(linear.object);
  return OkStatus();
}

Result<std::shared_ptr<const LinearCompressor>> LinearCompressor::FromSpec(
    const std::string& spec) {
  std::shared_ptr<LinearCompressor> compressor(new LinearCompressor());
  TFC_RETURN_IF_ERROR(compressor->Parse(spec).WithContext("spec '" + spec + "'"));
  return std::shared_ptr<const LinearCompressor>(std::move(compressor));
}

}  // namespace tfcompress
