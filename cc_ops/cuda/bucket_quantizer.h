// Quantile-bucket quantification on the device: the same codes and means as
// core/sketch/bucket_quantizer.h, for several lists of values side by side.
#ifndef TFCOMPRESS_CUDA_BUCKET_QUANTIZER_H_
#define TFCOMPRESS_CUDA_BUCKET_QUANTIZER_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/sketch/quantile_sketch.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/sort.h"
#include "cuda/value_statistics.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct QuantizerState {
  uint32_t num_steps;   // Steps between distinct values of the sample.
  uint32_t num_splits;  // Splits if zero takes no bucket from the others.
  uint32_t num_buckets;
};

// Sum and number of the values of one bucket in one block.
struct BucketCell {
  double sum;
  uint64_t count;
};

// Values to quantize, of several that are quantized side by side, with their pieces of the buffers.
struct QuantizerPart {
  SelectedValues values;             // Finite.
  const uint32_t* count_dev;         // Their number, at most max_count.
  const uint32_t* num_negative_dev;  // How many are negative; null if none is.
  uint32_t max_count;
  uint32_t max_buckets;
  uint32_t first_code;    // The bucket b has the code first_code + b.
  Marks splits;           // Split positions of the sorted sample and of its end.
  uint32_t* splits_dev;   // Splits, ascending.
  BucketCell* cells_dev;  // One for each bucket of each block.
  // Results.
  QuantizerState* state_dev;
  float* means_dev;

  // Upper bound of the number of buckets: none is empty.
  uint32_t max_used_buckets() const { return max_buckets < max_count ? max_buckets : max_count; }
  uint32_t max_sample() const {
    constexpr uint32_t kMaxSample = QuantileSketch::kMaxSample;
    return max_count < kMaxSample ? max_count : kMaxSample;
  }
  // Every block except the last has 64 values per bucket.
  uint64_t max_cells() const { return uint64_t{max_count} / 64 + max_used_buckets(); }
};

struct QuantizerSize {
  uint32_t max_count;
  uint32_t max_buckets;
};

// Buffers of all parts: the values of each follow those of the part before.
struct QuantizerBuffers {
  std::vector<QuantizerPart> parts;  // Without values.
  QuantizerPart* parts_dev;
  Marks splits;
  uint64_t* sample_begins_dev;  // Of the sample of each part.
  SortSize sample;
  SortSize codes;
  SortBuffers sort;  // Of the samples; then of the codes.
  // Result: where the codes of each part begin among those of all.
  uint64_t* begins_dev;

  // Result: the code of each value.
  uint32_t* codes_dev() const { return sort.keys_dev; }
  // The parts, for those who read results.
  Parts<QuantizerPart> quantized() const { return {parts, parts_dev}; }
};

// Takes buffers for parts that have at most max_items values together. They have room to sort as
// many items by num_sort_bits bits, too.
Status TakeQuantizerBuffers(Span<const QuantizerSize> sizes, uint64_t max_items, int num_sort_bits,
                            Workspace* workspace, QuantizerBuffers* buffers);

// Quantizes the values of each part as QuantizeToBuckets of the core does: sets the number of
// buckets, their means, and the codes. No values make no buckets. `parts` are those of the buffers,
// with values.
Status QuantizeToBuckets(Span<const QuantizerPart> parts, const QuantizerBuffers& buffers,
                         cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BUCKET_QUANTIZER_H_
