// Inputs of Compensate, on whatever device it runs.
#ifndef TFCOMPRESS_TF_COMPENSATE_IO_H_
#define TFCOMPRESS_TF_COMPENSATE_IO_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/codec.h"
#include "core/pipeline.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/compressor_cache.h"
#include "tf/slot_vectors.h"

namespace tfcompress {

// The memory of a spec, which shares ownership with what has parsed it.
struct MemoryOfSpec {
  std::string part;  // Of the canonical spec.
  std::shared_ptr<const Memory> memory;
};

// Memories of the specs of either kind that a kernel meets. Thread-safe.
class MemoryCache {
 public:
  absl::Status Get(const std::string& spec, MemoryOfSpec* memory);

 private:
  LinearCompressorCache linear_;
  CompressorCache framed_;
};

// Gradient and slots lie where the kernel runs.
struct CompensateInputs {
  MemoryOfSpec memory;
  GradientView gradient;
  SlotVectors slots;

  int finite_output() const { return memory.memory->num_slots(); }  // After the new slots.
};

// Allocates the new slots, too: outputs 0 and on.
absl::Status ReadCompensateInputs(tensorflow::OpKernelContext* ctx, MemoryCache* memories,
                                  CompensateInputs* inputs);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_COMPENSATE_IO_H_
