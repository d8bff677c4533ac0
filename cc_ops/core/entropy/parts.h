// Long codes in parts of a fixed number of items, which are coded apart, in parallel: the models of
// each part begin anew, and the bytes do not depend on the executor. FORMAT.md, "Parts".
#ifndef TFCOMPRESS_CORE_ENTROPY_PARTS_H_
#define TFCOMPRESS_CORE_ENTROPY_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/concatenate.h"
#include "core/entropy/code_blocks.h"
#include "core/executor.h"
#include "core/status.h"

namespace tfcompress {

// Models have learnt enough by then for what they learn anew to be less than a hundredth.
inline constexpr int64_t kPartItems = int64_t{1} << 18;

inline uint64_t NumParts(uint64_t num_items) {
  return std::max<uint64_t>(1, NumBlocks(static_cast<int64_t>(num_items), kPartItems));
}

// Appends the parts of `num_items` items: encode_part(part, begin, end, out) appends one of them.
template <typename EncodePart>
void EncodeParts(int64_t num_items, Executor* executor, const EncodePart& encode_part, Bytes* out) {
  std::vector<Bytes> parts(NumParts(num_items));
  if (parts.size() == 1) return encode_part(0, 0, num_items, out);
  const auto encode = [&](int64_t part, int64_t begin, int64_t end) {
    encode_part(part, begin, end, &parts[part]);
  };
  ForEachBlock(executor, num_items, encode, kPartItems);
  ByteWriter writer(out);
  for (size_t i = 0; i + 1 < parts.size(); ++i)
    writer.Write(static_cast<uint32_t>(parts[i].size()));
  Concatenate(parts, out);
}

// Decodes all that is left in `reader`: decode_part(part, begin, end, bytes) decodes one part, and
// returns its Status. `what` begins the messages.
template <typename DecodePart>
Status DecodeParts(const char* what, int64_t num_items, Executor* executor, ByteReader* reader,
                   const DecodePart& decode_part) {
  std::vector<ByteSpan> parts(NumParts(num_items));
  TFC_RETURN_IF_ERROR(ReadBlocks(what, reader, &parts));
  if (parts.size() == 1) return decode_part(0, 0, num_items, parts[0]);
  std::vector<Status> statuses(parts.size());
  const auto decode = [&](int64_t part, int64_t begin, int64_t end) {
    statuses[part] = decode_part(part, begin, end, parts[part]);
  };
  ForEachBlock(executor, num_items, decode, kPartItems);
  for (const Status& status : statuses) TFC_RETURN_IF_ERROR(status);
  return OkStatus();
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_PARTS_H_
