#include "core/sketch/minmax_sketch.h"

#include "core/simd.h"

namespace tfcompress {

void SketchColumns(Span<const uint32_t> keys, uint64_t mixed_seed, uint32_t num_columns,
                   uint32_t* columns) {
  Vectorized([=, size = keys.size(), from = keys.data()] {
    for (size_t i = 0; i < size; ++i) columns[i] = SketchColumn(from[i], mixed_seed, num_columns);
  });
}

}  // namespace tfcompress
