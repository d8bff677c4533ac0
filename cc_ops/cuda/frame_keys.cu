#include "cuda/frame_keys.h"
#include "cuda/launch.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// One warp: a frame has little to place.
__global__ void PlaceKeysKernel(const EncodedFrame* frames, uint64_t num_frames, FrameKeys keys) {
  const KeyLists& lists = keys.lists;
  uint32_t num_tiles = 0;
  for (uint64_t row = 0; row < num_frames; row += kWarpThreads) {
    const uint64_t i = row + ThisLane();
    const bool exists = i < num_frames;
    const uint32_t size = exists ? frames[i].state_dev->k : 0;
    const auto own = static_cast<uint32_t>(CeilDiv(size, KeyLists::kKeysPerTile));
    const uint32_t up_to_own = InclusiveSum(own);
    if (exists) {
      lists.begins_dev[i] = static_cast<uint32_t>(frames[i].support_dev - frames[0].support_dev);
      lists.sizes_dev[i] = size;
      lists.first_tiles_dev[i] = num_tiles + up_to_own - own;
      keys.code_begins_dev[i] = sizeof(uint32_t) * static_cast<uint64_t>(frames[i].code_words_dev -
                                                                         frames[0].code_words_dev);
    }
    num_tiles += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
  }
  if (ThisLane() == 0) lists.first_tiles_dev[num_frames] = num_tiles;
}

}  // namespace

void TakeFrameKeys(uint32_t num_frames, uint32_t max_keys, Workspace* workspace, FrameKeys* keys) {
  keys->lists = TakeKeyLists(num_frames, max_keys, workspace);
  keys->code_begins_dev = workspace->Take<uint64_t>(num_frames);
  keys->num_bytes_dev = workspace->Take<uint64_t>(num_frames);
}

Status PlaceFrameKeys(const Parts<EncodedFrame>& frames, const FrameKeys& keys,
                      cudaStream_t stream) {
  if (frames.size() == 1) return OkStatus();
  return Launch("place keys", PlaceKeysKernel, 1, kWarpThreads, stream, frames.data_dev,
                frames.size(), keys);
}

KeyLists ListsOf(const Parts<EncodedFrame>& frames, const FrameKeys& keys) {
  if (frames.size() > 1) return keys.lists;
  return KeyLists::One(&frames.on_host[0].state_dev->k, keys.lists.max_keys);
}

}  // namespace device
}  // namespace tfcompress
