#include "core/sketch/cell_hash.h"

#include "core/simd.h"

namespace tfcompress {

void CellHash::Fill(uint64_t first, int64_t count, SignedCell* cells) const {
  const CellHash hash = *this;
  Vectorized([=] {
    for (int64_t j = 0; j < count; ++j) cells[j] = hash(first + static_cast<uint64_t>(j));
  });
}

}  // namespace tfcompress
