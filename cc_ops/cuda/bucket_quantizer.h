// Quantile-bucket quantification on the device: the same codes and means as
// core/sketch/bucket_quantizer.h.
#ifndef TFCOMPRESS_CUDA_BUCKET_QUANTIZER_H_
#define TFCOMPRESS_CUDA_BUCKET_QUANTIZER_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/marks.h"
#include "cuda/sort.h"
#include "cuda/value_statistics.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct QuantizerState {
  Extremes extremes;    // Extremes of all values.
  uint32_t num_steps;   // Steps between distinct values of the sample.
  uint32_t num_splits;  // Splits if zero takes no bucket from the others.
  uint32_t num_buckets;
};

// Sum and number of the values of one bucket in one block.
struct BucketCell {
  double sum;
  uint64_t count;
};

struct QuantizerBuffers {
  uint32_t max_count;
  uint32_t max_buckets;
  QuantizerState* state_dev;
  SortBuffers sample;      // Keys.
  Marks splits;            // Split positions of the sorted sample and of its end.
  uint32_t* split_at_dev;  // Positions of the splits in the sample.
  uint32_t* splits_dev;    // Splits, ascending.
  SortBuffers codes;       // Codes with the positions of their values.
  BucketCell* cells_dev;   // One for each bucket of each block.
  float* means_dev;

  // Upper bound of the number of buckets: none is empty.
  uint32_t max_used_buckets() const { return max_buckets < max_count ? max_buckets : max_count; }
  // Results: the bucket of each value; below them, the mean of each bucket.
  const uint32_t* codes_dev() const { return codes.keys_dev; }
  const uint32_t* num_buckets_dev() const { return &state_dev->num_buckets; }
};

// The buffers of the codes have room to sort by num_sort_bits bits, too.
Status TakeQuantizerBuffers(uint32_t max_count, uint32_t max_buckets, int num_sort_bits,
                            Workspace* workspace, QuantizerBuffers* buffers);

// Quantizes *count_dev <= max_count finite values as QuantizeToBuckets of the core does: sets the
// number of buckets, their means, and the codes. No values make no buckets. max_count is above 0.
Status QuantizeToBuckets(const SelectedValues& values, const uint32_t* count_dev,
                         const QuantizerBuffers& buffers, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BUCKET_QUANTIZER_H_
