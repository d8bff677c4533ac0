// The ops: signatures, shapes and documentation. The kernels stand in *_kernel.cc.
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tfcompress {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status EncodeShape(InferenceContext* c) {
  std::vector<ShapeHandle> seed;
  TF_RETURN_IF_ERROR(c->input("seed", &seed));
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(seed[0], 0, &unused));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->Scalar());
  return absl::OkStatus();
}

absl::Status DecodeSumShape(InferenceContext* c) {
  std::vector<tensorflow::DataType> dtypes;
  TF_RETURN_IF_ERROR(c->GetAttr("dtypes", &dtypes));
  constexpr int kFirstShape = 3;  // After packets, num_ranks and scale.
  const int num_tensors = c->num_inputs() - kFirstShape;
  if (static_cast<int>(dtypes.size()) != num_tensors) {
    return absl::InvalidArgumentError(
        absl::StrCat(dtypes.size(), " dtypes for ", num_tensors, " shapes"));
  }
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &unused));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &unused));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &unused));
  for (int i = 0; i < num_tensors; ++i) {
    ShapeHandle sum;
    TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(kFirstShape + i, &sum));
    c->set_output(i, sum);
  }
  c->set_output(num_tensors, c->Vector(num_tensors));
  c->set_output(num_tensors + 1, c->Vector(num_tensors));
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("Tfcompress>Encode")
    .Input("gradient: T")
    .Input("slots: num_slots * resource")
    .Input("seed: int64")
    .Output("frame: uint8")
    .Output("nanoseconds: int64")
    .Attr("T: {float, half, bfloat16}")
    .Attr("num_slots: int >= 0")
    .Attr("spec: string")
    .SetIsStateful()
    .SetShapeFn(EncodeShape)
    .Doc(R"doc(
Compresses one gradient into one frame, and keeps what the frame leaves out.

Adds what earlier steps left out, selects, encodes, and writes back to the slots
what receivers will not decode: gradient + slot before == decoded + slot after
under the memory `residual`. The slots' variables are locked meanwhile. A
gradient that is not finite (after compensation) becomes a frame that decodes to
NaN on every rank, and leaves the slots as they were.

The frame is the same for every number of threads: it depends on the inputs, the
slots and the spec alone.

Fails with InvalidArgument for a spec that does not parse, for a number of slots
that is not the memory's, for a slot that is not float32 or has another number
of elements; with FailedPrecondition for a slot that is not initialized. When
encoding itself fails, the slots' content is unspecified.

gradient: The local gradient, of any shape; n elements, n < 2^31.
slots: The memory's variables: float32, initialized, distinct, n elements each
  of any shape; updated in place.
seed: Scalar. Seeds random selection and rounding; travels in the frame. Ranks
  that must select alike pass the same seed.
frame: 1-D. One self-delimiting frame; frames laid end to end make a packet.
nanoseconds: Scalar. Time spent compressing, without the copy into `frame`.
num_slots: How many slots the spec's memory needs, e.g. 0 for `none` and 1 for
  `residual`.
spec: `[memory|]sparsifier|index|value` or `[memory|]sparsifier|joint`, each part
  `name[:key=value,...]`, e.g. `residual|topk:ratio=0.01|bloom|dexp`.
)doc");

REGISTER_OP("Tfcompress>DecodeSum")
    .Input("packets: uint8")
    .Input("num_ranks: int32")
    .Input("scale: float")
    .Input("shapes: N * int64")
    .Output("sums: dtypes")
    .Output("num_bytes: int64")
    .Output("nanoseconds: int64")
    .Attr("N: int >= 1")
    .Attr("dtypes: list({float, half, bfloat16}) >= 1")
    .SetShapeFn(DecodeSumShape)
    .Doc(R"doc(
Decodes the packets of all ranks and sums them: sums[i] = scale * sum over ranks.

Each element is summed in float32 in the order of the ranks, whatever the number
of threads, so that every rank that decodes the same packets gets the same bits.
A tensor that was not finite on any rank comes out as NaN in every element.

Fails with DataLoss, naming rank and tensor, for bytes that are not the packets
described (truncated, changed on the way, left over, of another size or type);
with InvalidArgument for a bad num_ranks or shape.

packets: 1-D. The packets of ranks 0 to num_ranks - 1 end to end, each the frames
  of all N tensors in the order of `shapes`: what an allgather of packets yields.
num_ranks: Scalar, at least 1.
scale: Scalar; 1 / num_ranks makes the mean.
shapes: One 1-D shape a tensor; its product must be the n of the tensor's frames.
sums: One tensor a shape.
num_bytes: [N]. Bytes of each tensor's frames over all ranks, headers included.
nanoseconds: [N]. Time spent decoding and summing each tensor; tensors that are
  decoded side by side overlap.
N: Number of tensors.
dtypes: The N tensors' types, which must be those of their frames.
)doc");

}  // namespace tfcompress
