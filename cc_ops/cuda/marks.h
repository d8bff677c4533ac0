// Marks: one bit for each element, in tiles, so that marked indices can be listed in order. Every
// selection and every index codec uses marks or such a list.
#ifndef TFCOMPRESS_CUDA_MARKS_H_
#define TFCOMPRESS_CUDA_MARKS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/seeded_permutation.h"
#include "core/status.h"
#include "cuda/dense_vector.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// The marks of n elements. ends_dev holds the number of marks in each tile and, after ScanMarks,
// the number before each tile, with one more element for the total.
struct Marks {
  uint32_t n;
  uint32_t* words_dev;  // Padded to whole tiles; bits from n on are 0.
  uint64_t* ends_dev;
  DeviceBuffer scan_storage;

  uint64_t num_tiles() const;
  // Address of the number of all marks after ScanMarks.
  const uint64_t* num_marked_dev() const { return ends_dev + num_tiles(); }
};

Status TakeMarks(uint32_t n, Workspace* workspace, Marks* marks);

// Removes all marks.
Status ClearMarks(const Marks& marks, cudaStream_t stream);
// Marks indices_dev[0] ... indices_dev[*k_dev - 1]; *k_dev is at most max_k.
Status MarkIndices(const uint32_t* indices_dev, const uint32_t* k_dev, uint32_t max_k,
                   const Marks& marks, cudaStream_t stream);
// Marks SeededSupport(n, k, seed).
Status MarkSeeded(const SeededPermutation& permutation, uint32_t k, const Marks& marks,
                  cudaStream_t stream);

// Counts the marks of each tile. Not needed after kernels that mark whole tiles: they count, too.
Status CountMarks(const Marks& marks, cudaStream_t stream);
// Replaces the counts of marks by the numbers before each tile.
Status ScanMarks(const Marks& marks, cudaStream_t stream);
// Lists the marked indices, ascending, after ScanMarks, unless there are more than `capacity`.
// Fills `magnitudes_dev`, if set, with the magnitudes of these elements of `dense`.
Status ListMarks(const Marks& marks, uint64_t capacity, const DenseVector& dense,
                 uint32_t* indices_dev, uint32_t* magnitudes_dev, cudaStream_t stream);
// The same without magnitudes.
Status ListMarks(const Marks& marks, uint64_t capacity, uint32_t* indices_dev, cudaStream_t stream);
// Lists the marked indices from the *first_dev-th on, counted from 0: at most *count_dev, or at
// most `count`, of them.
Status ListMarkedFrom(const Marks& marks, const uint64_t* first_dev, const uint32_t* count_dev,
                      uint32_t* indices_dev, cudaStream_t stream);
Status ListMarkedFrom(const Marks& marks, const uint64_t* first_dev, uint32_t count,
                      uint32_t* indices_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_MARKS_H_
