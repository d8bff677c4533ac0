#include "cuda/code_walk.h"
#include "cuda/launch.h"
#include "cuda/state_maps.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kGroupMaps = kWarpThreads;

// The maps of a group in shared memory, where following them sequentially is fast.
class GroupOfMaps {
 public:
  // Loads the maps. Called by all lanes; `space` is shared memory of this warp.
  __device__ GroupOfMaps(const uint32_t* maps, uint64_t num_maps, uint64_t group, uint32_t* space)
      : states_(reinterpret_cast<const uint8_t*>(space)) {
    const uint64_t first = group * kGroupMaps;
    size_ = num_maps - first < kGroupMaps ? static_cast<uint32_t>(num_maps - first) : kGroupMaps;
    __syncwarp();
    for (uint32_t i = ThisLane(); i < size_ * kMapWords; i += kWarpThreads)
      space[i] = maps[first * kMapWords + i];
    __syncwarp();
  }

  __device__ uint32_t size() const { return size_; }
  __device__ uint32_t After(uint32_t i, uint32_t state) const {
    return states_[i * kMaxMapStates + state];
  }

 private:
  const uint8_t* states_;
  uint32_t size_;
};

__global__ void ComposeMapsKernel(const uint32_t* maps, uint64_t num_maps,
                                  const uint32_t* num_states, const uint32_t* error,
                                  uint32_t* composed) {
  __shared__ uint32_t spaces[kBlockWarps][kGroupMaps * kMapWords];
  if (HasError(error)) return;
  const uint64_t num_groups = CeilDiv(num_maps, kGroupMaps);
  for (uint64_t group = ThisWarp(); group < num_groups; group += NumWarps()) {
    const GroupOfMaps members(maps, num_maps, group, spaces[threadIdx.x / kWarpThreads]);
    for (uint32_t begin = ThisLane(); begin < *num_states; begin += kWarpThreads) {
      uint32_t state = begin;
      for (uint32_t i = 0; i < members.size(); ++i) state = members.After(i, state);
      MapOf(composed, group)[begin] = static_cast<uint8_t>(state);
    }
  }
}

// `begins` are the states at the begins of the groups; null if there is one group, which begins in
// state 0. All lanes follow the same state.
__global__ void FollowMapsKernel(const uint32_t* maps, uint64_t num_maps, const uint8_t* begins,
                                 const uint32_t* error, uint8_t* states) {
  __shared__ uint32_t spaces[kBlockWarps][kGroupMaps * kMapWords];
  if (HasError(error)) return;
  const uint64_t num_groups = CeilDiv(num_maps, kGroupMaps);
  for (uint64_t group = ThisWarp(); group < num_groups; group += NumWarps()) {
    const GroupOfMaps members(maps, num_maps, group, spaces[threadIdx.x / kWarpThreads]);
    uint32_t state = begins == nullptr ? 0 : begins[group];
    for (uint32_t i = 0; i < members.size(); ++i) {
      if (ThisLane() == i) states[group * kGroupMaps + i] = static_cast<uint8_t>(state);
      state = members.After(i, state);
    }
  }
}

// Follows the num_maps maps from `first` on.
Status FollowLevel(uint64_t first, uint64_t num_maps, const uint32_t* num_states_dev,
                   const StateMaps& maps, const uint32_t* error_dev, cudaStream_t stream) {
  const uint32_t* level_dev = maps.maps_dev + first * kMapWords;
  const uint64_t num_groups = CeilDiv(num_maps, kGroupMaps);
  const uint64_t next = first + num_maps;
  const bool is_top = num_groups <= 1;
  if (!is_top) {
    TFC_RETURN_IF_ERROR(LaunchWarps("compose maps", ComposeMapsKernel, num_groups, stream,
                                    level_dev, num_maps, num_states_dev, error_dev,
                                    maps.maps_dev + next * kMapWords));
    TFC_RETURN_IF_ERROR(FollowLevel(next, num_groups, num_states_dev, maps, error_dev, stream));
  }
  return LaunchWarps("follow maps", FollowMapsKernel, num_groups, stream, level_dev, num_maps,
                     is_top ? nullptr : maps.states_dev + next, error_dev, maps.states_dev + first);
}

}  // namespace

void TakeStateMaps(uint64_t max_tiles, Workspace* workspace, StateMaps* maps) {
  uint64_t num_maps = max_tiles;
  for (uint64_t level = max_tiles; level > kGroupMaps;) {
    level = CeilDiv(level, kGroupMaps);
    num_maps += level;
  }
  maps->maps_dev = workspace->Take<uint32_t>(num_maps * kMapWords);
  maps->states_dev = workspace->Take<uint8_t>(num_maps);
}

Status FollowMaps(uint64_t num_tiles, const uint32_t* num_states_dev, const StateMaps& maps,
                  const uint32_t* error_dev, cudaStream_t stream) {
  return FollowLevel(0, num_tiles, num_states_dev, maps, error_dev, stream);
}

}  // namespace device
}  // namespace tfcompress
