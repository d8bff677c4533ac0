// Maps indices to cells of a row of a Count Sketch, with signs. FORMAT.md, "Linear payloads".
#ifndef TFCOMPRESS_CORE_SKETCH_CELL_HASH_H_
#define TFCOMPRESS_CORE_SKETCH_CELL_HASH_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/hash.h"
#include "core/host_device.h"
#include "core/simd.h"

namespace tfcompress {

// A column in the low 31 bits, and a sign in the highest bit, as in a float.
using SignedCell = uint32_t;
inline constexpr SignedCell kCellSignBit = 0x80000000u;

TFC_HOST_DEVICE inline uint32_t ColumnOf(SignedCell cell) { return cell & ~kCellSignBit; }

// Returns `value`, negated if the cell's sign is negative.
TFC_HOST_DEVICE inline float WithSignOf(SignedCell cell, float value) {
  return FloatFromBits(FloatBits(value) ^ (cell & kCellSignBit));
}

// The hash function of a row. One call of the mixer gives both: the column from the upper 32 bits,
// the sign from the lowest bit.
class CellHash {
 public:
  CellHash() = default;
  // columns < 2^31.
  TFC_HOST_DEVICE CellHash(uint64_t seed, int row, uint32_t columns)
      : hash_(HashKey(static_cast<uint64_t>(row), seed)), columns_(columns) {}

  TFC_HOST_DEVICE SignedCell operator()(uint64_t index) const {
    const uint64_t bits = hash_(index);
    return FastRange32(static_cast<uint32_t>(bits >> 32), columns_) | static_cast<uint32_t>(bits)
                                                                          << 31;
  }

  // cells[j] = (*this)(first + j), in the widest instructions that this processor has.
  void Fill(uint64_t first, int64_t count, SignedCell* cells) const {
    Vectorized([=, hash = *this] {
      for (int64_t j = 0; j < count; ++j) cells[j] = hash(first + static_cast<uint64_t>(j));
    });
  }

 private:
  SeededHash hash_;
  uint32_t columns_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_CELL_HASH_H_
