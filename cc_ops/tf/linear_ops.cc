// The ops of linear specs, whose payloads are summed over ranks and never framed: signatures,
// shapes and documentation. The kernels are in *_kernel.cc.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/linear_compressor.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tf/shape_checks.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status CompensateShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckScalars(c, {"spec"}));
  TF_RETURN_IF_ERROR(SetShapesOfNewSlots(c));
  c->set_output(c->num_outputs() - 1, c->Scalar());
  return absl::OkStatus();
}

// Sets `size` to `size_of` the codec and n, if n and the spec, which is the last input, are known
// before the step; else leaves it unknown.
absl::Status SizeIfKnown(InferenceContext* c, int64_t n,
                         int64_t (LinearCodec::*size_of)(int64_t) const, DimensionHandle* size) {
  const tensorflow::Tensor* spec = c->input_tensor(c->num_inputs() - 1);
  *size = c->UnknownDim();
  if (spec == nullptr || n < 0 || n > static_cast<int64_t>(kMaxElements)) return absl::OkStatus();
  const auto compressor = LinearCompressor::FromSpec(spec->scalar<tensorflow::tstring>()());
  if (!compressor.ok()) return ToTensorFlow(compressor.status());
  *size = c->MakeDim((compressor.value()->codec().*size_of)(n));
  return absl::OkStatus();
}

// The total number of elements of a list of tensors; -1 if it is not known.
int64_t NumElements(InferenceContext* c, const std::vector<ShapeHandle>& shapes) {
  int64_t n = 0;
  for (const ShapeHandle& shape : shapes) {
    const DimensionHandle size = c->NumElements(shape);
    if (!c->ValueKnown(size)) return -1;
    n += c->Value(size);
  }
  return n;
}

absl::Status LinearEncodeShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckScalars(c, {"seed", "spec"}));
  std::vector<ShapeHandle> dense;
  TF_RETURN_IF_ERROR(c->input("dense", &dense));
  DimensionHandle size;
  TF_RETURN_IF_ERROR(SizeIfKnown(c, NumElements(c, dense), &LinearCodec::PayloadSize, &size));
  c->set_output(0, c->Vector(size));
  c->set_output(1, c->Scalar());
  return absl::OkStatus();
}

absl::Status LinearRecoverShape(InferenceContext* c) {
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(CheckVector(c, "summed", &unused));
  TF_RETURN_IF_ERROR(CheckScalars(c, {"n", "seed", "spec"}));
  const tensorflow::Tensor* n = c->input_tensor(1);
  DimensionHandle size;
  TF_RETURN_IF_ERROR(SizeIfKnown(c, n == nullptr ? -1 : n->scalar<int64_t>()(),
                                 &LinearCodec::NumCandidates, &size));
  c->set_output(0, c->Vector(size));
  c->set_output(1, c->Vector(size));
  c->set_output(2, c->Scalar());
  return absl::OkStatus();
}

absl::Status SelectLargestShape(InferenceContext* c) {
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(CheckVector(c, "values", &unused));
  DimensionHandle count;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(1, &count));
  c->set_output(0, c->Vector(count));
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("Tfcompress>Compensate")
    .Input("gradient: T")
    .Input("slots: num_slots * float")
    .Input("spec: string")
    .Output("new_slots: num_slots * float")
    .Output("finite: bool")
    .Attr("T: {float, half, bfloat16}")
    .Attr("num_slots: int >= 0")
    .SetShapeFn(CompensateShape)
    .Doc(R"doc(
Compensates a gradient with the memory of a spec: adds what earlier steps left out.

new_slots[0] is the vector to send: with `residual` slots[0] + gradient, with
`momentum` the residual plus the velocity, whose next value is new_slots[1]. The
memory `none` has no slots: the gradient itself is sent. The caller subtracts what
receivers decode from new_slots before it writes them back.

Fails with InvalidArgument for an invalid spec, for a number of slots that is not
the memory's, and for a slot with another number of elements.

gradient: The local gradient, of any shape; n elements.
slots: The memory's vectors: n elements each, of any shape.
spec: Scalar, linear or framed, e.g. `momentum|count_sketch`.
new_slots: Of the shapes of `slots`. Bit-identical to `slots` unless `finite`.
finite: Scalar. Whether every element of the compensated vector is finite.
num_slots: How many slots the spec's memory needs.
)doc");

REGISTER_OP("Tfcompress>LinearEncode")
    .Input("dense: N * float")
    .Input("seed: int64")
    .Input("spec: string")
    .Output("payload: float")
    .Output("nanoseconds: int64")
    .Attr("N: int >= 1")
    .SetShapeFn(LinearEncodeShape)
    .Doc(R"doc(
Encodes tensors into one payload of floats that may be summed over ranks.

The tensors are encoded as one vector, laid end to end, without a copy. The sum of
the payloads of several ranks is the payload of the sum of their vectors, up to
rounding. The payload does not depend on the number of threads.

NaN or Inf anywhere makes every float of the payload NaN, and so that of the sum.

Fails with InvalidArgument for a spec that is not linear, and for tensors with 2^31
elements or more together.

dense: Of any shapes; n elements together.
seed: Scalar. Must be the same on all ranks of a step.
spec: Scalar. `[memory|]linear`; the memory is not used.
payload: 1-D, of a length that the spec and n determine.
nanoseconds: Scalar. Time spent encoding.
)doc");

REGISTER_OP("Tfcompress>LinearRecover")
    .Input("summed: float")
    .Input("n: int64")
    .Input("seed: int64")
    .Input("spec: string")
    .Output("indices: int64")
    .Output("values: float")
    .Output("nanoseconds: int64")
    .SetShapeFn(LinearRecoverShape)
    .Doc(R"doc(
Recovers elements of a sum of vectors from the sum of their payloads.

`shared_randomk` yields exact sums. `count_sketch` yields the elements with the
largest estimates, and these estimates; a second round then sums the true values at
`indices`, and SelectLargest keeps k of them. Equal sums give equal bits on every
machine.

Fails with InvalidArgument for a spec that is not linear, an n outside [0, 2^31),
and a payload of another size than LinearEncode makes for n elements.

summed: 1-D. The sum, or any multiple of it, of the payloads of LinearEncode on each
  rank with this seed and spec. If it is not finite, all values are NaN.
n: Scalar. Elements of the vector.
seed: Scalar, that of LinearEncode.
spec: Scalar, that of LinearEncode.
indices: [c], ascending, below n.
values: [c]. Exact sums or estimates of them, times the factor that `summed` has.
nanoseconds: Scalar. Time spent recovering.
)doc");

REGISTER_OP("Tfcompress>SelectLargest")
    .Input("values: float")
    .Input("count: int64")
    .Output("positions: int64")
    .SetShapeFn(SelectLargestShape)
    .Doc(R"doc(
Finds the elements of largest magnitude, exactly.

Fails with InvalidArgument for a count outside [0, c].

values: [c].
count: Scalar, at most c.
positions: [count], ascending; ties go to the lower position. Inf is larger than
  every number, NaN larger than Inf.
)doc");

}  // namespace tfcompress
