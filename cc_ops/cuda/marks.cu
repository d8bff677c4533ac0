#include "core/collect.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/marks.h"
#include "cuda/scan.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

__device__ void Mark(uint32_t index, uint32_t* words) {
  atomicOr(&words[index / 32], 1u << (index % 32));
}

__global__ void MarkIndicesKernel(const uint32_t* indices, const uint32_t* k, uint32_t* words) {
  for (uint64_t i = ThisThread(); i < *k; i += NumThreads()) Mark(indices[i], words);
}

__global__ void MarkSeededKernel(SeededPermutation permutation, uint32_t k, uint32_t* words) {
  for (uint64_t i = ThisThread(); i < k; i += NumThreads())
    Mark(permutation(static_cast<uint32_t>(i)), words);
}

__global__ void CountMarksKernel(const uint32_t* words, uint64_t num_tiles, uint64_t* counts) {
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    const uint32_t count = SumOfLanes(__popc(words[tile * kTileWords + ThisLane()]));
    if (ThisLane() == 0) counts[tile] = count;
  }
}

// Words whose marks are loaded before any is stored, so that the loads overlap.
constexpr uint32_t kAtOnce = 8;

// Calls store(position, index, load(index)) for every mark. The lanes of a warp take one word at a
// time, so that neighbouring lanes write to neighbouring positions.
template <typename Load, typename Store>
__device__ void ForEachMarked(const uint32_t* words, const uint64_t* ends, uint64_t num_tiles,
                              const Load& load, const Store& store) {
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint64_t position = ends[tile];
    if (ends[tile + 1] == position) continue;
    const uint32_t own_word = words[tile * kTileWords + ThisLane()];
    const auto first = static_cast<uint32_t>(tile * kTileElements + ThisLane());
    for (uint32_t begin = 0; begin < kTileWords; begin += kAtOnce) {
      uint32_t marks[kAtOnce], loaded[kAtOnce];
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        marks[j] = __shfl_sync(kAllLanes, own_word, static_cast<int>(begin + j));
        loaded[j] = (marks[j] >> ThisLane() & 1) != 0 ? load(first + (begin + j) * 32) : 0;
      }
      for (uint32_t j = 0; j < kAtOnce; ++j) {
        if ((marks[j] >> ThisLane() & 1) != 0)
          store(position + static_cast<uint64_t>(__popc(marks[j] & LanesBefore())),
                first + (begin + j) * 32, loaded[j]);
        position += static_cast<uint64_t>(__popc(marks[j]));
      }
    }
  }
}

__global__ void ListMarksKernel(const uint32_t* words, const uint64_t* ends, uint64_t num_tiles,
                                uint64_t capacity, DenseVector dense, uint32_t* indices,
                                uint32_t* magnitudes) {
  if (ends[num_tiles] > capacity) return;
  const auto magnitude = [&](uint32_t index) {
    return magnitudes == nullptr ? 0 : MagnitudeBits(dense.At(index));
  };
  ForEachMarked(words, ends, num_tiles, magnitude,
                [&](uint64_t position, uint32_t index, uint32_t loaded) {
                  indices[position] = index;
                  if (magnitudes != nullptr) magnitudes[position] = loaded;
                });
}

__global__ void ListMarkedFromKernel(const uint32_t* words, const uint64_t* ends,
                                     uint64_t num_tiles, const uint64_t* first,
                                     const uint32_t* count_dev, uint32_t count, uint32_t* indices) {
  const uint64_t begin = *first;
  const uint64_t end = begin + (count_dev == nullptr ? count : *count_dev);
  const auto nothing = [](uint32_t) { return 0u; };
  ForEachMarked(words, ends, num_tiles, nothing, [&](uint64_t position, uint32_t index, uint32_t) {
    if (position >= begin && position < end) indices[position - begin] = index;
  });
}

}  // namespace

uint64_t Marks::num_tiles() const { return NumTiles(n); }

Status TakeMarks(uint32_t n, Workspace* workspace, Marks* marks) {
  marks->n = n;
  const uint64_t num_tiles = NumTiles(n);
  marks->words_dev = workspace->Take<uint32_t>(num_tiles * kTileWords);
  marks->ends_dev = workspace->Take<uint64_t>(num_tiles + 1);
  return TakeScanStorage(num_tiles, workspace, &marks->scan_storage);
}

Status ClearMarks(const Marks& marks, cudaStream_t stream) {
  const size_t num_bytes = marks.num_tiles() * kTileWords * sizeof(uint32_t);
  return FromCuda(cudaMemsetAsync(marks.words_dev, 0, num_bytes, stream), "clear marks");
}

Status MarkIndices(const uint32_t* indices_dev, const uint32_t* k_dev, uint32_t max_k,
                   const Marks& marks, cudaStream_t stream) {
  return LaunchThreads("mark indices", MarkIndicesKernel, max_k, stream, indices_dev, k_dev,
                       marks.words_dev);
}

Status MarkSeeded(const SeededPermutation& permutation, uint32_t k, const Marks& marks,
                  cudaStream_t stream) {
  return LaunchThreads("mark seeded", MarkSeededKernel, k, stream, permutation, k, marks.words_dev);
}

Status CountMarks(const Marks& marks, cudaStream_t stream) {
  return LaunchWarps("count marks", CountMarksKernel, marks.num_tiles(), stream, marks.words_dev,
                     marks.num_tiles(), marks.ends_dev);
}

Status ScanMarks(const Marks& marks, cudaStream_t stream) {
  return ScanCounts(marks.ends_dev, marks.num_tiles(), marks.scan_storage, stream);
}

Status ListMarks(const Marks& marks, uint64_t capacity, const DenseVector& dense,
                 uint32_t* indices_dev, uint32_t* magnitudes_dev, cudaStream_t stream) {
  return LaunchWarps("list marks", ListMarksKernel, marks.num_tiles(), stream, marks.words_dev,
                     marks.ends_dev, marks.num_tiles(), capacity, dense, indices_dev,
                     magnitudes_dev);
}

Status ListMarks(const Marks& marks, uint64_t capacity, uint32_t* indices_dev,
                 cudaStream_t stream) {
  const DenseVector none = {nullptr, DType::kFloat32, 0};
  return ListMarks(marks, capacity, none, indices_dev, nullptr, stream);
}

Status ListMarkedFrom(const Marks& marks, const uint64_t* first_dev, const uint32_t* count_dev,
                      uint32_t* indices_dev, cudaStream_t stream) {
  return LaunchWarps("list marked", ListMarkedFromKernel, marks.num_tiles(), stream,
                     marks.words_dev, marks.ends_dev, marks.num_tiles(), first_dev, count_dev, 0u,
                     indices_dev);
}

Status ListMarkedFrom(const Marks& marks, const uint64_t* first_dev, uint32_t count,
                      uint32_t* indices_dev, cudaStream_t stream) {
  const uint32_t* none = nullptr;
  return LaunchWarps("list marked", ListMarkedFromKernel, marks.num_tiles(), stream,
                     marks.words_dev, marks.ends_dev, marks.num_tiles(), first_dev, none, count,
                     indices_dev);
}

}  // namespace device
}  // namespace tfcompress
