#include "core/value/sort_key.h"
#include "cuda/launch_frames.h"
#include "cuda/part_begins.h"
#include "cuda/sorted_values.h"

namespace tfcompress {
namespace device {
namespace {

struct CountOf {
  __device__ uint32_t operator()(const EncodedFrame& frame) const { return frame.state_dev->k; }
};

__global__ void MakeSortKeysKernel(const EncodedFrame* frames, const uint64_t* begins,
                                   uint32_t* keys) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const SelectedValues values = frame.values;
  const uint32_t count = frame.state_dev->k;
  uint32_t* const own_keys = keys + begins[blockIdx.y];
  for (uint64_t i = ThisThread(); i < count; i += NumThreads()) own_keys[i] = SortKey(values.At(i));
}

// Inverts the permutation of each sort.
__global__ void RankValuesKernel(const uint64_t* begins, const uint32_t* positions,
                                 uint32_t* ranks) {
  const uint64_t begin = begins[blockIdx.y], end = begins[blockIdx.y + 1];
  for (uint64_t i = begin + ThisThread(); i < end; i += NumThreads())
    ranks[positions[i]] = static_cast<uint32_t>(i - begin);
}

}  // namespace

Status TakeSortedBuffers(Span<const EncodedFrame> frames, Workspace* workspace,
                         SortedBuffers* buffers) {
  uint64_t max_count = 0;
  for (const EncodedFrame& frame : frames) max_count += frame.max_sent;
  buffers->begins_dev = workspace->Take<uint64_t>(frames.size() + 1);
  buffers->size = {max_count, 32, static_cast<uint32_t>(frames.size())};
  return TakeSortBuffers({&buffers->size, 1}, workspace, &buffers->sort);
}

Status SortValues(const Parts<EncodedFrame>& frames, const SortedBuffers& buffers,
                  cudaStream_t stream) {
  const SortBuffers& sort = buffers.sort;
  TFC_RETURN_IF_ERROR(FindBegins(frames, CountOf(), buffers.begins_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchFrames("make sort keys", MakeSortKeysKernel, frames, MaxSentOf, stream,
                                   buffers.begins_dev, sort.keys_dev));
  TFC_RETURN_IF_ERROR(
      Sort(buffers.size, sort, buffers.begins_dev, buffers.begins_dev + frames.size(), stream));
  // The unsorted keys are no longer needed.
  return LaunchParts("rank values", RankValuesKernel, CountFrameItems(frames, MaxSentOf),
                     frames.size(), stream, buffers.begins_dev, sort.sorted_positions_dev,
                     sort.keys_dev);
}

}  // namespace device
}  // namespace tfcompress
