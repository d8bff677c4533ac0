#include "tf/select_largest_io.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/codec.h"
#include "tf/kernel_io.h"

namespace tfcompress {

absl::Status ReadSelectInputs(tensorflow::OpKernelContext* ctx, SelectInputs* inputs) {
  const tensorflow::Tensor* values;
  int64_t count = 0;
  TF_RETURN_IF_ERROR(ReadVector(ctx, "values", &values));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "count", &count));
  const int64_t size = values->NumElements();
  if (size > static_cast<int64_t>(kMaxElements)) {
    return absl::InvalidArgumentError(
        absl::StrCat("values has ", size, " elements, above the limit of ", kMaxElements));
  }
  if (count < 0 || count > size) {
    return absl::InvalidArgumentError(
        absl::StrCat("count must be in [0, ", size, "], got ", count));
  }
  inputs->values = Floats(*values);
  inputs->count = static_cast<size_t>(count);
  return absl::OkStatus();
}

}  // namespace tfcompress
