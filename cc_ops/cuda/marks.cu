#include "core/host_device.h"
#include "cuda/cuda_status.h"
#include "cuda/for_each_marked.h"
#include "cuda/launch_frames.h"
#include "cuda/marks.h"
#include "cuda/scan.h"
#include "cuda/support_section.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void MarkSupportsKernel(const EncodedFrame* frames) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const uint32_t k = frame.state_dev->k;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads())
    SetMark(frame.support_dev[i], frame.marks.words_dev);
}

// A seeded support to mark.
struct SeededMarks {
  SeededPermutation permutation;
  uint32_t k;
  uint32_t* words;

  TFC_HOST_DEVICE static SeededMarks Of(const EncodedFrame& frame) {
    return {
        {frame.compensation.gradient.n, frame.header.seed}, frame.known_k, frame.marks.words_dev};
  }
  TFC_HOST_DEVICE static SeededMarks Of(const SupportSection& section) {
    return {{section.n, section.seed}, section.k, section.marks.words_dev};
  }
};

template <typename Source>
__global__ void MarkSeededKernel(Source source) {
  const SeededMarks seeded = source.Get();
  for (uint64_t i = ThisThread(); i < seeded.k; i += NumThreads())
    SetMark(seeded.permutation(static_cast<uint32_t>(i)), seeded.words);
}

__global__ void CountMarksKernel(const uint32_t* words, uint64_t num_tiles, uint64_t* counts) {
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    const uint32_t count = SumOfLanes(__popc(words[tile * kTileWords + ThisLane()]));
    if (ThisLane() == 0) counts[tile] = count;
  }
}

// Marks to list.
struct MarkList {
  Marks marks;
  uint64_t capacity;
  uint32_t* indices_dev;

  TFC_HOST_DEVICE static MarkList Of(const EncodedFrame& frame) {
    return {frame.marks, frame.max_k, frame.support_dev};
  }
  TFC_HOST_DEVICE static MarkList Of(const SupportSection& section) {
    return {section.marks, section.k, section.indices_dev};
  }
};

struct NoLoad {
  __device__ uint32_t operator()(uint32_t) const { return 0; }
};

template <typename Source>
__global__ void ListMarksKernel(Source source) {
  const MarkList list = source.Get();
  if (list.capacity == 0 || list.marks.NumMarked() > list.capacity) return;
  ForEachMarked(list.marks, NoLoad{}, [&](uint64_t position, uint32_t index, uint32_t) {
    list.indices_dev[position] = index;
  });
}

}  // namespace

Marks Marks::Slice(uint64_t first_tile, uint64_t size) const {
  return {size, words_dev + first_tile * kTileWords, ends_dev + first_tile};
}

void TakeMarks(uint64_t n, Workspace* workspace, Marks* marks) {
  marks->n = n;
  const uint64_t num_tiles = marks->num_tiles();
  marks->words_dev = workspace->Take<uint32_t>(num_tiles * kTileWords);
  marks->ends_dev = workspace->Take<uint64_t>(num_tiles + 1);
}

Status ClearMarks(const Marks& marks, cudaStream_t stream) {
  const size_t num_bytes = marks.num_tiles() * kTileWords * sizeof(uint32_t);
  if (num_bytes == 0) return OkStatus();
  return FromCuda(cudaMemsetAsync(marks.words_dev, 0, num_bytes, stream), "clear marks");
}

Status MarkSupports(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchFrames("mark supports", MarkSupportsKernel, frames, MaxSupportOf, stream);
}

Status MarkSeeded(const SeededPermutation& permutation, uint32_t k, const Marks& marks,
                  cudaStream_t stream) {
  const One<SeededMarks> source = {{permutation, k, marks.words_dev}};
  return LaunchThreads("mark seeded", MarkSeededKernel<One<SeededMarks>>, k, stream, source);
}

Status MarkSeeds(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchViews<SeededMarks>(
      "mark seeded", [](auto source) { return MarkSeededKernel<decltype(source)>; }, frames,
      MaxSupportOf, stream);
}

Status MarkSeeds(const Parts<SupportSection>& sections, cudaStream_t stream) {
  using Source = OfPart<SeededMarks, SupportSection>;
  return LaunchParts("mark seeded", MarkSeededKernel<Source>,
                     CountItems(sections.on_host, SupportSizeOf), sections.size(), stream,
                     Source{sections.data_dev});
}

Status CountMarks(const Marks& marks, cudaStream_t stream) {
  return LaunchWarps("count marks", CountMarksKernel, marks.num_tiles(), stream, marks.words_dev,
                     marks.num_tiles(), marks.ends_dev);
}

Status ScanMarks(const Marks& marks, cudaStream_t stream) {
  return ScanCounts(marks.ends_dev, marks.num_tiles(), stream);
}

Status ListMarks(const Marks& marks, uint64_t capacity, uint32_t* indices_dev,
                 cudaStream_t stream) {
  const One<MarkList> source = {{marks, capacity, indices_dev}};
  return LaunchWarps("list marks", ListMarksKernel<One<MarkList>>, marks.num_tiles(), stream,
                     source);
}

Status ListSupports(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchViews<MarkList>(
      "list supports", [](auto source) { return ListMarksKernel<decltype(source)>; }, frames,
      TileThreadsOf, stream);
}

Status ListMarks(const Parts<SupportSection>& sections, cudaStream_t stream) {
  using Source = OfPart<MarkList, SupportSection>;
  return LaunchParts("list marks", ListMarksKernel<Source>,
                     CountItems(sections.on_host, MarkWordsOf), sections.size(), stream,
                     Source{sections.data_dev});
}

}  // namespace device
}  // namespace tfcompress
