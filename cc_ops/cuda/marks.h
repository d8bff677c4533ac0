// Marks: one bit for each element, in tiles, so that marked indices can be listed in order. Every
// selection and every index codec uses marks or such a list.
#ifndef TFCOMPRESS_CUDA_MARKS_H_
#define TFCOMPRESS_CUDA_MARKS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "core/seeded_permutation.h"
#include "core/status.h"
#include "cuda/parts.h"
#include "cuda/tiles.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;
struct SupportSection;

// Those of n elements, or, together, of vectors side by side, each padded to whole tiles. ends_dev
// holds the number of marks in each tile and, after a scan, the number before each tile, with one
// more element behind the last. Tiles of vectors side by side lie end to end and are scanned
// together: the numbers of each begin with ends_dev[0].
struct Marks {
  uint64_t n;
  uint32_t* words_dev;  // Padded to whole tiles; bits from n on are 0.
  uint64_t* ends_dev;

  TFC_HOST_DEVICE uint64_t num_tiles() const { return NumTiles(n); }
  // The numbers of marks before a tile, and of all, after a scan.
  __device__ uint64_t NumBefore(uint64_t tile) const { return ends_dev[tile] - ends_dev[0]; }
  __device__ uint64_t NumMarked() const { return NumBefore(num_tiles()); }
  // The marks of a vector of `size` elements, from a tile on. Scanning them alone overwrites the
  // first number of what follows.
  Marks Slice(uint64_t first_tile, uint64_t size) const;
};

void TakeMarks(uint64_t n, Workspace* workspace, Marks* marks);

// Removes all marks.
Status ClearMarks(const Marks& marks, cudaStream_t stream);
// Marks the support of each frame.
Status MarkSupports(const Parts<EncodedFrame>& frames, cudaStream_t stream);
// Marks SeededSupport(n, k, seed).
Status MarkSeeded(const SeededPermutation& permutation, uint32_t k, const Marks& marks,
                  cudaStream_t stream);
// Marks the seeded support of each frame, of its known size, or of each section.
Status MarkSeeds(const Parts<EncodedFrame>& frames, cudaStream_t stream);
Status MarkSeeds(const Parts<SupportSection>& sections, cudaStream_t stream);

// Counts the marks of each tile. Not needed after kernels that mark whole tiles: they count, too.
Status CountMarks(const Marks& marks, cudaStream_t stream);
// Replaces the counts of marks by the numbers before each tile.
Status ScanMarks(const Marks& marks, cudaStream_t stream);
// Lists the marked indices, ascending, after ScanMarks, unless there are more than `capacity`.
Status ListMarks(const Marks& marks, uint64_t capacity, uint32_t* indices_dev, cudaStream_t stream);
// Lists the marked indices of each frame as its support.
Status ListSupports(const Parts<EncodedFrame>& frames, cudaStream_t stream);
// Lists those of each section, unless there are more than its k.
Status ListMarks(const Parts<SupportSection>& sections, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_MARKS_H_
