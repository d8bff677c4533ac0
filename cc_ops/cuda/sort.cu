#include <algorithm>
#include <cub/cub.cuh>
#include <limits>

#include "core/bit_io.h"
#include "cuda/binary_search.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/sort.h"

namespace tfcompress {
namespace device {
namespace {

// Also sets keys from *end on to the greatest one, whose low bits are all set: these items stay
// behind all others.
__global__ void NumberItemsKernel(uint64_t num_items, const uint64_t* end, uint32_t* keys,
                                  uint32_t* positions) {
  for (uint64_t i = ThisThread(); i < num_items; i += NumThreads()) {
    positions[i] = static_cast<uint32_t>(i);
    if (i >= *end) keys[i] = 0xFFFFFFFFu;
  }
}

// Finds the part of the item that was at each position.
__global__ void NumberPartsKernel(uint64_t num_items, const uint32_t* positions,
                                  const uint64_t* begins, uint32_t num_parts,
                                  uint32_t* part_numbers) {
  for (uint64_t i = ThisThread(); i < num_items; i += NumThreads()) {
    const uint32_t position = positions[i];
    part_numbers[i] = static_cast<uint32_t>(
        FirstAfter(1, num_parts, [&](uint64_t part) { return begins[part] > position; }) - 1);
  }
}

__global__ void GatherKeysKernel(uint64_t num_items, const uint32_t* positions,
                                 const uint32_t* keys, uint32_t* gathered) {
  for (uint64_t i = ThisThread(); i < num_items; i += NumThreads())
    gathered[i] = keys[positions[i]];
}

// One of CUB's sorts; all are of one type, since each type takes long to compile.
struct Pass {
  const uint32_t* keys = nullptr;
  uint32_t* sorted_keys = nullptr;
  const uint32_t* positions = nullptr;
  uint32_t* sorted_positions = nullptr;
};

// Sets num_bytes if `storage_dev` is null.
cudaError_t SortPass(const Pass& pass, uint64_t num_items, int num_bits, void* storage_dev,
                     size_t* num_bytes, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(storage_dev, *num_bytes, pass.keys, pass.sorted_keys,
                                         pass.positions, pass.sorted_positions,
                                         static_cast<int64_t>(num_items), 0, num_bits, stream);
}

Status SortPass(const Pass& pass, uint64_t num_items, int num_bits, const DeviceBuffer& storage,
                cudaStream_t stream) {
  size_t num_bytes = storage.num_bytes;
  return FromCuda(SortPass(pass, num_items, num_bits, storage.data_dev, &num_bytes, stream),
                  "sort");
}

}  // namespace

Status TakeSortBuffers(Span<const SortSize> sorts, Workspace* workspace, SortBuffers* buffers) {
  constexpr uint64_t kMaxItems = std::numeric_limits<uint32_t>::max();
  uint64_t num_items = 0, num_items_of_parts = 0;
  buffers->storage.num_bytes = 0;
  for (const SortSize& sort : sorts) {
    if (sort.num_items > kMaxItems)
      return InvalidArgument("a device sorts up to ", kMaxItems, " items, got ", sort.num_items);
    num_items = std::max(num_items, sort.num_items);
    if (sort.num_parts > 1) num_items_of_parts = std::max(num_items_of_parts, sort.num_items);
    const int num_bits = std::max({sort.num_bits, BitsFor(sort.num_parts), 1});
    size_t num_bytes = 0;
    TFC_RETURN_IF_ERROR(FromCuda(
        SortPass({}, sort.num_items, num_bits, nullptr, &num_bytes, nullptr), "size of a sort"));
    buffers->storage.num_bytes = std::max(buffers->storage.num_bytes, num_bytes);
  }
  buffers->keys_dev = workspace->Take<uint32_t>(num_items);
  buffers->sorted_keys_dev = workspace->Take<uint32_t>(num_items);
  buffers->sorted_positions_dev = workspace->Take<uint32_t>(num_items);
  buffers->spare_dev = workspace->Take<uint32_t>(num_items);
  buffers->part_numbers_dev = workspace->Take<uint32_t>(num_items_of_parts);
  buffers->storage.data_dev = workspace->Take<unsigned char>(buffers->storage.num_bytes);
  return OkStatus();
}

Status Sort(const SortSize& size, const SortBuffers& buffers, const uint64_t* begins_dev,
            const uint64_t* end_dev, cudaStream_t stream) {
  const uint64_t num_items = size.num_items;
  if (num_items == 0) return OkStatus();
  const auto number = [&](uint32_t* positions_dev) {
    return LaunchThreads("number items", NumberItemsKernel, num_items, stream, num_items, end_dev,
                         buffers.keys_dev, positions_dev);
  };
  const auto sort = [&](const Pass& pass, int num_bits) {
    return SortPass(pass, num_items, num_bits, buffers.storage, stream);
  };
  uint32_t* const sorted_dev = buffers.sorted_keys_dev;
  if (size.num_parts == 1) {
    TFC_RETURN_IF_ERROR(number(buffers.spare_dev));
    return sort({buffers.keys_dev, sorted_dev, buffers.spare_dev, buffers.sorted_positions_dev},
                size.num_bits);
  }
  // All items by their keys, then by their parts: since each sort is stable, those of a part stay
  // sorted, and since the parts keep their sizes, each returns to its place.
  TFC_RETURN_IF_ERROR(number(buffers.sorted_positions_dev));
  TFC_RETURN_IF_ERROR(
      sort({buffers.keys_dev, sorted_dev, buffers.sorted_positions_dev, buffers.spare_dev},
           size.num_bits));
  TFC_RETURN_IF_ERROR(LaunchThreads("number parts", NumberPartsKernel, num_items, stream, num_items,
                                    buffers.spare_dev, begins_dev, size.num_parts, sorted_dev));
  TFC_RETURN_IF_ERROR(
      sort({sorted_dev, buffers.part_numbers_dev, buffers.spare_dev, buffers.sorted_positions_dev},
           BitsFor(size.num_parts)));
  return LaunchThreads("gather keys", GatherKeysKernel, num_items, stream, num_items,
                       buffers.sorted_positions_dev, buffers.keys_dev, sorted_dev);
}

}  // namespace device
}  // namespace tfcompress
