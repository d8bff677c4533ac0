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

// Whether kernels for GPUs write and read packets in memory of the device, where Horovod gathers
// with NCCL, and not of the host: if TFC_PACKETS was "device" when the library was loaded, which
// tfcompress/devices.py sees to.
bool PacketsAreOnDevice();

// Registers `Kernel`, an OpKernel, for `op`, whose inputs and outputs `in_host_memory` are there,
// and `packets`, an input or an output, if packets are; while the op library is loaded. Returns
// whether it did.
template <typename Kernel>
bool RegisterDeviceKernel(const char* op, std::initializer_list<const char*> in_host_memory,
                          const char* packets = nullptr) {
  if (!DriverRunsKernels()) return false;
  tensorflow::KernelDefBuilder builder(op);
  builder.Device(tensorflow::DEVICE_GPU);
  for (const char* name : in_host_memory) builder.HostMemory(name);
  if (packets != nullptr && !PacketsAreOnDevice()) builder.HostMemory(packets);
  const auto make = [](tensorflow::OpKernelConstruction* ctx) -> tensorflow::OpKernel* {
    return new Kernel(ctx);
  };
  tensorflow::kernel_factory::OpKernelRegistrar(builder.Build(), op, make);
  return true;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_REGISTER_DEVICE_KERNEL_H_
