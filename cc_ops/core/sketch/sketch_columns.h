// Columns of keys in a MinMaxSketch: the arithmetic that core and devices share.
#ifndef TFCOMPRESS_CORE_SKETCH_SKETCH_COLUMNS_H_
#define TFCOMPRESS_CORE_SKETCH_SKETCH_COLUMNS_H_

#include <cmath>
#include <cstdint>

#include "core/hash.h"
#include "core/host_device.h"

namespace tfcompress {

// ceil(columns_per_key * num_keys), at least 1.
TFC_HOST_DEVICE inline uint32_t NumSketchColumns(double columns_per_key, uint64_t num_keys) {
  const double num_columns = std::ceil(columns_per_key * static_cast<double>(num_keys));
  return num_columns < 1 ? 1 : static_cast<uint32_t>(num_columns);
}

// The hash function of a row is HashKey(key, HashKey(row, seed)); this precomputes the part that
// depends on the seed.
TFC_HOST_DEVICE inline uint64_t MixedRowSeed(uint32_t row, uint64_t seed) {
  return Mix64(HashKey(row, seed) + kGoldenGamma);
}
TFC_HOST_DEVICE inline uint32_t SketchColumn(uint32_t key, uint64_t mixed_seed, uint32_t columns) {
  return FastRange32(static_cast<uint32_t>(Mix64(key * kGoldenGamma + mixed_seed) >> 32), columns);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_SKETCH_COLUMNS_H_
