// Attributes, inputs and outputs of DecodeSum, the same on every device.
#ifndef TFCOMPRESS_TF_DECODE_SUM_IO_H_
#define TFCOMPRESS_TF_DECODE_SUM_IO_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/packets.h"
#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kept_outputs.h"

namespace tfcompress {

// The frames of each packet that are decoded.
struct SumAttributes {
  std::vector<int64_t> positions;
  int64_t num_frames = 0;

  absl::Status Read(tensorflow::OpKernelConstruction* ctx);
};

struct SumInputs {
  PacketsView packets;
  float scale = 0;
};

absl::Status ReadSumInputs(tensorflow::OpKernelContext* ctx, const SumAttributes& attributes,
                           SumInputs* inputs);

// Allocates the sums, with the shapes given by the inputs "shapes"; `kept` may be null.
absl::Status AllocateSums(tensorflow::OpKernelContext* ctx, KeptOutputs* kept,
                          std::vector<SumTarget>* targets);

// Fills the outputs after the sums.
absl::Status OutputStats(tensorflow::OpKernelContext* ctx, const std::vector<DecodeStats>& stats);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_DECODE_SUM_IO_H_
