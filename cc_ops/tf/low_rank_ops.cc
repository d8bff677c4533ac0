// The ops of low-rank codecs, whose factors are summed over ranks: signatures, shapes and
// documentation. The kernels are in low_rank_kernels.cc.
#include <cstdint>
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

// Sets output `index` to a vector of `rank` floats for each row, or for each column, of all
// matrices.
absl::Status SetFactors(InferenceContext* c, int64_t rank, bool of_rows, int index) {
  std::vector<ShapeHandle> matrices;
  TF_RETURN_IF_ERROR(c->input("matrices", &matrices));
  DimensionHandle size = c->MakeDim(int64_t{0});
  for (ShapeHandle matrix : matrices) {
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(matrix, 2, &matrix));
    DimensionHandle length = c->Dim(matrix, -1);
    if (of_rows) {
      ShapeHandle rows;
      TF_RETURN_IF_ERROR(c->Subshape(matrix, 0, -1, &rows));
      length = c->NumElements(rows);
    }
    TF_RETURN_IF_ERROR(c->Multiply(length, rank, &length));
    TF_RETURN_IF_ERROR(c->Add(size, length, &size));
  }
  c->set_output(index, c->Vector(size));
  return absl::OkStatus();
}

absl::Status LowRankLeftShape(InferenceContext* c) {
  int64_t rank;
  TF_RETURN_IF_ERROR(c->GetAttr("rank", &rank));
  TF_RETURN_IF_ERROR(CheckScalars(c, {"seed"}));
  c->set_output(1, c->Scalar());
  return SetFactors(c, rank, true, 0);
}

absl::Status LowRankRightShape(InferenceContext* c) {
  int64_t rank;
  TF_RETURN_IF_ERROR(c->GetAttr("rank", &rank));
  TF_RETURN_IF_ERROR(SetFactors(c, rank, true, 0));
  c->set_output(2, c->Scalar());
  return SetFactors(c, rank, false, 1);
}

absl::Status LowRankDecodeShape(InferenceContext* c) {
  std::vector<ShapeHandle> matrices;
  TF_RETURN_IF_ERROR(c->input("matrices", &matrices));
  TF_RETURN_IF_ERROR(CheckScalars(c, {"scale"}));
  TF_RETURN_IF_ERROR(c->set_output("decoded", matrices));
  int num_residuals;
  TF_RETURN_IF_ERROR(c->GetAttr("num_residuals", &num_residuals));
  if (num_residuals != 0) TF_RETURN_IF_ERROR(c->set_output("residuals", matrices));
  for (int i = c->num_outputs() - 2; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("Tfcompress>LowRankLeft")
    .Input("matrices: N * float")
    .Input("last_right: N * float")
    .Input("seed: int64")
    .Output("left: float")
    .Output("nanoseconds: int64")
    .Attr("N: int >= 1")
    .Attr("rank: int >= 1")
    .SetShapeFn(LowRankLeftShape)
    .Doc(R"doc(
Multiplies matrices by the right factors of the last step: the first round of PowerSGD.

A tensor is a matrix of as many columns as its last dimension has. A factor has
`rank` vectors, one after another; vectors of `last_right` count by their direction,
and those that are zero are drawn at random. The mean of `left` over ranks is the
input of LowRankRight. Does not depend on the number of threads.

Fails with InvalidArgument for a tensor of fewer than two dimensions, and for a right
factor of another size.

matrices: Of at least two dimensions.
last_right: rank * columns floats each; zeros before the first step.
seed: Scalar. Must be the same on all ranks of a step.
left: 1-D, rank * rows floats of each matrix, end to end. Not finite where the matrix
  is not.
nanoseconds: Scalar. Time spent.
)doc");

REGISTER_OP("Tfcompress>LowRankRight")
    .Input("matrices: N * float")
    .Input("summed_left: float")
    .Output("left: float")
    .Output("right: float")
    .Output("nanoseconds: int64")
    .Attr("N: int >= 1")
    .Attr("rank: int >= 1")
    .SetShapeFn(LowRankRightShape)
    .Doc(R"doc(
Makes summed left factors orthonormal, and multiplies the transposed matrices by
them. This is the second round of PowerSGD.

Equal sums give equal bits of `left` on every machine. The mean of `right` over ranks
is the input of LowRankDecode.

Fails with InvalidArgument for a tensor of fewer than two dimensions, and for a sum of
another size than LowRankLeft makes.

matrices: Those of LowRankLeft.
summed_left: The mean, or any multiple of it, of LowRankLeft's output over ranks.
left: Of the same size: orthonormal vectors; one that depends on others is zero.
right: 1-D, rank * columns floats of each matrix, end to end. All NaN if `summed_left`
  is not finite.
nanoseconds: Scalar. Time spent.
)doc");

REGISTER_OP("Tfcompress>LowRankDecode")
    .Input("matrices: N * float")
    .Input("left: float")
    .Input("right: float")
    .Input("scale: float")
    .Output("decoded: N * float")
    .Output("residuals: num_residuals * float")
    .Output("finite: bool")
    .Output("nanoseconds: int64")
    .Attr("N: int >= 1")
    .Attr("rank: int >= 1")
    .Attr("num_residuals: int >= 0")
    .SetShapeFn(LowRankDecodeShape)
    .Doc(R"doc(
Multiplies out low-rank factors, and takes the product out of the matrices.

Equal factors give equal bits of `decoded` on every machine.

Fails with InvalidArgument for a tensor of fewer than two dimensions, for factors of
another size, and for a number of residuals other than 0 and N.

matrices: Those of LowRankLeft.
left: That of LowRankRight.
right: The mean of LowRankRight's output over ranks.
scale: Scalar. Multiplies `decoded`, and not what is taken out.
decoded: Of the shapes of `matrices`; all NaN unless `finite`.
residuals: Of the same shapes: matrices less the product; undefined unless `finite`.
finite: Scalar. Whether `right` and everything decoded is finite.
nanoseconds: Scalar. Time spent.
num_residuals: N, or 0 where nobody needs them.
)doc");

}  // namespace tfcompress
