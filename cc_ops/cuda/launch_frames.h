// Launching kernels that work on frames side by side.
#ifndef TFCOMPRESS_CUDA_LAUNCH_FRAMES_H_
#define TFCOMPRESS_CUDA_LAUNCH_FRAMES_H_

#include <cuda_runtime.h>

#include "core/status.h"
#include "cuda/encoded_frame.h"
#include "cuda/launch.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

// Adds up count(frame), the threads that each frame has work for. A frame alone gets no more blocks
// than run at the same time.
template <typename Count>
PartItems CountFrameItems(const Parts<EncodedFrame>& frames, const Count& count) {
  PartItems items = CountItems(frames.on_host, count);
  if (frames.size() == 1) items.num_rounds = 1;
  return items;
}

// Makes one launch for all frames, with blockIdx.y for the frame.
template <typename... Parameters, typename Count, typename... Arguments>
Status LaunchFrames(const char* name, void (*kernel)(Parameters...),
                    const Parts<EncodedFrame>& frames, const Count& count, cudaStream_t stream,
                    const Arguments&... arguments) {
  return LaunchParts(name, kernel, CountFrameItems(frames, count), frames.size(), stream,
                     frames.data_dev, arguments...);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_LAUNCH_FRAMES_H_
