#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/rows.h"
#include "core/spec.h"
#include "core/stopwatch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/dtype_conversion.h"
#include "tf/frame_pool.h"
#include "tf/kernel_io.h"
#include "tf/locked_slot.h"
#include "tf/pool_executor.h"
#include "tf/status_conversion.h"

namespace tfcompress {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class EncodeRowsKernel : public tensorflow::OpKernel {
 public:
  explicit EncodeRowsKernel(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::string row_sparsifier;
    int num_residuals;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("row_sparsifier", &row_sparsifier));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("num_residuals", &num_residuals));
    OP_REQUIRES(ctx, num_residuals <= 1,
                absl::InvalidArgumentError(
                    absl::StrCat("a table has at most one residual, got ", num_residuals)));
    auto part = ParsePart<Sparsifier>("row sparsifier", row_sparsifier);
    OP_REQUIRES_OK(ctx, ToTensorFlow(part.status()));
    row_sparsifier_ = std::move(part.value().object);
  }

  void Compute(OpKernelContext* ctx) override {
    RowsView slices;
    uint64_t seed = 0;
    int32_t num_owners = 0;
    OP_REQUIRES_OK(ctx, ReadSlices(ctx, &slices));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, "num_owners", &num_owners));
    OP_REQUIRES(ctx, num_owners >= 1,
                absl::InvalidArgumentError(
                    absl::StrCat("num_owners must be at least 1, got ", num_owners)));
    std::shared_ptr<const Compressor> compressor;
    OP_REQUIRES_OK(ctx, ReadSeedAndSpec(ctx, &compressors_, &seed, &compressor));
    Bytes frames = frames_->Take();
    std::vector<int64_t> num_bytes(num_owners);
    RowCounts counts{Span<int64_t>(num_bytes)};
    int64_t nanoseconds = 0;
    OP_REQUIRES_OK(ctx, Encode(ctx, *compressor, slices, seed, &frames, &counts, &nanoseconds));
    FramePool::Output(frames_, ctx, std::move(frames));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 1, nanoseconds));
    OP_REQUIRES_OK(ctx, OutputVector<int64_t>(ctx, 2, num_bytes));
    OP_REQUIRES_OK(ctx, OutputScalar(ctx, 3, counts.num_sent));
  }

 private:
  static absl::Status ReadSlices(OpKernelContext* ctx, RowsView* slices) {
    const Tensor& values = ctx->input(0);
    const Tensor* indices;
    int64_t num_rows = 0;
    TF_RETURN_IF_ERROR(ReadVector(ctx, "indices", &indices));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, "num_rows", &num_rows));
    if (values.dims() < 1 || values.dim_size(0) != indices->NumElements()) {
      return absl::InvalidArgumentError(absl::StrCat("values must have one slice for each of ",
                                                     indices->NumElements(), " indices, got shape ",
                                                     values.shape().DebugString()));
    }
    if (num_rows < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_rows must not be negative, got ", num_rows));
    }
    uint64_t width = 1;
    for (int i = 1; i < values.dims(); ++i) width *= values.dim_size(i);
    *slices = {values.data(),
               ToDType(values.dtype()),
               indices->data(),
               indices->dtype() == tensorflow::DT_INT32 ? IdType::kInt32 : IdType::kInt64,
               static_cast<uint64_t>(indices->NumElements()),
               width,
               static_cast<uint64_t>(num_rows)};
    return absl::OkStatus();
  }

  // Encodes, and holds the residual's lock only while doing so.
  absl::Status Encode(OpKernelContext* ctx, const Compressor& compressor, const RowsView& slices,
                      uint64_t seed, Bytes* frames, RowCounts* counts, int64_t* nanoseconds) const {
    tensorflow::OpInputList handles;
    TF_RETURN_IF_ERROR(ctx->input_list("residual", &handles));
    LockedSlot residual;
    if (handles.size() > 0) {
      TF_RETURN_IF_ERROR(
          residual.Acquire(ctx, handles[0], static_cast<int64_t>(slices.num_rows * slices.width)));
    }
    PoolExecutor executor(ctx);
    const CodecContext context{seed, &executor};
    const Stopwatch stopwatch;
    const Status status = EncodeRowsFrames(compressor, *row_sparsifier_, slices, residual.data(),
                                           context, frames, counts);
    *nanoseconds = stopwatch.nanoseconds();
    return ToTensorFlow(status);
  }

  CompressorCache compressors_;
  const std::shared_ptr<FramePool> frames_ = FramePool::Make();
  std::unique_ptr<const Sparsifier> row_sparsifier_;
};

REGISTER_KERNEL_BUILDER(Name("Tfcompress>EncodeRows").Device(tensorflow::DEVICE_CPU),
                        EncodeRowsKernel);

}  // namespace
}  // namespace tfcompress
