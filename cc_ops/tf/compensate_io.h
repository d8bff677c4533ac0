// Inputs of Compensate, the same on every device.
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

// The memory of a spec. Shares ownership with the parsed spec.
struct MemoryOfSpec {
  std::string part;  // Memory part of the canonical spec.
  std::shared_ptr<const Memory> memory;
};

// Caches the memories of the specs, framed or linear, that a kernel gets. Thread-safe.
class MemoryCache {
 public:
  absl::Status Get(const std::string& spec, MemoryOfSpec* memory);

 private:
  LinearCompressorCache linear_;
  CompressorCache framed_;
};

// Gradient and slots are in the memory of the kernel's device.
struct CompensateInputs {
  MemoryOfSpec memory;
  GradientView gradient;
  SlotVectors slots;

  int finite_output() const { return memory.memory->num_slots(); }  // After the new slots.
};

// Reads the inputs, and allocates the new slots, which are the outputs from 0 on. The first one may
// be the gradient's memory.
absl::Status ReadCompensateInputs(tensorflow::OpKernelContext* ctx, MemoryCache* memories,
                                  GradientBuffer gradient_buffer, CompensateInputs* inputs);

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_COMPENSATE_IO_H_
