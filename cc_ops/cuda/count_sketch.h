// Count Sketch on the device: inserts a vector, with the same cells as the core's, and estimates
// all of its elements.
#ifndef TFCOMPRESS_CUDA_COUNT_SKETCH_H_
#define TFCOMPRESS_CUDA_COUNT_SKETCH_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/sketch/count_sketch.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// One contiguous part of a vector in several parts.
struct DevicePart {
  const float* data_dev;
  uint64_t size;
};

// The hash functions of a table, as kernels take them.
struct SketchHashes {
  int num_rows;
  uint32_t columns;
  CellHash rows[CountSketch::kMaxRows];

  SketchHashes(int num_rows, uint32_t columns, uint64_t seed);
  uint64_t num_cells() const { return static_cast<uint64_t>(num_rows) * columns; }
};

struct SketchBuffers {
  uint32_t* max_magnitude_dev;
  unsigned long long* counts_dev;  // Count of each cell, in units (cell_unit.h); modulo 2^64.
};

void TakeSketchBuffers(uint64_t num_cells, Workspace* workspace, SketchBuffers* buffers);

// Overwrites table_dev, with all cells, with the sketch of the parts, n elements end to end: the
// result of CountSketch::Insert, or NaN in all cells if an element is not finite.
Status InsertAll(const SketchHashes& hashes, Span<const DevicePart> parts, uint64_t n,
                 const SketchBuffers& buffers, float* table_dev, cudaStream_t stream);

// Overwrites estimates_dev with the estimates of the elements [0, n), as CountSketch::Estimate
// does.
Status EstimateAll(const SketchHashes& hashes, const float* table_dev, uint64_t n,
                   float* estimates_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_COUNT_SKETCH_H_
