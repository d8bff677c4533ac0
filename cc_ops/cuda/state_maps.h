// Finds the state in which an automaton reaches each tile of a chain, given for every tile a map
// from the state at its begin to the state at its end, over a few states. The maps of 32
// consecutive tiles are composed to one, repeatedly, until one warp can follow the rest; then each
// group gives its members their first states. No sequential step is longer than a group, whatever
// the length of the chain.
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
  uint32_t* maps_dev;   // See MapOf: maps of tiles, then of groups, then of groups of groups.
  uint8_t* states_dev;  // For each map, the state at its begin; those of the tiles come first.
};

// One byte for each state: the state at the end of the tile or group.
__device__ inline uint8_t* MapOf(uint32_t* maps, uint64_t i) {
  return reinterpret_cast<uint8_t*>(maps + i * kMapWords);
}

void TakeStateMaps(uint64_t max_tiles, Workspace* workspace, StateMaps* maps);

// Sets the states of the tiles from their maps. States are below *num_states_dev <= kMaxMapStates;
// the first tile begins in state 0. Does nothing if *error_dev is set.
Status FollowMaps(uint64_t num_tiles, const uint32_t* num_states_dev, const StateMaps& maps,
                  const uint32_t* error_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_STATE_MAPS_H_
