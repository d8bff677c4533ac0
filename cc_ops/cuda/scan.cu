#include <algorithm>

#include "cuda/block_scan.h"
#include "cuda/scan.h"

namespace tfcompress {
namespace device {
namespace {

constexpr unsigned kMostThreads = 1024;

template <typename T>
__global__ void __launch_bounds__(kMostThreads) ScanCountsKernel(T* counts, uint64_t num_counts) {
  __shared__ T warp_sums[kMostThreads / kWarpThreads];
  ScanByBlock(counts, num_counts, warp_sums);
}

template <typename T>
Status ScanByOneBlock(T* counts_dev, uint64_t num_counts, cudaStream_t stream) {
  const uint64_t num_warps = CeilDiv(num_counts + 1, kWarpThreads * kScanRows);
  const auto num_threads =
      static_cast<unsigned>(std::min<uint64_t>(num_warps * kWarpThreads, kMostThreads));
  return Launch("scan counts", ScanCountsKernel<T>, 1, num_threads, stream, counts_dev, num_counts);
}

}  // namespace

Status ScanCounts(uint64_t* counts_dev, uint64_t num_counts, cudaStream_t stream) {
  return ScanByOneBlock(counts_dev, num_counts, stream);
}

Status ScanCounts(uint32_t* counts_dev, uint64_t num_counts, cudaStream_t stream) {
  return ScanByOneBlock(counts_dev, num_counts, stream);
}

}  // namespace device
}  // namespace tfcompress
