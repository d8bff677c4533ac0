#include <cub/cub.cuh>
#include <iterator>

#include "core/host_device.h"
#include "cuda/cuda_status.h"
#include "cuda/scan.h"

namespace tfcompress {
namespace device {
namespace {

// Iterator over the counts and, behind them, 0: the last sum reads what nothing has written.
class CountsThenZero {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = uint64_t;
  using difference_type = int64_t;
  using pointer = const uint64_t*;
  using reference = uint64_t;

  TFC_HOST_DEVICE CountsThenZero(const uint64_t* counts, int64_t num_counts, int64_t i = 0)
      : counts_(counts), num_counts_(num_counts), i_(i) {}

  TFC_HOST_DEVICE uint64_t operator*() const { return i_ < num_counts_ ? counts_[i_] : 0; }
  TFC_HOST_DEVICE uint64_t operator[](int64_t i) const { return *(*this + i); }
  TFC_HOST_DEVICE CountsThenZero operator+(int64_t i) const {
    return {counts_, num_counts_, i_ + i};
  }

 private:
  const uint64_t* counts_;
  int64_t num_counts_;
  int64_t i_;
};

cudaError_t Scan(void* storage_dev, size_t* num_bytes, uint64_t* counts_dev, uint64_t num_counts,
                 cudaStream_t stream) {
  return cub::DeviceScan::ExclusiveSum(storage_dev, *num_bytes,
                                       CountsThenZero(counts_dev, static_cast<int64_t>(num_counts)),
                                       counts_dev, static_cast<int64_t>(num_counts + 1), stream);
}

}  // namespace

Status TakeScanStorage(uint64_t num_counts, Workspace* workspace, DeviceBuffer* storage) {
  TFC_RETURN_IF_ERROR(
      FromCuda(Scan(nullptr, &storage->num_bytes, nullptr, num_counts, nullptr), "size of a scan"));
  storage->data_dev = workspace->Take<unsigned char>(storage->num_bytes);
  return OkStatus();
}

Status ScanCounts(uint64_t* counts_dev, uint64_t num_counts, const DeviceBuffer& storage,
                  cudaStream_t stream) {
  size_t num_bytes = storage.num_bytes;
  return FromCuda(Scan(storage.data_dev, &num_bytes, counts_dev, num_counts, stream), "scan");
}

}  // namespace device
}  // namespace tfcompress
