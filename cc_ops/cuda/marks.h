// Marks: one bit an element, in tiles, so that what is marked can be listed in order. Every
// selection and every index codec goes through them or through such a list.
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

// The marks of n elements and, for each tile, first how many it has, then how many come before it;
// ends_dev has one more element, the number of all.
struct Marks {
  uint32_t n;
  uint32_t* words_dev;  // Whole tiles; bits from n on are 0.
  uint64_t* ends_dev;
  DeviceBuffer scan_storage;

  uint64_t num_tiles() const;
  // Where the number of all marks stands after a scan.
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

// Counts the marks of each tile; whoever marks whole tiles counts them at once.
Status CountMarks(const Marks& marks, cudaStream_t stream);
// From counts to ends.
Status ScanMarks(const Marks& marks, cudaStream_t stream);
// Lists the marked indices, ascending, once they are scanned, unless there are more than
// `capacity`. With `magnitudes_dev`, those of the elements of `dense` beside them.
Status ListMarks(const Marks& marks, uint64_t capacity, const DenseVector& dense,
                 uint32_t* indices_dev, uint32_t* magnitudes_dev, cudaStream_t stream);
// The same without magnitudes.
Status ListMarks(const Marks& marks, uint64_t capacity, uint32_t* indices_dev, cudaStream_t stream);
// Lists some of the marked indices: from the *first_dev-th on, counted from 0, as many as
// *count_dev or `count`, or as there are.
Status ListMarkedFrom(const Marks& marks, const uint64_t* first_dev, const uint32_t* count_dev,
                      uint32_t* indices_dev, cudaStream_t stream);
Status ListMarkedFrom(const Marks& marks, const uint64_t* first_dev, uint32_t count,
                      uint32_t* indices_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_MARKS_H_
