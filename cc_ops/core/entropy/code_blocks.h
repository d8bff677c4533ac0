// Codes of varying length in blocks of a fixed number of items, which are encoded and decoded in
// parallel; the bytes do not depend on the executor. FORMAT.md, "Code blocks".
#ifndef TFCOMPRESS_CORE_ENTROPY_CODE_BLOCKS_H_
#define TFCOMPRESS_CORE_ENTROPY_CODE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/entropy/bit_stream.h"
#include "core/executor.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Calls body(block, begin, end) for the blocks of `num_items` items.
template <typename Body>
void ForEachCodeBlock(Executor* executor, int64_t num_items, const Body& body) {
  ForEachBlock(executor, num_items, body, kCodeBlock);
}

// Appends the blocks of `num_items` items: encode_block(block, begin, end, writer) writes exactly
// num_bits[block] bits, less than 2^35.
template <typename EncodeBlock>
void EncodeCodeBlocks(int64_t num_items, const std::vector<uint64_t>& num_bits, Executor* executor,
                      const EncodeBlock& encode_block, Bytes* out) {
  ByteWriter writer(out);
  std::vector<size_t> ends;
  size_t num_bytes = 0;
  for (const uint64_t bits : num_bits) {
    ends.push_back(num_bytes += BytesOfBits(bits));
    if (ends.size() < num_bits.size()) writer.Write(static_cast<uint32_t>(BytesOfBits(bits)));
  }
  unsigned char* blocks = writer.Extend(num_bytes);
  ForEachCodeBlock(executor, num_items, [&](int64_t block, int64_t begin, int64_t end) {
    BitWriter bits(blocks + (block == 0 ? 0 : ends[block - 1]), blocks + ends[block]);
    encode_block(block, begin, end, &bits);
  });
}

// Finds blocks of which the lengths of all but the last come first; the last one is all that is
// left. There is at least one.
inline Status ReadBlocks(const char* what, ByteReader* reader, std::vector<ByteSpan>* blocks) {
  std::vector<uint32_t> lengths;
  TFC_RETURN_IF_ERROR(reader->ReadArray(what, blocks->size() - 1, &lengths));
  for (size_t block = 0; block < lengths.size(); ++block)
    TFC_RETURN_IF_ERROR(reader->ReadSpan(what, lengths[block], &(*blocks)[block]));
  return reader->ReadSpan(what, reader->remaining(), &blocks->back());
}

// Reads the blocks of `num_items` items off the front of `reader`: decode_block(block, begin, end,
// reader) reads the bits of one block and returns its Status; it need not check for missing bits.
// `what` begins the messages.
template <typename DecodeBlock>
Status DecodeCodeBlocks(const char* what, int64_t num_items, Executor* executor, ByteReader* reader,
                        const DecodeBlock& decode_block) {
  const int64_t num_blocks = NumBlocks(num_items, kCodeBlock);
  if (num_blocks == 0) return OkStatus();
  std::vector<ByteSpan> blocks(static_cast<size_t>(num_blocks));
  ByteReader ahead = *reader;
  TFC_RETURN_IF_ERROR(ReadBlocks(what, &ahead, &blocks));

  std::vector<Status> statuses(blocks.size());
  std::vector<size_t> num_bytes(blocks.size());
  ForEachCodeBlock(executor, num_items, [&](int64_t block, int64_t begin, int64_t end) {
    BitReader bits(blocks[block]);
    statuses[block] = decode_block(block, begin, end, &bits);
    if (statuses[block].ok()) statuses[block] = bits.Finish(what, &num_bytes[block]);
  });
  for (const Status& status : statuses) TFC_RETURN_IF_ERROR(status);
  for (size_t block = 0; block + 1 < blocks.size(); ++block) {
    if (num_bytes[block] == blocks[block].size()) continue;
    return DataLoss(what, ": block ", block, " has ", blocks[block].size(), " bytes, its codes ",
                    num_bytes[block]);
  }
  // The last block ends where its codes end.
  const size_t num_unread = blocks.back().size() - num_bytes.back();
  ByteSpan all;
  return reader->ReadSpan(what, reader->remaining() - num_unread, &all);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_CODE_BLOCKS_H_
