// Frames as outputs, without a copy, in memory that steps use one after the other: the allocator
// gives large blocks back to the system, and mapping them again costs more than to encode into
// them.
#ifndef TFCOMPRESS_TF_FRAME_POOL_H_
#define TFCOMPRESS_TF_FRAME_POOL_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfcompress {

// Of one kernel. Thread-safe; lives as long as an output does.
class FramePool {
 public:
  static std::shared_ptr<FramePool> Make() { return std::make_shared<FramePool>(); }

  // Memory for frames, empty.
  Bytes Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.empty()) return {};
    Bytes frames = std::move(idle_.back());
    idle_.pop_back();
    frames.clear();
    return frames;
  }

  // Sets output 0 to these frames, whose memory comes back when no one holds the output any more.
  static void Output(const std::shared_ptr<FramePool>& pool, tensorflow::OpKernelContext* ctx,
                     Bytes frames) {
    const auto num_bytes = static_cast<int64_t>(frames.size());
    const tensorflow::core::RefCountPtr<Buffer> buffer(new Buffer(pool, std::move(frames)));
    ctx->set_output(0, tensorflow::Tensor(tensorflow::DT_UINT8, {num_bytes}, buffer.get()));
  }

 private:
  class Buffer : public tensorflow::TensorBuffer {
   public:
    Buffer(std::shared_ptr<FramePool> pool, Bytes frames)
        : TensorBuffer(frames.data()), pool_(std::move(pool)), frames_(std::move(frames)) {}
    ~Buffer() override { pool_->Put(std::move(frames_)); }

    size_t size() const override { return frames_.size(); }
    TensorBuffer* root_buffer() override { return this; }
    void FillAllocationDescription(tensorflow::AllocationDescription*) const override {}

   private:
    const std::shared_ptr<FramePool> pool_;
    Bytes frames_;
  };

  void Put(Bytes frames) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(frames));
  }

  std::mutex mutex_;
  std::vector<Bytes> idle_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_FRAME_POOL_H_
