// EncodePieces and EncodeSum on the device, but for what FrameEncoder does: it encodes the pieces
// of other ranks side by side, and sums with MemoryRule::kPlainSum. Bytes and slots of
// core/pieces.h.
#ifndef TFCOMPRESS_CUDA_PIECES_H_
#define TFCOMPRESS_CUDA_PIECES_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/span.h"
#include "core/status.h"
#include "cuda/memory_spec.h"

namespace tfcompress {
namespace device {

// The elements of a tensor that a rank sums.
struct Piece {
  size_t rank = 0;
  int64_t begin = 0;
  uint64_t n = 0;
};

// A tensor, divided among the ranks.
struct DividedTensor {
  std::vector<Piece> of_others;  // Those that have elements, in the order of ranks.
  Piece own;
};

// Fails with InvalidArgument for cuts that CheckCuts refuses.
Result<DividedTensor> Divide(const std::vector<int64_t>& cuts, int64_t own);

// The slots of a piece; `slots` are those of the whole tensor.
std::vector<DeviceSlot> SlotsOf(const Piece& piece, Span<const DeviceSlot> slots);

// Makes the own piece of the slots, finite or not; `gradient_dev` and `slots` are of the whole
// tensor. Fails with InvalidArgument if one is missing.
Status KeepOwn(const MemorySpec& memory, const float* gradient_dev, Span<const DeviceSlot> slots,
               const Piece& own, cudaStream_t stream);

// Adds the rank's own part to what the others sent, for compressors without a memory: EncodeSum
// before it encodes.
Status AddOwnPart(const float* own_dev, uint64_t n, float* sums_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_PIECES_H_
