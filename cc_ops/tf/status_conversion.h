// Conversion of the core's Status to TensorFlow's.
#ifndef TFCOMPRESS_TF_STATUS_CONVERSION_H_
#define TFCOMPRESS_TF_STATUS_CONVERSION_H_

#include "absl/status/status.h"
#include "core/status.h"

namespace tfcompress {

// Keeps code and message. Python sees tf.errors.InvalidArgumentError or tf.errors.DataLossError.
inline absl::Status ToTensorFlow(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return absl::OkStatus();
    case StatusCode::kInvalidArgument:
      return absl::InvalidArgumentError(status.message());
    case StatusCode::kDataLoss:
      return absl::DataLossError(status.message());
    case StatusCode::kInternal:
      break;
  }
  return absl::InternalError(status.message());
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_STATUS_CONVERSION_H_
