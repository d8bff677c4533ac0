// How many blocks of a kernel a device runs at the same time.
#ifndef TFCOMPRESS_CUDA_RESIDENT_BLOCKS_H_
#define TFCOMPRESS_CUDA_RESIDENT_BLOCKS_H_

#include <cstdint>

#include "core/status.h"

namespace tfcompress {
namespace device {

// Threads of a block of the kernels that loop over items.
inline constexpr unsigned kBlockThreads = 256;

// Blocks of kBlockThreads threads of a kernel without dynamic shared memory, on the current device.
// Occupancies are kept: the runtime takes microseconds to compute one.
Status ResidentBlocks(const void* kernel, uint64_t* num_blocks);

// Fails with InvalidArgument if the build has no code for the current device, on which no kernel
// can be launched then: whoever makes an encoder or a decoder is told before, and can use the core.
Status CheckHasCode();

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_RESIDENT_BLOCKS_H_
