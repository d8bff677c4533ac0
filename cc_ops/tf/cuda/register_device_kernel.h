// Registers kernels for GPUs where they can run.
//
// Without a kernel for GPUs, TensorFlow places an op on the CPU, and copies its inputs and outputs:
// with a driver that is too old for the CUDA of this build, training goes on there, with the same
// bytes.
#ifndef TFCOMPRESS_TF_CUDA_REGISTER_DEVICE_KERNEL_H_
#define TFCOMPRESS_TF_CUDA_REGISTER_DEVICE_KERNEL_H_

#include <initializer_list>

#include "tensorflow/core/framework/op_kernel.h"

namespace tfcompress {

// Returns whether the driver runs kernels of this build; logs once why not, if there is a driver.
bool DriverRunsKernels();

// Registers `Kernel`, an OpKernel, for `op`, whose inputs and outputs `in_host_memory` are there;
// while the op library is loaded. Returns whether it did.
template <typename Kernel>
bool RegisterDeviceKernel(const char* op, std::initializer_list<const char*> in_host_memory) {
  if (!DriverRunsKernels()) return false;
  tensorflow::KernelDefBuilder builder(op);
  builder.Device(tensorflow::DEVICE_GPU);
  for (const char* name : in_host_memory) builder.HostMemory(name);
  const auto make = [](tensorflow::OpKernelConstruction* ctx) -> tensorflow::OpKernel* {
    return new Kernel(ctx);
  };
  tensorflow::kernel_factory::OpKernelRegistrar(builder.Build(), op, make);
  return true;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_REGISTER_DEVICE_KERNEL_H_
