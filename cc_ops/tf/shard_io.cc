#include "tf/shard_io.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tf/decode_sum_io.h"
#include "tf/kernel_io.h"

namespace tfcompress {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr int kFirstSlotOfSum = 3;  // Outputs of EncodeSum.

absl::Status CheckOwn(const OpInputList& own, int64_t begin, int64_t count, int num_slots,
                      const Compressor& compressor) {
  for (const Tensor& tensor : own) {
    if (0 <= begin && begin <= tensor.NumElements() - count) continue;
    return absl::InvalidArgumentError(absl::StrCat("a piece of ", count, " elements from ", begin,
                                                   " on is not within ", tensor.NumElements(),
                                                   " elements"));
  }
  if (num_slots != compressor.memory().num_slots()) {
    return absl::InvalidArgumentError(absl::StrCat("the memory of '", compressor.spec(), "' needs ",
                                                   compressor.memory().num_slots(), " slots, got ",
                                                   num_slots));
  }
  if (own.size() == std::max(num_slots, 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", std::max(num_slots, 1), " tensors as 'own', got ", own.size()));
}

absl::Status CopyIfElsewhere(const CopyTensor& copy, const Tensor& from, Tensor* to) {
  return to->data() == from.data() ? absl::OkStatus() : copy(from, to->data());
}

absl::Status Cut(const Tensor& cuts, const std::vector<SumTarget>& targets,
                 std::vector<CutTensor>* tensors) {
  const auto num_tensors = static_cast<int64_t>(targets.size());
  if (cuts.dims() != 2 || cuts.dim_size(0) != num_tensors) {
    return absl::InvalidArgumentError(absl::StrCat("cuts must have one row for each of ",
                                                   num_tensors, " tensors, got shape ",
                                                   cuts.shape().DebugString()));
  }
  const auto width = static_cast<size_t>(cuts.dim_size(1));
  for (size_t i = 0; i < targets.size(); ++i) {
    const Span<const int64_t> row(cuts.flat<int64_t>().data() + i * width, width);
    TF_RETURN_IF_ERROR(ToTensorFlow(CheckCuts(row, targets[i].n)));
    tensors->push_back({static_cast<float*>(targets[i].data), row});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadPieceInputs(OpKernelContext* ctx, CompressorCache* compressors,
                             GradientBuffer gradient_buffer, PieceInputs* inputs) {
  TF_RETURN_IF_ERROR(ReadSeedAndSpec(ctx, compressors, &inputs->seed, &inputs->compressor));
  const Tensor* cuts;
  TF_RETURN_IF_ERROR(ReadVector(ctx, "cuts", &cuts));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "own", &inputs->own));
  constexpr int kNewSlots = 4;
  TF_RETURN_IF_ERROR(AllocateSlots(ctx, inputs->compressor->memory(), inputs->compressor->spec(),
                                   gradient_buffer, kNewSlots, &inputs->slots));
  const int64_t* bounds = cuts->vec<int64_t>().data();
  inputs->cuts.assign(bounds, bounds + cuts->NumElements());
  inputs->gradient = Floats(ctx->input(0));
  inputs->grid = GridOf(ctx->input(0));
  return ToTensorFlow(CheckCuts(inputs->cuts, inputs->gradient.size()));
}

absl::Status OutputPieceCounts(OpKernelContext* ctx, const std::vector<int64_t>& num_bytes,
                               int64_t num_sent, int64_t nanoseconds) {
  TF_RETURN_IF_ERROR(OutputVector<int64_t>(ctx, 1, num_bytes));
  TF_RETURN_IF_ERROR(OutputScalar(ctx, 2, num_sent));
  return OutputScalar(ctx, 3, nanoseconds);
}

absl::Status ReadOwnPieceInputs(OpKernelContext* ctx, CompressorCache* compressors,
                                const CopyTensor& copy, OwnPieceInputs* inputs) {
  TF_RETURN_IF_ERROR(ReadSeedAndSpec(ctx, compressors, &inputs->seed, &inputs->compressor));
  OpInputList own;
  TF_RETURN_IF_ERROR(ctx->input_list("own", &own));
  const Tensor* others;
  int64_t begin = 0;
  TF_RETURN_IF_ERROR(ReadVector(ctx, "others", &others));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "begin", &begin));
  const int num_slots = ctx->num_outputs() - kFirstSlotOfSum;
  TF_RETURN_IF_ERROR(CheckOwn(own, begin, others->NumElements(), num_slots, *inputs->compressor));
  for (int i = 0; i < num_slots; ++i) {
    Tensor* after;
    TF_RETURN_IF_ERROR(
        ctx->forward_input_or_allocate_output({i}, kFirstSlotOfSum + i, own[i].shape(), &after));
    TF_RETURN_IF_ERROR(CopyIfElsewhere(copy, own[i], after));
    inputs->slots.push_back(after->flat<float>().data() + begin);
  }
  inputs->n = static_cast<uint64_t>(others->NumElements());
  inputs->gradient = own[0].flat<float>().data() + begin;
  inputs->grid = GridOf(own[0]).From(begin);
  if (num_slots > 0) {
    inputs->others = *others;
    return absl::OkStatus();
  }
  // The sum goes here: in place, if nobody else has a reference.
  constexpr int kOthers = 1;  // After the gradient.
  TF_RETURN_IF_ERROR(ctx->forward_input_or_allocate_temp({kOthers}, tensorflow::DT_FLOAT,
                                                         others->shape(), &inputs->others));
  return CopyIfElsewhere(copy, *others, &inputs->others);
}

absl::Status ReadOwnSums(OpKernelContext* ctx, KeptOutputs* kept, OwnSums* sums) {
  const Tensor *packets, *sizes;
  int32_t num_ranks = 0, own = 0;
  TF_RETURN_IF_ERROR(ReadVector(ctx, "packets", &packets));
  TF_RETURN_IF_ERROR(ReadVector(ctx, "sizes", &sizes));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "num_ranks", &num_ranks));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "own", &own));
  sums->num_tensors = static_cast<size_t>(sizes->NumElements());
  for (int i = 0; i < sizes->NumElements(); ++i) {
    const int64_t size = sizes->vec<int64_t>()(i);
    if (size < 0) return absl::InvalidArgumentError(absl::StrCat("a piece of ", size, " elements"));
    const TensorShape shape({size});
    Tensor* sum;
    TF_RETURN_IF_ERROR(kept == nullptr ? ctx->allocate_output(i, shape, &sum)
                                       : kept->Allocate(ctx, i, shape, &sum));
    if (size == 0) continue;
    sums->positions.push_back(static_cast<int64_t>(sums->targets.size()));
    sums->tensors.push_back(static_cast<size_t>(i));
    sums->targets.push_back({sum->data(), DType::kFloat32, static_cast<uint64_t>(size)});
  }
  const auto num_frames = static_cast<int64_t>(sums->targets.size());
  sums->packets = {ToBytes(*packets), num_ranks, num_frames, own};
  return absl::OkStatus();
}

absl::Status OutputOwnStats(OpKernelContext* ctx, const OwnSums& sums,
                            const std::vector<DecodeStats>& stats, const Bytes& error) {
  std::vector<DecodeStats> of_tensors(sums.num_tensors);
  for (size_t i = 0; i < stats.size(); ++i) of_tensors[sums.tensors[i]] = stats[i];
  TF_RETURN_IF_ERROR(OutputStats(ctx, of_tensors));
  return OutputVector<uint8_t>(ctx, static_cast<int>(sums.num_tensors) + 3, error);
}

absl::Status ReadCutSums(OpKernelContext* ctx, KeptOutputs* kept, CutSums* sums) {
  const Tensor *packets, *cuts;
  TF_RETURN_IF_ERROR(ReadVector(ctx, "packets", &packets));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "scale", &sums->scale));
  TF_RETURN_IF_ERROR(ctx->input("cuts", &cuts));
  TF_RETURN_IF_ERROR(AllocateSums(ctx, kept, &sums->targets));
  sums->packets = ToBytes(*packets);
  return Cut(*cuts, sums->targets, &sums->tensors);
}

}  // namespace tfcompress
