// The ops of the sharded exchange: signatures, shapes and documentation. The kernels are in
// shard_*_kernels.cc; what they compute is in core/pieces.h.
#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/shape_checks.h"

namespace tfcompress {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status EncodePiecesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckScalars(c, {"own", "seed", "spec"}));
  ShapeHandle cuts;
  TF_RETURN_IF_ERROR(CheckVector(c, "cuts", &cuts));
  DimensionHandle num_ranks;
  TF_RETURN_IF_ERROR(c->Subtract(c->Dim(cuts, 0), 1, &num_ranks));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->Vector(num_ranks));
  c->set_output(2, c->Scalar());
  c->set_output(3, c->Scalar());
  return SetShapesOfNewSlots(c);
}

absl::Status EncodeSumShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckScalars(c, {"begin", "seed", "spec"}));
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(CheckVector(c, "others", &unused));
  int num_own, num_slots;
  TF_RETURN_IF_ERROR(c->GetAttr("num_own", &num_own));
  TF_RETURN_IF_ERROR(c->GetAttr("num_slots", &num_slots));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->Scalar());
  c->set_output(2, c->Scalar());
  for (int i = 0; i < std::min(num_own, num_slots); ++i) c->set_output(3 + i, c->input(i));
  return absl::OkStatus();
}

absl::Status SumPiecesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckScalars(c, {"num_ranks", "own"}));
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(CheckVector(c, "packets", &unused));
  int num_tensors;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &num_tensors));
  ShapeHandle sizes;
  TF_RETURN_IF_ERROR(CheckVector(c, "sizes", &sizes));
  DimensionHandle unused_size;
  TF_RETURN_IF_ERROR(c->WithValue(c->Dim(sizes, 0), num_tensors, &unused_size));
  for (int i = 0; i < num_tensors; ++i) {
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  }
  SetStatsShapes(c, num_tensors, num_tensors);
  c->set_output(num_tensors + 3, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

absl::Status DecodePiecesShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckScalars(c, {"scale"}));
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(CheckVector(c, "packets", &unused));
  std::vector<ShapeHandle> cuts;
  TF_RETURN_IF_ERROR(c->input("cuts", &cuts));
  TF_RETURN_IF_ERROR(c->WithRank(cuts[0], 2, &unused));
  int num_tensors;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &num_tensors));
  constexpr int kFirstShape = 3;  // After packets, scale and cuts.
  for (int i = 0; i < num_tensors; ++i) {
    ShapeHandle sum;
    TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(kFirstShape + i, &sum));
    c->set_output(i, sum);
  }
  SetStatsShapes(c, num_tensors, num_tensors);
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("Tfcompress>EncodePieces")
    .Input("gradient: float")
    .Input("slots: num_slots * float")
    .Input("cuts: int64")
    .Input("own: int32")
    .Input("seed: int64")
    .Input("spec: string")
    .Output("frames: uint8")
    .Output("num_bytes: int64")
    .Output("num_sent: int64")
    .Output("nanoseconds: int64")
    .Output("new_slots: num_slots * float")
    .Attr("num_slots: int >= 0")
    .SetShapeFn(EncodePiecesShape)
    .Doc(R"doc(
Compresses the pieces of one gradient that other ranks sum.

Compensates, selects and encodes each piece as Encode does a gradient. The own
piece has no frame: in new_slots it is the compensated gradient, finite or not.

Fails with InvalidArgument for an invalid spec, for slots of another number or size,
and for cuts that do not ascend from 0 to n.

gradient: The local gradient, of any shape; n elements, n < 2^31.
slots: The memory's vectors: n elements each, of any shape.
cuts: [ranks + 1]. Piece r is elements [cuts[r], cuts[r + 1]).
own: Scalar. The rank's own piece.
seed: Scalar. Seeds random selection and rounding; travels in the frames.
spec: Scalar, as for Encode.
frames: 1-D. The frames of the pieces of other ranks that have elements, in order.
num_bytes: [ranks]. Of the frame of each piece.
num_sent: Scalar. Elements in the frames.
nanoseconds: Scalar. Time spent compressing.
new_slots: Of the shapes of `slots`.
num_slots: Number of slots of the spec's memory.
)doc");

