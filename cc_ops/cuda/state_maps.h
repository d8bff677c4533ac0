// In which state an automaton reaches each of a chain of tiles, when every tile says where it takes
// each of a few states to. The maps of 32 tiles in a row are composed to one, those again, until a
// warp can follow what is left; then each group tells its members where they begin. No step is
// longer than a group, however long the chain is.
#ifndef TFCOMPRESS_CUDA_STATE_MAPS_H_
#define TFCOMPRESS_CUDA_STATE_MAPS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

inline constexpr uint32_t kMaxMapStates = 64;
inline constexpr uint32_t kMapWords = kMaxMapStates / 4;

struct StateMaps {
  uint32_t* maps_dev;   // See MapOf: of the tiles, then of groups of them, then of groups of those.
  uint8_t* states_dev;  // For each map, the state that reaches it; those of the tiles come first.
};

// A byte for each state: what the tile, or group, makes of it.
__device__ inline uint8_t* MapOf(uint32_t* maps, uint64_t i) {
  return reinterpret_cast<uint8_t*>(maps + i * kMapWords);
}

void TakeStateMaps(uint64_t max_tiles, Workspace* workspace, StateMaps* maps);

// Sets the states of the tiles from their maps: of states below *num_states_dev <= kMaxMapStates,
// to such states. State 0 reaches the first tile. Does nothing where *error_dev is set.
Status FollowMaps(uint64_t num_tiles, const uint32_t* num_states_dev, const StateMaps& maps,
                  const uint32_t* error_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_STATE_MAPS_H_
