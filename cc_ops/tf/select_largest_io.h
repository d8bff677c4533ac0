// Inputs of SelectLargest, the same on every device.
#ifndef TFCOMPRESS_TF_SELECT_LARGEST_IO_H_
#define TFCOMPRESS_TF_SELECT_LARGEST_IO_H_

#include <cstddef>

#include "absl/status/status.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// The values are in the memory of the kernel's device.
struct SelectInputs {
  Span<const float> values;
  size_t count = 0;  // At most the number of values.
};

absl::Status ReadSelectInputs(tensorflow::OpKernelContext* ctx, SelectInputs* inputs);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_SELECT_LARGEST_IO_H_
