// Compressor: memory, sparsifier and codecs, parsed from a spec string; immutable.
//
// Grammar (this is the only definition):
//   spec  = [memory "|"] sparsifier "|" (index "|" value / joint)
//   part  = name [":" key "=" value *("," key "=" value)]
// The memory defaults to `none`. Examples:
//   residual|topk:ratio=0.01|bloom:policy=p2,fpr=0.001|dexp
//   nonzero|sketchml
#ifndef TFCOMPRESS_CORE_COMPRESSOR_H_
#define TFCOMPRESS_CORE_COMPRESSOR_H_

#include <memory>
#include <string>

#include "core/codec.h"
#include "core/frame.h"

namespace tfcompress {

class Compressor {
 public:
  // memory|sparsifier|index|value
  static constexpr size_t kMaxParts = 4;

  // Fails with InvalidArgument, naming the known parts and parameters, if the spec is invalid.
  static Result<std::shared_ptr<const Compressor>> FromSpec(const std::string& spec);

  // The canonical spec: every parameter written out, the memory left out if it is `none`. Equal
  // compressors have equal strings.
  const std::string& spec() const { return spec_; }

  const Memory& memory() const { return *memory_; }
  const Sparsifier& sparsifier() const { return *sparsifier_; }
  // Either a joint codec, or a value codec with an index codec, if support_kind() is kIndexSection.
  // The others are null.
  const SparseCodec* joint() const { return joint_.get(); }
  const IndexCodec* index() const { return index_.get(); }
  const ValueCodec* value() const { return value_.get(); }
  SupportKind support_kind() const { return support_kind_; }
  uint8_t index_id() const { return index_id_; }
  uint8_t value_id() const { return value_id_; }
  // Upper bound of a frame's sections when neither the chosen nor the decoded support has more than
  // k of n elements.
  uint64_t MaxSectionBytes(uint32_t n, uint32_t k) const;

 private:
  Compressor() = default;
  Status Parse(const std::string& spec);
  Status ParseJoint(const std::string& joint);
  Status ParseProduct(const std::string& index, const std::string& value);

  std::string spec_;
  std::unique_ptr<const Memory> memory_;
  std::unique_ptr<const Sparsifier> sparsifier_;
  std::unique_ptr<const SparseCodec> joint_;
  std::unique_ptr<const IndexCodec> index_;
  std::unique_ptr<const ValueCodec> value_;
  SupportKind support_kind_ = SupportKind::kIndexSection;
  uint8_t index_id_ = 0;
  uint8_t value_id_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_COMPRESSOR_H_
