#include "cuda/bloom_parts.h"
#include "cuda/for_each_marked.h"
#include "cuda/launch.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// 32 bits of a filter from `start` on, the first ones after the last.
__device__ uint32_t BitsFrom(const unsigned char* filter, uint32_t num_bits, uint32_t start) {
  uint32_t bits = 0;
  if (uint64_t{start} + 40 <= num_bits) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 5; ++i) bytes |= uint64_t{filter[start / 8 + i]} << (8 * i);
    return static_cast<uint32_t>(bytes >> (start % 8));
  }
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t up_to_end = num_bits - start;
    const uint32_t bit = i < up_to_end ? start + i : i - up_to_end;
    bits |= static_cast<uint32_t>(filter[bit / 8] >> (bit % 8) & 1) << i;
  }
  return bits;
}

// Which of the 32 elements from `index` on the filter contains; none if the filter has no bits.
// `index` is a multiple of 32.
__device__ uint32_t Contained(const unsigned char* filter, const BloomShape& shape,
                              const SeededHash& hash_of, uint32_t index) {
  if (shape.num_bits == 0) return 0;
  uint32_t contained = 0xFFFFFFFFu;
  VisitBloomStarts(hash_of(index / kBloomBlockKeys), shape, [&](uint32_t start) {
    contained &= BitsFrom(filter, shape.num_bits, BloomBit(start, index, shape.num_bits));
    return contained != 0;
  });
  return contained;
}

// Marks and counts the positives in the universe.
__global__ void QueryKernel(const BloomPart* parts) {
  const BloomPart& part = parts[blockIdx.y];
  const unsigned char* const filter = part.filter_dev;
  const BloomShape shape = part.shape;
  const SeededHash hash_of(part.seed);
  const Marks marks = part.marks;
  for (uint64_t tile = ThisWarp(); tile < marks.num_tiles(); tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane() * 32;
    uint32_t word = 0;
    if (first < marks.n) {
      word = Contained(filter, shape, hash_of, static_cast<uint32_t>(first));
      if (marks.n - first < 32) word &= (1u << (marks.n - first)) - 1;
    }
    marks.words_dev[tile * kTileWords + ThisLane()] = word;
    __syncwarp();
    const uint32_t count = SumOfLanes(static_cast<uint32_t>(__popc(word)));
    if (ThisLane() == 0) marks.ends_dev[tile] = count;
  }
}

__global__ void ListChosenKernel(const BloomPart* parts) {
  const BloomPart& part = parts[blockIdx.y];
  if (part.k == 0 || ChoosesByPriority(part.policy)) return;
  const uint64_t begin = part.first;
  const uint64_t end = begin + part.k;
  uint32_t* const chosen = part.chosen_dev;
  ForEachMarked(
      part.marks, [](uint32_t) { return 0u; },
      [&](uint64_t position, uint32_t index, uint32_t) {
        if (position >= begin && position < end) chosen[position - begin] = index;
      });
}

}  // namespace

Status MarkPositives(const BloomParts& parts, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(
      LaunchParts("query", QueryKernel, parts.words, parts.count, stream, parts.data_dev));
  return ScanMarks(parts.marks, stream);
}

Status ListChosen(const BloomParts& parts, cudaStream_t stream) {
  return LaunchParts("list chosen", ListChosenKernel, parts.words, parts.count, stream,
                     parts.data_dev);
}

}  // namespace device
}  // namespace tfcompress
