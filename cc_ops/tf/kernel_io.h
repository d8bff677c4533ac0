// Inputs and outputs that the kernels share.
#ifndef TFCOMPRESS_TF_KERNEL_IO_H_
#define TFCOMPRESS_TF_KERNEL_IO_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/grid.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// The matrix of the last dimension's rows, where the tensor has more than one.
inline Grid GridOf(const tensorflow::Tensor& tensor) {
  const int dims = tensor.dims();
  if (dims < 2 || tensor.NumElements() == 0 || tensor.dim_size(dims - 1) > UINT32_MAX) return {};
  return {static_cast<uint32_t>(tensor.dim_size(dims - 1)), 0};
}

// Reads an input. Fails with InvalidArgument unless it is a scalar of T.
template <typename T>
absl::Status ReadScalar(tensorflow::OpKernelContext* ctx, const char* name, T* value) {
  const tensorflow::Tensor* tensor;
  TF_RETURN_IF_ERROR(ctx->input(name, &tensor));
  if (!tensorflow::TensorShapeUtils::IsScalar(tensor->shape())) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be a scalar, got shape ", tensor->shape().DebugString()));
  }
  *value = tensor->scalar<T>()();
  return absl::OkStatus();
}

// Reads an input. Fails with InvalidArgument unless it is a vector.
inline absl::Status ReadVector(tensorflow::OpKernelContext* ctx, const char* name,
                               const tensorflow::Tensor** tensor) {
  TF_RETURN_IF_ERROR(ctx->input(name, tensor));
  if (tensorflow::TensorShapeUtils::IsVector((*tensor)->shape())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be 1-D, got shape ", (*tensor)->shape().DebugString()));
}

inline ByteSpan ToBytes(const tensorflow::Tensor& tensor) {
  return {tensor.flat<uint8_t>().data(), static_cast<size_t>(tensor.NumElements())};
}

inline Span<const float> Floats(const tensorflow::Tensor& tensor) {
  return {tensor.flat<float>().data(), static_cast<size_t>(tensor.NumElements())};
}

inline Span<float> Floats(tensorflow::Tensor* tensor) {
  return {tensor->flat<float>().data(), static_cast<size_t>(tensor->NumElements())};
}

// Sets output `index` to a scalar.
template <typename T>
absl::Status OutputScalar(tensorflow::OpKernelContext* ctx, int index, T value) {
  tensorflow::Tensor* output;
  TF_RETURN_IF_ERROR(ctx->allocate_output(index, tensorflow::TensorShape({}), &output));
  output->scalar<T>()() = value;
  return absl::OkStatus();
}

// Sets output `index` to a vector of T with these values, a vector or a span.
template <typename T, typename Values>
absl::Status OutputVector(tensorflow::OpKernelContext* ctx, int index, const Values& values) {
  tensorflow::Tensor* output;
  const auto size = static_cast<int64_t>(values.size());
  TF_RETURN_IF_ERROR(ctx->allocate_output(index, tensorflow::TensorShape({size}), &output));
  std::copy(values.begin(), values.end(), output->flat<T>().data());
  return absl::OkStatus();
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_KERNEL_IO_H_
