#include <algorithm>

#include "core/codec.h"
#include "core/pieces.h"
#include "cuda/compensate.h"
#include "cuda/launch.h"
#include "cuda/pieces.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void AddKernel(const float* own, uint64_t n, float* sums) {
  for (uint64_t i = ThisThread(); i < n; i += NumThreads()) sums[i] += own[i];
}

}  // namespace

Result<DividedTensor> Divide(const std::vector<int64_t>& cuts, int64_t own) {
  TFC_RETURN_IF_ERROR(CheckCuts(cuts, cuts.empty() ? 0 : static_cast<uint64_t>(cuts.back())));
  DividedTensor divided;
  for (size_t rank = 0; rank + 1 < cuts.size(); ++rank) {
    const Piece piece = {rank, cuts[rank], static_cast<uint64_t>(cuts[rank + 1] - cuts[rank])};
    if (static_cast<int64_t>(rank) == own) {
      TFC_RETURN_IF_ERROR(CheckNumElements("piece", piece.n));
      divided.own = piece;
    } else if (piece.n > 0) {
      divided.of_others.push_back(piece);
    }
  }
  return divided;
}

std::vector<DeviceSlot> SlotsOf(const Piece& piece, Span<const DeviceSlot> slots) {
  std::vector<DeviceSlot> of_piece;
  for (const DeviceSlot& slot : slots)
    of_piece.push_back({slot.before_dev + piece.begin, slot.after_dev + piece.begin});
  return of_piece;
}

Status KeepOwn(const MemorySpec& memory, const float* gradient_dev, Span<const DeviceSlot> slots,
               const Piece& own, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(CheckVectors(memory, gradient_dev, slots, own.n));
  if (own.n == 0 || memory.kind == MemoryKind::kNone) return OkStatus();
  EncodedFrame piece = AsTheyAre(gradient_dev + own.begin, own.n, nullptr);
  piece.compensation.memory = memory;
  const std::vector<DeviceSlot> of_own = SlotsOf(own, slots);
  std::copy(of_own.begin(), of_own.end(), piece.compensation.slots);
  return Settle(Alone(piece), /*notes_nonfinite=*/false, stream);
}

Status AddOwnPart(const float* own_dev, uint64_t n, float* sums_dev, cudaStream_t stream) {
  return LaunchThreads("add own part", AddKernel, n, stream, own_dev, n, sums_dev);
}

}  // namespace device
}  // namespace tfcompress
