// Copies frames to packets by one kernel, which reads their lengths on the device: a host that does
// not know them need not wait for them first, and many small frames take one launch.
#ifndef TFCOMPRESS_CUDA_FRAME_COPIES_H_
#define TFCOMPRESS_CUDA_FRAME_COPIES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;

// Where a frame of several is copied to.
struct FramePlace {
  unsigned char* packet;  // Null: nowhere.
  uint32_t first_frame;   // Of the packet; those from it up to this one come before this one.
};

// Where packets are.
enum class PacketMemory { kDevice, kPinnedHost };

// Copies complete frames, one to each place. The packets have room for them. `words` counts those
// of the longest frames, from which the sizes of launches follow.
Status CopyFrames(const EncodedFrame* frames_dev, Span<const FramePlace> places,
                  PacketMemory memory, const PartItems& words, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_COPIES_H_
