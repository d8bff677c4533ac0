// The ops that write and read frames: signatures, shapes and documentation. The kernels are in
// *_kernel.cc.
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tf/shape_checks.h"

namespace tfcompress {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status EncodeShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckScalars(c, {"seed"}));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(1, c->Scalar());
  return absl::OkStatus();
}

absl::Status EncodeWithSlotsShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(CheckScalars(c, {"spec"}));
  TF_RETURN_IF_ERROR(SetShapesOfNewSlots(c));
  c->set_output(2, c->Scalar());
  return EncodeShape(c);
}

absl::Status EncodeRowsShape(InferenceContext* c) {
  ShapeHandle values, indices;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 1, &values));
  TF_RETURN_IF_ERROR(CheckVector(c, "indices", &indices));
  DimensionHandle unused;
  TF_RETURN_IF_ERROR(c->Merge(c->Dim(values, 0), c->Dim(indices, 0), &unused));
  TF_RETURN_IF_ERROR(CheckScalars(c, {"num_rows", "num_owners", "spec"}));
  DimensionHandle num_owners;
  constexpr int kNumOwners = 3;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(kNumOwners, &num_owners));
  c->set_output(2, c->Vector(num_owners));
  c->set_output(3, c->Scalar());
  return EncodeShape(c);
}

