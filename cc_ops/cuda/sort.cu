#include <cub/cub.cuh>

#include "cuda/cuda_status.h"
#include "cuda/sort.h"

namespace tfcompress {
namespace device {
namespace {

cudaError_t SortItems(const SortBuffers& buffers, bool has_payloads, void* storage_dev,
                      size_t* num_bytes, cudaStream_t stream) {
  const auto num_items = static_cast<int64_t>(buffers.num_items);
  if (!has_payloads) {
    return cub::DeviceRadixSort::SortKeys(storage_dev, *num_bytes, buffers.keys_dev,
                                          buffers.sorted_keys_dev, num_items, 0, buffers.num_bits,
                                          stream);
  }
  return cub::DeviceRadixSort::SortPairs(
      storage_dev, *num_bytes, buffers.keys_dev, buffers.sorted_keys_dev, buffers.payloads_dev,
      buffers.sorted_payloads_dev, num_items, 0, buffers.num_bits, stream);
}

}  // namespace

Status TakeSortBuffers(uint64_t num_items, int num_bits, bool has_payloads, Workspace* workspace,
                       SortBuffers* buffers) {
  *buffers = {num_items, num_bits, nullptr, nullptr, nullptr, nullptr, {}};
  TFC_RETURN_IF_ERROR(
      FromCuda(SortItems(*buffers, has_payloads, nullptr, &buffers->storage.num_bytes, nullptr),
               "size of a sort"));
  buffers->keys_dev = workspace->Take<uint32_t>(num_items);
  buffers->sorted_keys_dev = workspace->Take<uint32_t>(num_items);
  if (has_payloads) {
    buffers->payloads_dev = workspace->Take<uint32_t>(num_items);
    buffers->sorted_payloads_dev = workspace->Take<uint32_t>(num_items);
  }
  buffers->storage.data_dev = workspace->Take<unsigned char>(buffers->storage.num_bytes);
  return OkStatus();
}

Status Sort(const SortBuffers& buffers, cudaStream_t stream) {
  if (buffers.num_items == 0) return OkStatus();
  size_t num_bytes = buffers.storage.num_bytes;
  return FromCuda(SortItems(buffers, buffers.payloads_dev != nullptr, buffers.storage.data_dev,
                            &num_bytes, stream),
                  "sort");
}

}  // namespace device
}  // namespace tfcompress
