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

Result<std::shared_ptr<const LinearCompressor>> LinearCompressor::FromSpec(
    const std::string& spec) {
  const auto in_spec = [&](const Status& status) {
    return status.WithContext("spec '" + spec + "'");
  };
  const std::vector<std::string> parts = PartsOf(spec, kMaxParts);
  if (!IsLinearSpec(spec)) {
    return in_spec(
        InvalidArgument("names no linear codec, so that it makes frames and nothing to "
                        "sum; known linear codecs: ",
                        KnownNames<LinearCodec>(), "; ", kShape));
  }
  if (parts.size() > kMaxParts) {
    return in_spec(InvalidArgument("has ", parts.size(), " parts; ", kShape));
  }
  auto memory = ParsePart<Memory>("memory", parts[0]);
  if (!memory.ok()) return in_spec(memory.status());
  auto linear = ParsePart<LinearCodec>("linear codec", parts[1]);
  if (!linear.ok()) return in_spec(linear.status());
  std::shared_ptr<LinearCompressor> compressor(new LinearCompressor());
  compressor->spec_ = MemoryPrefix(memory.value().canonical) + linear.value().canonical;
  compressor->memory_ = std::move(memory.value().object);
  compressor->codec_ = std::move(linear.value().object);
  return std::shared_ptr<const LinearCompressor>(std::move(compressor));
}

}  // namespace tfcompress
