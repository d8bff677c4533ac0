// Codes of varying length in a bit string: bit b of the string is bit b % 8 of byte b / 8. Numbers
// are written with the least significant bit first.
#ifndef TFCOMPRESS_CORE_ENTROPY_BIT_STREAM_H_
#define TFCOMPRESS_CORE_ENTROPY_BIT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/byte_io.h"
#include "core/count_bits.h"
#include "core/host_device.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Maximum bits that one call writes, and minimum bits that one Peek returns.
inline constexpr int kMaxStreamBits = 56;

TFC_HOST_DEVICE inline size_t BytesOfBits(uint64_t num_bits) {
  return static_cast<size_t>((num_bits + 7) / 8);
}

// The number of items in a code block, see code_blocks.h.
inline constexpr int64_t kCodeBlock = int64_t{1} << 16;

TFC_HOST_DEVICE inline uint64_t NumCodeBlocks(uint64_t num_items) {
  constexpr auto kItems = static_cast<uint64_t>(kCodeBlock);
  return (num_items + kItems - 1) / kItems;
}

// Upper bound of the bytes that code blocks add to the bits of their items: lengths and padding.
inline uint64_t MaxCodeBlockOverhead(uint64_t num_items) {
  return NumCodeBlocks(num_items) * (sizeof(uint32_t) + 1);
}

// Writes to bytes of exactly the final length. Cheap to copy: loops work on a local copy, which the
// compiler keeps in registers.
class BitWriter {
 public:
  BitWriter(unsigned char* begin, unsigned char* end) : next_(begin), end_(end) {}

  // Appends `num_bits` <= kMaxStreamBits bits; those of `bits` above them are zero.
  void Write(uint64_t bits, int num_bits) {
    pending_ |= bits << num_pending_;
    num_pending_ += num_bits;
    // The unfinished byte is stored too, and again with the next bits, so that no flush is needed.
    const ptrdiff_t room = end_ - next_;
    if (room >= static_cast<ptrdiff_t>(sizeof(pending_))) {
      StoreUnaligned(next_, pending_);
    } else {
      std::memcpy(next_, &pending_, static_cast<size_t>(room));
    }
    next_ += num_pending_ >> 3;
    pending_ >>= num_pending_ & ~7;
    num_pending_ &= 7;
  }

 private:
  unsigned char* next_;
  unsigned char* end_;
  uint64_t pending_ = 0;
  int num_pending_ = 0;  // Below 8 between calls.
};

// Reads borrowed bytes, and zeros after them, so that loops need only one check, Finish, at the
// end.
class BitReader {
 public:
  explicit BitReader(ByteSpan bytes) : bytes_(bytes) {}

  // Returns the next bits, at least kMaxStreamBits, the first one lowest.
  uint64_t Peek() const {
    const size_t offset = static_cast<size_t>(position_ >> 3);
    uint64_t word = 0;
    if (offset + sizeof(word) <= bytes_.size()) {
      word = LoadUnaligned<uint64_t>(bytes_.data() + offset);
    } else if (offset < bytes_.size()) {
      word = LoadWord(bytes_, offset);
    }
    return word >> (position_ & 7);
  }
  void Skip(int num_bits) { position_ += static_cast<uint64_t>(num_bits); }
  // Whether bits past the end were read.
  bool overrun() const { return position_ > 8 * uint64_t{bytes_.size()}; }

  // Sets the number of bytes read. Fails if bits past the end were read, or if a padding bit of the
  // last byte is set.
  Status Finish(const char* what, size_t* num_bytes) const {
    *num_bytes = BytesOfBits(position_);
    if (overrun()) {
      return DataLoss(what, ": needs ", *num_bytes, " bytes, found ", bytes_.size());
    }
    if (position_ % 8 != 0 && bytes_[*num_bytes - 1] >> (position_ % 8) != 0) {
      return DataLoss(what, ": bits are set after the last code");
    }
    return OkStatus();
  }

 private:
  ByteSpan bytes_;
  uint64_t position_ = 0;  // In bits.
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_BIT_STREAM_H_