REGISTER_OP("Tfcompress>SumPieces")
    .Input("packets: uint8")
    .Input("num_ranks: int32")
    .Input("own: int32")
    .Input("sizes: int64")
    .Output("sums: N * float")
    .Output("num_bytes: int64")
    .Output("nanoseconds: int64")
    .Output("finite: bool")
    .Output("error: uint8")
    .Attr("N: int >= 1")
    .SetShapeFn(SumPiecesShape)
    .Doc(R"doc(
Decodes what all other ranks sent of this rank's pieces, and sums it in rank order.

Bytes that are not the packets described are no failure of this op, which only this
rank would know of: `error` then names rank, tensor and reason, and the sums are zeros.

packets: 1-D. The packets of ranks 0 to num_ranks - 1, without the own one, end to
  end, each with the frames of this rank's pieces of all tensors that have elements.
num_ranks: Scalar. One sums zeros, of a packet without bytes.
own: Scalar. This rank.
sizes: [N]. Elements of this rank's piece of each tensor.
sums: One vector for each tensor.
num_bytes: [N]. Bytes of the frames of each tensor.
nanoseconds: [N]. Time spent decoding and summing each tensor.
finite: [N]. Whether each tensor's piece was finite on all other ranks.
error: 1-D. Empty, or what to send to all ranks instead of the frames of the sums:
  DecodePieces fails with it.
N: Number of tensors.
)doc");

REGISTER_OP("Tfcompress>EncodeSum")
    .Input("own: num_own * float")
    .Input("others: float")
    .Input("begin: int64")
    .Input("seed: int64")
    .Input("spec: string")
    .Output("frame: uint8")
    .Output("num_sent: int64")
    .Output("nanoseconds: int64")
    .Output("new_slots: num_slots * float")
    .Attr("num_own: int >= 1")
    .Attr("num_slots: int >= 0")
    .SetShapeFn(EncodeSumShape)
    .Doc(R"doc(
Adds this rank's own part to what the others sent of its piece, and compresses the sum.

own: n elements each. EncodePieces' new_slots, or the gradient if the spec has no
  memory.
others: [m]. What SumPieces gave.
begin: Scalar. The piece is elements [begin, begin + m) of `own`.
seed: Scalar. Seeds random selection and rounding; travels in the frame.
spec: Scalar, as for Encode.
frame: 1-D. Empty if m is 0.
num_sent: Scalar. Elements in the frame.
nanoseconds: Scalar. Time spent compressing.
new_slots: `own`, with what the frame leaves out of the sum in the piece.
num_own: Number of slots, or 1 if there are none.
num_slots: Number of slots of the spec's memory.
)doc");

REGISTER_OP("Tfcompress>DecodePieces")
    .Input("packets: uint8")
    .Input("scale: float")
    .Input("cuts: int64")
    .Input("shapes: N * int64")
    .Output("sums: N * float")
    .Output("num_bytes: int64")
    .Output("nanoseconds: int64")
    .Output("finite: bool")
    .Attr("N: int >= 1")
    .SetShapeFn(DecodePiecesShape)
    .Doc(R"doc(
Decodes the sums that all ranks made of their pieces, and multiplies them by `scale`.

A tensor that was not finite in some piece becomes NaN in every element. Fails with
DataLoss, naming rank and tensor, for bytes that are not the packets described.

packets: 1-D. For each rank, the frames of its pieces of all tensors that have
  elements, in order: what an allgather of EncodeSum's frames yields.
scale: Scalar; 1 / ranks makes the mean.
cuts: [N, ranks + 1]. Of all tensors, as for EncodePieces.
shapes: One 1-D shape per tensor; its product must be the last cut.
sums: One tensor per shape.
num_bytes: [N]. Bytes of the frames of each tensor.
nanoseconds: [N]. Time spent decoding each tensor.
finite: [N]. Whether each tensor was finite on every rank.
N: Number of tensors.
)doc");

}  // namespace tfcompress
