// Conversion of TensorFlow's element types to the core's.
#ifndef TFCOMPRESS_TF_DTYPE_CONVERSION_H_
#define TFCOMPRESS_TF_DTYPE_CONVERSION_H_

#include "core/dtype.h"
#include "tensorflow/core/framework/types.h"

namespace tfcompress {

// `dtype` must be one that the ops' attributes admit: DT_FLOAT, DT_HALF or DT_BFLOAT16.
inline DType ToDType(tensorflow::DataType dtype) {
  if (dtype == tensorflow::DT_HALF) return DType::kFloat16;
  if (dtype == tensorflow::DT_BFLOAT16) return DType::kBFloat16;
  return DType::kFloat32;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_DTYPE_CONVERSION_H_
