#include <algorithm>

#include "cuda/block_scan.h"
#include "cuda/scan.h"

namespace tfcompress {
namespace device {
namespace {

constexpr unsigned kMostThreads = 1024;

__global__ void __launch_bounds__(kMostThreads)
    ScanCountsKernel(uint64_t* counts, uint64_t num_counts) {
  __shared__ uint64_t warp_sums[kMostThreads / kWarpThreads];
  ScanByBlock(counts, num_counts, warp_sums);
}

}  // namespace

Status ScanCounts(uint64_t* counts_dev, uint64_t num_counts, cudaStream_t stream) {
  const uint64_t num_warps = CeilDiv(num_counts + 1, kWarpThreads * kScanRows);
  const auto num_threads =
      static_cast<unsigned>(std::min<uint64_t>(num_warps * kWarpThreads, kMostThreads));
  return Launch("scan counts", ScanCountsKernel, 1, num_threads, stream, counts_dev, num_counts);
}

}  // namespace device
}  // namespace tfcompress
