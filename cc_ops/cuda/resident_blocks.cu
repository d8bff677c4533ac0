#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <utility>

#include "cuda/cuda_status.h"
#include "cuda/resident_blocks.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void NoWorkKernel() {}

// Blocks that a multiprocessor of the device runs at the same time.
Status Occupancy(int device, const void* kernel, int* num_blocks) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<int, const void*>, int>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [entry, is_new] = known->try_emplace({device, kernel}, 0);
  if (is_new) {
    cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &entry->second, kernel, static_cast<int>(kBlockThreads), 0);
    // A function of this build is only invalid where there is no code of it.
    if (error == cudaErrorInvalidDeviceFunction) error = cudaErrorNoKernelImageForDevice;
    if (error != cudaSuccess) known->erase(entry);
    TFC_RETURN_IF_ERROR(FromCuda(error, "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  }
  *num_blocks = entry->second;
  return OkStatus();
}

}  // namespace

Status ResidentBlocks(const void* kernel, uint64_t* num_blocks) {
  int device = 0, num_multiprocessors = 0, occupancy = 0;
  TFC_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&num_multiprocessors, cudaDevAttrMultiProcessorCount, device));
  TFC_RETURN_IF_ERROR(Occupancy(device, kernel, &occupancy));
  *num_blocks = static_cast<uint64_t>(num_multiprocessors) * static_cast<uint64_t>(occupancy);
  return OkStatus();
}

Status CheckHasCode() {
  uint64_t ignored = 0;
  return ResidentBlocks(reinterpret_cast<const void*>(NoWorkKernel), &ignored);
}

}  // namespace device
}  // namespace tfcompress
