#include <utility>

#include "core/float_order.h"
#include "core/sketch/cell_unit.h"
#include "cuda/count_sketch.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void MaxMagnitudeKernel(DevicePart part, uint32_t* max_magnitude) {
  uint32_t max = 0;
  for (uint64_t i = ThisThread(); i < part.size; i += NumThreads()) {
    const uint32_t magnitude = MagnitudeBits(part.data_dev[i]);
    if (magnitude > max) max = magnitude;
  }
  max = MaxOfLanes(max);
  if (ThisLane() == 0) atomicMax(max_magnitude, max);
}

// Adds the elements of a part, which begins at element `first` of n. Goes row by row, so that the
// cells of a row stay in the cache.
__global__ void InsertKernel(SketchHashes hashes, DevicePart part, uint64_t first, uint64_t n,
                             const uint32_t* max_magnitude, unsigned long long* counts) {
  if (!IsFiniteBits(*max_magnitude)) return;
  const CellUnit unit(*max_magnitude, n);
  for (int row = 0; row < hashes.num_rows; ++row) {
    const CellHash hash = hashes.rows[row];
    for (uint64_t i = ThisThread(); i < part.size; i += NumThreads()) {
      const SignedCell cell = hash(first + i);
      const int64_t count = unit.CountOf(WithSignOf(cell, part.data_dev[i]));
      if (count != 0) atomicAdd(&counts[ColumnOf(cell)], static_cast<unsigned long long>(count));
    }
    counts += hashes.columns;
  }
}

__global__ void WriteCellsKernel(const unsigned long long* counts, uint64_t num_cells, uint64_t n,
                                 const uint32_t* max_magnitude, float* table) {
  const bool finite = IsFiniteBits(*max_magnitude);
  const CellUnit unit(*max_magnitude, n);
  for (uint64_t i = ThisThread(); i < num_cells; i += NumThreads()) {
    table[i] =
        finite ? unit.ValueOf(static_cast<int64_t>(counts[i])) : FloatFromBits(kFloatNaNBits);
  }
}

// Sorts two keys.
__device__ inline void SortPair(int32_t* low, int32_t* high) {
  const int32_t a = *low, b = *high;
  *low = a < b ? a : b;
  *high = a < b ? b : a;
}

// Moves the largest of the given keys to their end.
template <size_t... kKeys>
__device__ inline void BubbleUp(int32_t* keys, std::index_sequence<kKeys...>) {
  (SortPair(&keys[kKeys], &keys[kKeys + 1]), ...);
}

// Moves the largest keys to the end, down to position kMiddle. Recursive instead of a loop, so that
// all keys stay in registers.
template <int kLast, int kMiddle>
__device__ inline void SortFrom(int32_t* keys) {
  if constexpr (kLast >= kMiddle && kLast > 0) {
    BubbleUp(keys, std::make_index_sequence<kLast>());
    SortFrom<kLast - 1, kMiddle>(keys);
  }
}

// The estimate of an element in a row, as a sortable integer. Rows that the table does not have
// give as many lowest as highest numbers, which leave the median unchanged.
__device__ inline int32_t KeyOf(const SketchHashes& hashes, const float* table, uint64_t i,
                                int row) {
  constexpr int32_t kLowest = INT32_MIN, kHighest = INT32_MAX;
  if (row >= hashes.num_rows) return row % 2 != 0 ? kLowest : kHighest;
  const SignedCell cell = hashes.rows[row](i);
  const float value =
      WithSignOf(cell, table[static_cast<uint64_t>(row) * hashes.columns + ColumnOf(cell)]);
  return ToSortable(static_cast<int32_t>(FloatBits(value)));
}

template <size_t... kRows>
__device__ inline void ReadKeys(const SketchHashes& hashes, const float* table, uint64_t i,
                                int32_t* keys, std::index_sequence<kRows...>) {
  ((keys[kRows] = KeyOf(hashes, table, i, static_cast<int>(kRows))), ...);
}

// For tables of up to kMaxRows rows; kMaxRows is odd.
template <int kMaxRows>
__global__ void __launch_bounds__(kBlockThreads)
    EstimateKernel(SketchHashes hashes, const float* table, uint64_t n, float* estimates) {
  for (uint64_t i = ThisThread(); i < n; i += NumThreads()) {
    int32_t keys[kMaxRows];
    ReadKeys(hashes, table, i, keys, std::make_index_sequence<kMaxRows>());
    SortFrom<kMaxRows - 1, kMaxRows / 2>(keys);
    estimates[i] = FloatFromBits(static_cast<uint32_t>(ToSortable(keys[kMaxRows / 2])));
  }
}

}  // namespace

SketchHashes::SketchHashes(int num_rows, uint32_t columns, uint64_t seed)
    : num_rows(num_rows), columns(columns) {
  for (int row = 0; row < num_rows; ++row) rows[row] = CellHash(seed, row, columns);
}

void TakeSketchBuffers(uint64_t num_cells, Workspace* workspace, SketchBuffers* buffers) {
  buffers->max_magnitude_dev = workspace->Take<uint32_t>(1);
  buffers->counts_dev = workspace->Take<unsigned long long>(num_cells);
}

Status InsertAll(const SketchHashes& hashes, Span<const DevicePart> parts, uint64_t n,
                 const SketchBuffers& buffers, float* table_dev, cudaStream_t stream) {
  const uint64_t num_cells = hashes.num_cells();
  TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(buffers.max_magnitude_dev, 0, sizeof(uint32_t), stream));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.counts_dev, 0, num_cells * sizeof(unsigned long long), stream));
  for (const DevicePart& part : parts) {
    TFC_RETURN_IF_ERROR(LaunchThreads("max magnitude", MaxMagnitudeKernel, part.size, stream, part,
                                      buffers.max_magnitude_dev));
  }
  uint64_t first = 0;
  for (const DevicePart& part : parts) {
    TFC_RETURN_IF_ERROR(LaunchThreads("insert elements", InsertKernel, part.size, stream, hashes,
                                      part, first, n, buffers.max_magnitude_dev,
                                      buffers.counts_dev));
    first += part.size;
  }
  return LaunchThreads("write cells", WriteCellsKernel, num_cells, stream, buffers.counts_dev,
                       num_cells, n, buffers.max_magnitude_dev, table_dev);
}

Status EstimateAll(const SketchHashes& hashes, const float* table_dev, uint64_t n,
                   float* estimates_dev, cudaStream_t stream) {
  const auto kernel = hashes.num_rows <= 5    ? EstimateKernel<5>
                      : hashes.num_rows <= 11 ? EstimateKernel<11>
                                              : EstimateKernel<CountSketch::kMaxRows>;
  return LaunchThreads("estimate", kernel, n, stream, hashes, table_dev, n, estimates_dev);
}

}  // namespace device
}  // namespace tfcompress
