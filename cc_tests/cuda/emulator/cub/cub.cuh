// The functions of CUB that cc_ops/cuda uses, over the emulator beside this folder.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUB_CUB_CUH_
#define TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUB_CUB_CUH_

#include <cuda_runtime.h>

namespace cub {

struct DeviceScan {
  // Asks for the size of the temporary storage where it is null.
  template <typename T>
  static cudaError_t ExclusiveSum(void* storage, size_t& storage_bytes, const T* in, T* out,
                                  int64_t num_items, cudaStream_t stream) {
    constexpr size_t kStorageBytes = 767;  // As CUB's: of no round size.
    if (storage == nullptr) {
      storage_bytes = kStorageBytes;
      return cudaSuccess;
    }
    const size_t num_bytes = static_cast<size_t>(num_items) * sizeof(T);
    if (storage_bytes < kStorageBytes || !emulator::IsDevice(storage, kStorageBytes) ||
        !emulator::IsDevice(in, num_bytes) || !emulator::IsDevice(out, num_bytes)) {
      return cudaErrorInvalidValue;
    }
    return emulator::Enqueue(stream, [=]() {
      T sum = 0;
      for (int64_t i = 0; i < num_items; ++i) {
        const T item = in[i];
        out[i] = sum;
        sum += item;
      }
      return cudaSuccess;
    });
  }
};

}  // namespace cub

#endif  // TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUB_CUB_CUH_
