// Codes of a fixed number of bits, made and used a chunk at a time: they stay in the L1 cache
// between a codec's arithmetic and the packed bytes.
#ifndef TFCOMPRESS_CORE_VALUE_PACKED_CODES_H_
#define TFCOMPRESS_CORE_VALUE_PACKED_CODES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/bit_io.h"
#include "core/executor.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// A multiple of 8, so that a chunk of packed codes starts at a byte.
inline constexpr int64_t kPackedChunkElements = 4096;
static_assert(kBlockElements % kPackedChunkElements == 0);

// Calls body(begin, end) for the chunks of [0, k). The chunks of a block run on one thread.
template <typename Body>
void ForEachChunk(int64_t k, Executor* executor, const Body& body) {
  ForEachBlock(executor, k, [&](int64_t, int64_t begin, int64_t end) {
    for (; begin < end; begin += kPackedChunkElements)
      body(begin, std::min(end, begin + kPackedChunkElements));
  });
}

// Packs k codes; make_codes(begin, end, codes) stores those of a chunk to codes[0, end - begin).
template <typename MakeCodes>
void PackCodes(int64_t k, int num_bits, Executor* executor, unsigned char* packed,
               const MakeCodes& make_codes) {
  ForEachChunk(k, executor, [&](int64_t begin, int64_t end) {
    uint32_t codes[kPackedChunkElements];
    make_codes(begin, end, codes);
    unsigned char* out = packed + PackedBytes(begin, num_bits);
    PackBits({codes, static_cast<size_t>(end - begin)}, num_bits, SerialExecutor(), out);
  });
}

// Inverse of PackCodes; `packed` holds exactly PackedBytes(k, num_bits) bytes. Calls
// use_codes(begin, end, codes).
template <typename UseCodes>
void UnpackCodes(ByteSpan packed, int64_t k, int num_bits, Executor* executor,
                 const UseCodes& use_codes) {
  ForEachChunk(k, executor, [&](int64_t begin, int64_t end) {
    uint32_t codes[kPackedChunkElements];
    const uint64_t offset = PackedBytes(begin, num_bits);
    const ByteSpan bytes = packed.subspan(offset, PackedBytes(end, num_bits) - offset);
    UnpackBits(bytes, num_bits, SerialExecutor(), {codes, static_cast<size_t>(end - begin)});
    use_codes(begin, end, codes);
  });
}

// values[i] = table[code i]; a code past the table is DataLoss.
inline Status LookUpCodes(ByteSpan packed, int num_bits, Span<const float> table,
                          Executor* executor, Span<float> values) {
  std::atomic<bool> in_range{true};
  UnpackCodes(packed, values.size(), num_bits, executor,
              [&](int64_t begin, int64_t end, const uint32_t* codes) {
                uint32_t largest = 0;
                for (int64_t i = begin; i < end; ++i) largest = std::max(largest, codes[i - begin]);
                if (largest >= table.size()) {
                  in_range = false;
                  return;
                }
                for (int64_t i = begin; i < end; ++i) values[i] = table[codes[i - begin]];
              });
  if (!in_range) return DataLoss("a code is not below ", table.size());
  return OkStatus();
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_PACKED_CODES_H_
