// LinearCompressor: memory and linear codec, parsed from a spec string; immutable. The counterpart
// of Compressor for payloads that are summed.
//
// Grammar:
//   spec = [memory "|"] linear            (parts as in compressor.h)
// Examples:
//   momentum:rate=0.9|count_sketch:rows=5,columns=500000,k=50000
//   residual|shared_randomk:ratio=0.01
#ifndef TFCOMPRESS_CORE_LINEAR_COMPRESSOR_H_
#define TFCOMPRESS_CORE_LINEAR_COMPRESSOR_H_

#include <memory>
#include <string>

#include "core/codec.h"
#include "core/linear_codec.h"
#include "core/status.h"

namespace tfcompress {

class LinearCompressor {
 public:
  // memory|linear
  static constexpr size_t kMaxParts = 2;

  // Fails with InvalidArgument, naming the known parts and parameters, unless the spec is a valid
  // linear one.
  static Result<std::shared_ptr<const LinearCompressor>> FromSpec(const std::string& spec);

  // The canonical spec: every parameter written out, the memory left out if it is `none`.
  const std::string& spec() const { return spec_; }

  const Memory& memory() const { return *memory_; }
  const LinearCodec& codec() const { return *codec_; }

 private:
  LinearCompressor() = default;
  Status Parse(const std::string& spec);

  std::string spec_;
  std::unique_ptr<const Memory> memory_;
  std::unique_ptr<const LinearCodec> codec_;
};

// Whether a part of the spec names a linear codec: LinearCompressor parses such specs, Compressor
// all others.
bool IsLinearSpec(const std::string& spec);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_LINEAR_COMPRESSOR_H_
