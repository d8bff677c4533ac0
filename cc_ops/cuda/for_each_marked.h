// Sets marks, visits the marked elements of a vector in order, and finds the place of one.
#ifndef TFCOMPRESS_CUDA_FOR_EACH_MARKED_H_
#define TFCOMPRESS_CUDA_FOR_EACH_MARKED_H_

#include <cstdint>

#include "cuda/launch.h"
#include "cuda/marks.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {

// Sets a mark; returns whether it was not set before.
__device__ inline bool SetMark(uint32_t index, uint32_t* words) {
  const uint32_t bit = 1u << (index % 32);
  return (atomicOr(&words[index / 32], bit) & bit) == 0;
}

// The number of marks before an index, after a scan.
__device__ inline uint64_t RankOf(uint32_t index, const Marks& marks) {
  uint64_t rank = marks.NumBefore(index / kTileElements);
  for (uint32_t word = index / kTileElements * kTileWords; word < index / 32; ++word)
    rank += static_cast<uint64_t>(__popc(marks.words_dev[word]));
  const uint32_t before = (1u << (index % 32)) - 1;
  return rank + static_cast<uint64_t>(__popc(marks.words_dev[index / 32] & before));
}

// Calls store(position, index, load(index)) for every mark, after a scan. The lanes of a warp take
// one word at a time, so that neighbouring lanes write to neighbouring positions.
template <typename Load, typename Store>
__device__ void ForEachMarked(const Marks& marks, const Load& load, const Store& store) {
  constexpr uint32_t kAtOnce = 8;  // Words whose marks are loaded before any is stored.
  const uint64_t num_tiles = marks.num_tiles();
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint64_t position = marks.NumBefore(tile);
    if (marks.NumBefore(tile + 1) == position) continue;
    const uint32_t own_word = marks.words_dev[tile * kTileWords + ThisLane()];
    const auto first = static_cast<uint32_t>(tile * kTileElements + ThisLane());
    for (uint32_t begin = 0; begin < kTileWords; begin += kAtOnce) {
      uint32_t words[kAtOnce], loaded[kAtOnce];
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        words[j] = __shfl_sync(kAllLanes, own_word, static_cast<int>(begin + j));
        loaded[j] = (words[j] >> ThisLane() & 1) != 0 ? load(first + (begin + j) * 32) : 0;
      }
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        if ((words[j] >> ThisLane() & 1) != 0)
          store(position + static_cast<uint64_t>(__popc(words[j] & LanesBefore())),
                first + (begin + j) * 32, loaded[j]);
        position += static_cast<uint64_t>(__popc(words[j]));
      }
    }
  }
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FOR_EACH_MARKED_H_
