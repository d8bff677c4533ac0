#include "core/value/sort_key.h"
#include "cuda/binary_search.h"
#include "cuda/launch.h"
#include "cuda/sorted_values.h"

namespace tfcompress {
namespace device {
namespace {

// Makes the keys of all values; positions after the last value get the largest key.
__global__ void MakeSortKeysKernel(SelectedValues values, const uint32_t* count, uint64_t capacity,
                                   uint32_t* keys, uint32_t* positions) {
  const uint32_t num_values = *count;
  for (uint64_t i = ThisThread(); i < capacity; i += NumThreads()) {
    keys[i] = i < num_values ? SortKey(values.At(i)) : kNoSortKey;
    positions[i] = static_cast<uint32_t>(i);
  }
}

// Inverts the permutation of the sort.
__global__ void RankValuesKernel(const uint32_t* keys, const uint32_t* positions,
                                 const uint32_t* count, uint32_t* ranks,
                                 uint32_t* num_nonnegative) {
  const uint32_t num_values = *count;
  for (uint64_t i = ThisThread(); i < num_values; i += NumThreads())
    ranks[positions[i]] = static_cast<uint32_t>(i);
  if (ThisThread() != 0) return;
  *num_nonnegative = static_cast<uint32_t>(
      FirstAfter(0, num_values, [&](uint64_t i) { return !IsNonnegativeKey(keys[i]); }));
}

}  // namespace

Status TakeSortedBuffers(uint32_t max_count, Workspace* workspace, SortedBuffers* buffers) {
  buffers->num_nonnegative_dev = workspace->Take<uint32_t>(1);
  return TakeSortBuffers(max_count, 32, true, workspace, &buffers->sort);
}

Status SortValues(const SelectedValues& values, const uint32_t* count_dev,
                  const SortedBuffers& buffers, cudaStream_t stream) {
  const SortBuffers& sort = buffers.sort;
  TFC_RETURN_IF_ERROR(LaunchThreads("make sort keys", MakeSortKeysKernel, sort.num_items, stream,
                                    values, count_dev, sort.num_items, sort.keys_dev,
                                    sort.payloads_dev));
  TFC_RETURN_IF_ERROR(Sort(sort, stream));
  // The unsorted keys are no longer needed.
  return LaunchThreads("rank values", RankValuesKernel, sort.num_items, stream,
                       sort.sorted_keys_dev, sort.sorted_payloads_dev, count_dev, sort.keys_dev,
                       buffers.num_nonnegative_dev);
}

}  // namespace device
}  // namespace tfcompress
