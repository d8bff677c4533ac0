#include <cub/cub.cuh>

#include "cuda/cuda_status.h"
#include "cuda/scan.h"

namespace tfcompress {
namespace device {
namespace {

cudaError_t Scan(void* storage_dev, size_t* num_bytes, uint64_t* counts_dev, uint64_t num_items,
                 cudaStream_t stream) {
  return cub::DeviceScan::ExclusiveSum(storage_dev, *num_bytes, counts_dev, counts_dev,
                                       static_cast<int64_t>(num_items), stream);
}

}  // namespace

Status TakeScanStorage(uint64_t num_counts, Workspace* workspace, DeviceBuffer* storage) {
  TFC_RETURN_IF_ERROR(FromCuda(Scan(nullptr, &storage->num_bytes, nullptr, num_counts + 1, nullptr),
                               "size of a scan"));
  storage->data_dev = workspace->Take<unsigned char>(storage->num_bytes);
  return OkStatus();
}

Status ScanCounts(uint64_t* counts_dev, uint64_t num_counts, const DeviceBuffer& storage,
                  cudaStream_t stream) {
  size_t num_bytes = storage.num_bytes;
  return FromCuda(Scan(storage.data_dev, &num_bytes, counts_dev, num_counts + 1, stream), "scan");
}

}  // namespace device
}  // namespace tfcompress