absl::Status DecodeRowsShape(InferenceContext* c) {
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(CheckVector(c, "packets", &unused));
  TF_RETURN_IF_ERROR(CheckScalars(c, {"num_ranks", "scale", "num_rows"}));
  constexpr int kRowShape = 4;
  ShapeHandle row, values;
  TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(kRowShape, &row));
  const DimensionHandle num_rows = c->UnknownDim();
  TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(num_rows), row, &values));
  c->set_output(0, c->Vector(num_rows));
  c->set_output(1, values);
  for (int i = 2; i <= 4; ++i) c->set_output(i, c->Scalar());
  c->set_output(5, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

absl::Status DecodeSumShape(InferenceContext* c) {
  std::vector<tensorflow::DataType> dtypes;
  TF_RETURN_IF_ERROR(c->GetAttr("dtypes", &dtypes));
  constexpr int kFirstShape = 3;  // After packets, num_ranks and scale.
  const int num_tensors = c->num_inputs() - kFirstShape;
  if (static_cast<int>(dtypes.size()) != num_tensors) {
    return absl::InvalidArgumentError(absl::StrCat("expected one dtype for each shape, got ",
                                                   dtypes.size(), " dtypes for ", num_tensors,
                                                   " shapes"));
  }
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(CheckVector(c, "packets", &unused));
  TF_RETURN_IF_ERROR(CheckScalars(c, {"num_ranks", "scale"}));
  for (int i = 0; i < num_tensors; ++i) {
    ShapeHandle sum;
    TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(kFirstShape + i, &sum));
    c->set_output(i, sum);
  }
  SetStatsShapes(c, num_tensors, num_tensors);
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("Tfcompress>Encode")
    .Input("gradient: T")
    .Input("slots: num_slots * float")
    .Input("seed: int64")
    .Input("spec: string")
    .Output("frame: uint8")
    .Output("num_sent: int64")
    .Output("nanoseconds: int64")
    .Output("new_slots: num_slots * float")
    .Attr("T: {float, half, bfloat16}")
    .Attr("num_slots: int >= 0")
    .SetShapeFn(EncodeWithSlotsShape)
    .Doc(R"doc(
Compresses one gradient into one frame, and keeps the rest for later steps.

Compensates with what earlier steps left out, selects, encodes, and stores what
receivers will not decode in new_slots: with the memory `residual`, gradient + slot
== decoded + new slot. The caller commits new_slots when the step has succeeded on
every rank. A gradient that is not finite after compensation becomes a frame that
decodes to NaN on every rank; new_slots then equal slots.

The frame depends on the inputs only, not on the number of threads.

Fails with InvalidArgument for an invalid spec, for a number of slots that is not
the memory's, and for a slot with another number of elements.

gradient: The local gradient, of any shape; n elements, n < 2^31.
slots: The memory's vectors: n elements each, of any shape.
seed: Scalar. Seeds random selection and rounding; travels in the frame. Ranks
  that must select alike pass the same seed.
spec: Scalar. `[memory|]sparsifier|index|value` or `[memory|]sparsifier|joint`, each
  part `name[:key=value,...]`, e.g. `residual|topk:ratio=0.01|bloom|dexp`. May
  change from step to step.
frame: 1-D. One self-delimiting frame; frames laid end to end make a packet.
num_sent: Scalar. Number of elements in the frame.
nanoseconds: Scalar. Time spent compressing.
new_slots: Of the shapes of `slots`.
num_slots: Number of slots of the spec's memory, e.g. 0 for `none` and 1 for
  `residual`.
)doc");

REGISTER_OP("Tfcompress>DecodeSum")
    .Input("packets: uint8")
    .Input("num_ranks: int32")
    .Input("scale: float")
    .Input("shapes: N * int64")
    .Output("sums: dtypes")
    .Output("num_bytes: int64")
    .Output("nanoseconds: int64")
    .Output("finite: bool")
    .Attr("N: int >= 1")
    .Attr("dtypes: list({float, half, bfloat16}) >= 1")
    .Attr("positions: list(int) = []")
    .Attr("num_frames: int >= 0 = 0")
    .SetShapeFn(DecodeSumShape)
    .Doc(R"doc(
Decodes the packets of all ranks and sums them: sums[i] = scale * sum over ranks.

Each element is summed in float32 in the order of the ranks, whatever the number
of threads, so that every rank that decodes the same packets gets the same bits.
A tensor that was not finite on some rank becomes NaN in every element.

Fails with DataLoss, naming rank and tensor, for bytes that are not the packets
described (truncated, changed on the way, left over, of another size or type);
with InvalidArgument for a bad num_ranks, shape or position.

packets: 1-D. The packets of ranks 0 to num_ranks - 1 end to end, each with the
  frames of all N tensors in the order of `shapes`: what an allgather yields.
num_ranks: Scalar, at least 1.
scale: Scalar; 1 / num_ranks makes the mean.
shapes: One 1-D shape per tensor; its product must be the n of the tensor's frames.
sums: One tensor per shape.
num_bytes: [N]. Bytes of each tensor's frames over all ranks, headers included.
nanoseconds: [N]. Time spent decoding and summing each tensor; the times of tensors
  that are decoded in parallel overlap.
finite: [N]. Whether each tensor was finite on every rank.
N: Number of tensors.
dtypes: The N tensors' types, which must be those of their frames.
positions: Positions of the N frames in each packet, ascending. Empty means the
  first N.
num_frames: Frames in each packet; those at other positions are not decoded. 0
  means N.
)doc");

REGISTER_OP("Tfcompress>EncodeRows")
    .Input("values: T")
    .Input("indices: Tindices")
    .Input("num_rows: int64")
    .Input("num_owners: int32")
    .Input("residual: num_residuals * resource")
    .Input("seed: int64")
    .Input("spec: string")
    .Output("frames: uint8")
    .Output("nanoseconds: int64")
    .Output("num_bytes: int64")
    .Output("num_sent: int64")
    .Attr("T: {float, half, bfloat16}")
    .Attr("Tindices: {int32, int64}")
    .Attr("num_residuals: int >= 0")
    .Attr("row_sparsifier: string")
    .SetIsStateful()
    .SetShapeFn(EncodeRowsShape)
    .Doc(R"doc(
Compresses the gradient of some rows of a table (tf.IndexedSlices), a frame for each owner.

Row r belongs to owner r % num_owners; one owner has all rows, in one frame.

Sums the slices of each row, adds the residual of the row, chooses rows by their
norms, encodes them, and writes back to the residual what receivers do not
decode, so that merged + residual before == decoded + residual after, row by row. Time and
memory are of the order of the rows, not of the table, except with the index codecs
`bloom` and `bitmap`, which visit every row number. Rows that a Bloom filter adds
are sent as zeros, or with their values if the gradient has them.

The memory and the sparsifier of the spec are not used. A spec without index codec
codes row ids by `delta_binary`; a joint codec codes the nonzero elements among the
num_rows * w < 2^31 of the table. A gradient that is not finite becomes frames that
decode to NaN on every rank, and leaves the residual unchanged.

Fails with InvalidArgument for an invalid spec or sparsifier, an index outside
[0, num_rows), no owner, a residual that is not float32 or of another size, and the spec
`threelc`, which codes dense tensors only; with FailedPrecondition for a residual
that is not initialized. The residual then remains unchanged.

values: [m, ...]. Slice i belongs to row indices[i]; a slice has w >= 1 elements.
indices: [m]. In any order, repeated if a row has several slices.
num_rows: Scalar, below 2^31. Rows of the table.
num_owners: Scalar, at least 1.
residual: None, or one float32 variable of num_rows * w elements, updated in place.
seed: Scalar. Seeds random selection and rounding; travels in the frame.
spec: Scalar, as for Encode.
frames: 1-D. The owners' self-delimiting frames, in order; frames laid end to end
  make a packet.
nanoseconds: Scalar. Time spent compressing.
num_bytes: [num_owners]. Of each frame.
num_sent: Scalar. Elements in the frames.
num_residuals: 0 or 1.
row_sparsifier: A sparsifier that selects by the Euclidean norms of the touched rows,
  e.g. `dense` for all of them, `topk:ratio=0.1` or `threshold:tau=0.01`.
)doc");

REGISTER_OP("Tfcompress>DecodeRows")
    .Input("packets: uint8")
    .Input("num_ranks: int32")
    .Input("scale: float")
    .Input("num_rows: int64")
    .Input("row_shape: int64")
    .Output("rows: int64")
    .Output("values: T")
    .Output("num_bytes: int64")
    .Output("nanoseconds: int64")
    .Output("finite: bool")
    .Output("error: uint8")
    .Attr("num_frames: int >= 1")
    .Attr("position: int >= 0")
    .Attr("T: {float, half, bfloat16}")
    .Attr("tells_errors: bool = false")
    .SetShapeFn(DecodeRowsShape)
    .Doc(R"doc(
Decodes one table's rows from the packets of all ranks and sums them.

values[i] = scale * the sum over ranks of row rows[i]. Each element is summed in
float32 in the order of the ranks, whatever the number of threads, so that every
rank that decodes the same packets gets the same bits. If the table was not finite
on some rank, all rows that were sent are NaN; if no row was sent, a NaN row 0 is
returned.

Fails with DataLoss, naming rank and position, for bytes that are not the packets
described, unless it tells errors; with InvalidArgument for a bad num_ranks, num_rows
or row_shape.

packets: 1-D. The packets of ranks 0 to num_ranks - 1 end to end.
num_ranks: Scalar, at least 1.
scale: Scalar; 1 / num_ranks makes the mean.
num_rows: Scalar. Rows of the table.
row_shape: [r]. Shape of a row.
rows: [u]. The rows that any rank sent, ascending.
values: [u, row_shape...].
num_bytes: Scalar. Bytes of the table's frames over all ranks, headers included.
nanoseconds: Scalar. Time spent decoding and summing.
finite: Scalar. Whether the table was finite on every rank.
error: 1-D. Empty, or what to send to all ranks instead of frames of the sums: who
  decodes it fails with it.
num_frames: Frames in each packet.
position: Position of the table's frame in each packet.
T: The table's type, which must be that of its frames.
tells_errors: Whether packets are this rank's alone, so that other ranks do not know
  that they are broken: `error` then says so, and there are no rows.
)doc");

}  // namespace tfcompress
