// Codes of a fixed number of bits, made and used a chunk at a time: they stay in the L1 cache
// between a codec's arithmetic and the packed bytes.
#ifndef TFCOMPRESS_CORE_VALUE_PACKED_CODES_H_
#define TFCOMPRESS_CORE_VALUE_PACKED_CODES_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/codec.h"
#include "core/executor.h"
#include "core/float_order.h"
#include "core/simd.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Packs codes [begin, end), which are codes[0], codes[1], ...; `begin` is a multiple of 8.
inline void PackChunk(const uint32_t* codes, int64_t begin, int64_t end, int num_bits,
                      unsigned char* packed) {
  PackBits({codes, static_cast<size_t>(end - begin)}, num_bits, SerialExecutor(),
           packed + PackedBytes(begin, num_bits));
}

// Packs k codes; make_codes(begin, end, codes) stores those of a chunk to codes[0, end - begin).
template <typename MakeCodes>
void PackCodes(int64_t k, int num_bits, Executor* executor, unsigned char* packed,
               const MakeCodes& make_codes) {
  ForEachChunk(executor, k, kDecodeChunk, [&](int64_t begin, int64_t end) {
    uint32_t codes[kDecodeChunk];
    make_codes(begin, end, codes);
    PackChunk(codes, begin, end, num_bits, packed);
  });
}

// Appends a bit for each value: whether it is below zero.
inline void PackSigns(Span<const float> values, Executor* executor, ByteWriter* writer) {
  PackCodes(values.size(), /*num_bits=*/1, executor, writer->Extend(PackedBytes(values.size(), 1)),
            [&](int64_t begin, int64_t end, uint32_t* codes) {
              for (int64_t i = begin; i < end; ++i) codes[i - begin] = IsNegative(values[i]);
            });
}

// Reads k packed codes off the reader, which is then at its end.
inline Status ReadCodes(uint32_t k, int num_bits, ByteReader* reader, ByteSpan* packed) {
  TFC_RETURN_IF_ERROR(reader->ReadSpan("codes", PackedBytes(k, num_bits), packed));
  return reader->ExpectEnd("codes");
}

// The packed codes of a chunk.
inline ByteSpan PackedChunk(ByteSpan packed, int64_t begin, int64_t end, int num_bits) {
  const uint64_t offset = PackedBytes(begin, num_bits);
  return packed.subspan(offset, PackedBytes(end, num_bits) - offset);
}

// Codes of at most 8 bits of a chunk, as bytes: those of 8 bits in their place, without a copy.
class ByteCodes {
 public:
  explicit ByteCodes(int num_bits) : num_bits_(num_bits) {}

  // Where to store codes [begin, end) for Pack.
  unsigned char* Room(unsigned char* packed, int64_t begin) {
    return num_bits_ == kMaxByteBits ? packed + begin : buffer_;
  }
  // Packs those codes; `begin` is a multiple of 8.
  void Pack(int64_t begin, int64_t end, unsigned char* packed) const {
    if (num_bits_ == kMaxByteBits) return;
    PackBits({buffer_, static_cast<size_t>(end - begin)}, num_bits_,
             packed + PackedBytes(begin, num_bits_));
  }
  // Codes [begin, end); valid as long as this and `packed`.
  const unsigned char* Unpack(ByteSpan packed, int64_t begin, int64_t end) {
    if (num_bits_ == kMaxByteBits) return packed.data() + begin;
    UnpackBits(PackedChunk(packed, begin, end, num_bits_), num_bits_,
               {buffer_, static_cast<size_t>(end - begin)});
    return buffer_;
  }

 private:
  int num_bits_;
  unsigned char buffer_[kDecodeChunk];
};

// values[i] = table[codes[i]] for 0 <= i < count, or DataLoss for a code past the table.
template <typename Code>
Status LookUp(const std::vector<float>& table, const Code* codes, int64_t count, float* values) {
  Code largest = 0;
  Vectorized([=, out = &largest] {
    Code max = 0;
    for (int64_t i = 0; i < count; ++i) max = std::max(max, codes[i]);
    *out = max;
  });
  if (largest >= table.size()) return DataLoss("a code is not below ", table.size());
  const float* const entries = table.data();
  for (int64_t i = 0; i < count; ++i) values[i] = entries[codes[i]];
  return OkStatus();
}

// Returns a decoder of values[i] = table[code i]; a code past the table is DataLoss.
inline ChunkDecoder DecodeTable(ByteSpan packed, int num_bits, std::vector<float> table) {
  return [=, table = std::move(table)](int64_t begin, int64_t end, float* values) {
    if (num_bits <= kMaxByteBits) {
      ByteCodes codes(num_bits);
      return LookUp(table, codes.Unpack(packed, begin, end), end - begin, values);
    }
    uint32_t codes[kDecodeChunk];
    UnpackBits(PackedChunk(packed, begin, end, num_bits), num_bits, SerialExecutor(),
               {codes, static_cast<size_t>(end - begin)});
    return LookUp(table, codes, end - begin, values);
  };
}

// Reads k packed codes of a table off the reader, which is then at its end.
inline Status OpenTable(uint32_t k, int num_bits, std::vector<float> table, ByteReader* reader,
                        ChunkDecoder* decoder) {
  ByteSpan packed;
  TFC_RETURN_IF_ERROR(ReadCodes(k, num_bits, reader, &packed));
  *decoder = DecodeTable(packed, num_bits, std::move(table));
  return OkStatus();
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_PACKED_CODES_H_
