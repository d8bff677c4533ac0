// bitmap: one bit per element, the bit string B of DeepReduce section 3.

#include <algorithm>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/count_bits.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

// Blocks begin at whole bytes, so that no two tasks write to the same byte.
static_assert(kBlockElements % 8 == 0);

constexpr uint64_t kTopBit = uint64_t{1} << 63;

// Fills `indices` with the positions of the set bits, counted from `base`.
void ListBits(ByteSpan bytes, uint32_t base, Span<uint32_t> indices) {
  uint32_t* next = indices.begin();
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t)) {
    uint64_t word = LoadWord(bytes, offset);
    const uint32_t first = base + static_cast<uint32_t>(8 * offset);
    // Most words of a sparse bitmap have none, one or two bits, at random, so that a branch would
    // be mispredicted. Two positions are written always; those without a bit are overwritten later.
    for (int i = 0; i < 2 && next != indices.end(); ++i) {
      *next = first + static_cast<uint32_t>(__builtin_ctzll(word | kTopBit));
      next += word != 0;
      word &= word - 1;
    }
    for (; word != 0; word &= word - 1)
      *next++ = first + static_cast<uint32_t>(__builtin_ctzll(word));
  }
}

class BitmapIndexCodec : public IndexCodec {
 public:
  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t n,
                                const CodecContext& context, Bytes* out) const override {
    unsigned char* bitmap = ByteWriter(out).ExtendByZeros(static_cast<size_t>(PackedBytes(n, 1)));
    ForEachBlock(context.executor, n, [&](int64_t, int64_t begin, int64_t end) {
      const uint32_t* last = std::lower_bound(indices.begin(), indices.end(), end);
      for (const uint32_t* i = std::lower_bound(indices.begin(), last, begin); i != last; ++i) {
        bitmap[*i >> 3] = static_cast<unsigned char>(bitmap[*i >> 3] | 1u << (*i & 7));
      }
    });
    return DecodedIndices();
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    if (section.size() != PackedBytes(n, 1)) {
      return DataLoss("bitmap: expected ", PackedBytes(n, 1), " bytes for ", n, " elements, found ",
                      section.size());
    }
    if (n % 8 != 0 && section[section.size() - 1] >> (n % 8) != 0) {
      return DataLoss("bitmap: bits are set after the last of ", n, " elements");
    }
    const int64_t num_bytes = static_cast<int64_t>(section.size());
    constexpr int64_t kBlockBytes = kBlockElements / 8;

    std::vector<uint64_t> ends(static_cast<size_t>(NumBlocks(num_bytes, kBlockBytes)));
    ForEachBlock(
        context.executor, num_bytes,
        [&](int64_t block, int64_t begin, int64_t end) {
          ends[block] = CountBits(
              section.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
        },
        kBlockBytes);
    for (size_t block = 1; block < ends.size(); ++block) ends[block] += ends[block - 1];
    const uint64_t count = ends.empty() ? 0 : ends.back();
    if (count != k) return DataLoss("bitmap: expected ", k, " bits set, found ", count);

    indices->resize(k);
    ForEachBlock(
        context.executor, num_bytes,
        [&](int64_t block, int64_t begin, int64_t end) {
          const uint64_t from = block == 0 ? 0 : ends[block - 1];
          ListBits(section.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                   static_cast<uint32_t>(8 * begin),
                   Span<uint32_t>(indices->data() + from, static_cast<size_t>(ends[block] - from)));
        },
        kBlockBytes);
    return OkStatus();
  }

  uint64_t MinEncodedBytes(uint32_t n, uint32_t) const override { return PackedBytes(n, 1); }
  uint64_t MaxEncodedBytes(uint32_t n, uint32_t) const override { return PackedBytes(n, 1); }
};

}  // namespace

Definition<IndexCodec> BitmapIndex() {
  return {
      "One bit an element; smaller than delta_binary above densities of about 1/10 (DeepReduce 3).",
      {},
      Make<BitmapIndexCodec>,
      "exact",
      "ceil(n / 8)"};
}

}  // namespace tfcompress
