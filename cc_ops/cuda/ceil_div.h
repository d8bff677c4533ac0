// Division that rounds up.
#ifndef TFCOMPRESS_CUDA_CEIL_DIV_H_
#define TFCOMPRESS_CUDA_CEIL_DIV_H_

#include <cstdint>

#include "core/host_device.h"

namespace tfcompress {
namespace device {

TFC_HOST_DEVICE inline uint64_t CeilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CEIL_DIV_H_
