// Inputs of SelectLargest, on whatever device it runs.
#ifndef TFCOMPRESS_TF_SELECT_LARGEST_IO_H_
#define TFCOMPRESS_TF_SELECT_LARGEST_IO_H_

#include <cstddef>

#include "absl/status/status.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// The values lie where the kernel runs.
struct SelectInputs {
  Span<const float> values;
  size_t count = 0;  // At most as many.
};

absl::Status ReadSelectInputs(tensorflow::OpKernelContext* ctx, SelectInputs* inputs);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_SELECT_LARGEST_IO_H_
