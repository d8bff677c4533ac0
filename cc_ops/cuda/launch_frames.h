// Launching kernels that work on frames side by side.
#ifndef TFCOMPRESS_CUDA_LAUNCH_FRAMES_H_
#define TFCOMPRESS_CUDA_LAUNCH_FRAMES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/encoded_frame.h"
#include "cuda/launch.h"
#include "cuda/parts.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {

// Threads of a frame's tiles, a warp for each.
inline uint64_t TileThreadsOf(const EncodedFrame& frame) {
  return NumTiles(frame.compensation.gradient.n) * kWarpThreads;
}

// Upper bound of a frame's support.
inline uint64_t MaxSupportOf(const EncodedFrame& frame) { return frame.max_k; }

// Upper bound of the values that a frame sends.
inline uint64_t MaxSentOf(const EncodedFrame& frame) { return frame.max_sent; }

// Adds up count(frame), the threads that each frame, or another part, has work for. A frame alone
// gets no more blocks than run at the same time.
template <typename T, typename Count>
PartItems CountFrameItems(const Parts<T>& frames, const Count& count) {
  PartItems items = CountItems(frames.on_host, count);
  if (frames.size() == 1) items.num_rounds = 1;
  return items;
}

// Makes one launch for all frames, with blockIdx.y for the frame.
template <typename... Parameters, typename T, typename Count, typename... Arguments>
Status LaunchFrames(const char* name, void (*kernel)(Parameters...), const Parts<T>& frames,
                    const Count& count, cudaStream_t stream, const Arguments&... arguments) {
  return LaunchParts(name, kernel, CountFrameItems(frames, count), frames.size(), stream,
                     frames.data_dev, arguments...);
}

// Makes one launch for all parts, with a warp for each, blockIdx.y.
template <typename T, typename... Parameters, typename... Arguments>
Status LaunchWarpForEach(const char* name, void (*kernel)(const T*, Parameters...),
                         const Parts<T>& parts, cudaStream_t stream,
                         const Arguments&... arguments) {
  return Launch(name, kernel, dim3(1, static_cast<unsigned>(parts.size())), kWarpThreads, stream,
                parts.data_dev, arguments...);
}

// Where a block finds what it works on. One: in the parameters of the kernel.
template <typename View>
struct One {
  View view;

  __device__ View Get() const { return view; }
};

// In the part of the block, of which View::Of makes it.
template <typename View, typename Part = EncodedFrame>
struct OfPart {
  const Part* parts_dev;

  __device__ View Get() const { return View::Of(parts_dev[blockIdx.y]); }
};

// Calls body(source) with the views of all frames; that of one alone needs fewer registers.
template <typename View, typename Body>
Status WithViews(const Parts<EncodedFrame>& frames, const Body& body) {
  if (frames.size() == 1) return body(One<View>{View::Of(frames.on_host[0])});
  return body(OfPart<View>{frames.data_dev});
}

// Makes one launch, with the views of all frames, of the kernel that kernel_of(source) returns.
template <typename View, typename KernelOf, typename Count, typename... Arguments>
Status LaunchViews(const char* name, const KernelOf& kernel_of, const Parts<EncodedFrame>& frames,
                   const Count& count, cudaStream_t stream, const Arguments&... arguments) {
  return WithViews<View>(frames, [&](const auto& source) {
    return LaunchParts(name, kernel_of(source), CountFrameItems(frames, count), frames.size(),
                       stream, source, arguments...);
  });
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_LAUNCH_FRAMES_H_
