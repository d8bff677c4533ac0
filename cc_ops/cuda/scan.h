// Exclusive prefix sums over the whole device: they give tiles their write positions.
#ifndef TFCOMPRESS_CUDA_SCAN_H_
#define TFCOMPRESS_CUDA_SCAN_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"

namespace tfcompress {
namespace device {

// Replaces each of counts_dev[0] ... counts_dev[num_counts] by the sum of those before it. The last
// one need not be set and becomes the total. One block does so: a count is that of a tile, so that
// even large vectors have few.
Status ScanCounts(uint64_t* counts_dev, uint64_t num_counts, cudaStream_t stream);
Status ScanCounts(uint32_t* counts_dev, uint64_t num_counts, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SCAN_H_
