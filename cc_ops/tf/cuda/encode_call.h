// Calls of the ops that encode gradients on a GPU.
#ifndef TFCOMPRESS_TF_CUDA_ENCODE_CALL_H_
#define TFCOMPRESS_TF_CUDA_ENCODE_CALL_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "core/compressor.h"
#include "core/dtype.h"
#include "core/status.h"
#include "cuda/memory_spec.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

class JointEncodeKernel;

// A vector on the device that gets a frame.
struct FrameJob {
  const void* gradient_dev;
  uint64_t n;
  std::vector<device::DeviceSlot> slots;
};

// What was encoded of a call.
struct EncodedCounts {
  std::vector<int64_t> num_bytes;  // Of each frame.
  int64_t num_sent = 0;            // Elements of all frames.
};

// What a call wants encoded.
struct EncodeJob {
  std::shared_ptr<const Compressor> compressor;  // Null if nothing is left to do but to finish.
  DType dtype = DType::kFloat32;
  device::MemoryRule rule = device::MemoryRule::kOfGradient;
  uint64_t seed = 0;
  uint64_t num_elements = 0;     // That are read: what `frames` and `prepare` take.
  std::vector<FrameJob> frames;  // Output 0 has them end to end.
  // Puts on the stream what comes before the encoding; may be empty.
  std::function<Status(cudaStream_t)> prepare;
  // Encodes with the core, and sets the frames and, where `finish` reads them, the counts.
  std::function<absl::Status(EncodedCounts* counts)> on_host;
  // Sets the outputs after the frames. `nanoseconds` is the share of the elements in the time on
  // the stream.
  std::function<absl::Status(const EncodedCounts& counts, int64_t nanoseconds)> finish;
};

struct EncodeCall {
  JointEncodeKernel* kernel;
  tensorflow::OpKernelContext* ctx;
  tensorflow::AsyncOpKernel::DoneCallback done;
  EncodeJob job;
  absl::Status status;

  bool is_to_encode() const { return status.ok() && job.compressor != nullptr; }
  // Whether both can be encoded together.
  bool IsLike(const EncodeCall& other) const {
    return job.compressor->spec() == other.job.compressor->spec() && job.dtype == other.job.dtype &&
           job.rule == other.job.rule;
  }
  void Finish(const EncodedCounts& counts, int64_t nanoseconds) {
    status = job.finish(counts, nanoseconds);
  }
  // Afterwards the kernel and its context may be gone.
  void End() {
    job = {};
    ctx->SetStatus(status);
    done();
  }
};

using EncodeCalls = std::vector<EncodeCall*>;

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_ENCODE_CALL_H_
