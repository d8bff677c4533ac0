// The functions of CUB that cc_ops/cuda uses, over the emulator beside this folder.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUB_CUB_CUH_
#define TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUB_CUB_CUH_

#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cub {

// CUB takes the last error of any call of the thread for its own.
template <typename Operation>
cudaError_t EnqueueAndReport(cudaStream_t stream, const Operation& operation) {
  const cudaError_t error = emulator::Enqueue(stream, operation);
  return error != cudaSuccess ? error : cudaPeekAtLastError();
}

// Input and output must not overlap.
class DeviceRadixSort {
 public:
  // Sorts by the bits [begin_bit, end_bit) of the keys; returns the size of the temporary storage
  // if that is null.
  template <typename Key, typename Value>
  static cudaError_t SortPairs(void* storage, size_t& storage_bytes, const Key* keys_in,
                               Key* keys_out, const Value* values_in, Value* values_out,
                               int64_t num_items, int begin_bit, int end_bit, cudaStream_t stream) {
    const size_t num_bytes = static_cast<size_t>(num_items) * sizeof(Value);
    if (storage != nullptr && !AreApart(values_in, values_out, num_bytes))
      return cudaErrorInvalidValue;
    return Sort(storage, storage_bytes, keys_in, keys_out, num_items, begin_bit, end_bit, stream,
                [=](int64_t from, int64_t to) { values_out[to] = values_in[from]; });
  }

 private:
  static bool AreApart(const void* in, const void* out, size_t num_bytes) {
    const auto* a = static_cast<const char*>(in);
    const auto* b = static_cast<const char*>(out);
    return emulator::IsDevice(in, num_bytes) && emulator::IsDevice(out, num_bytes) &&
           (a + num_bytes <= b || b + num_bytes <= a);
  }

  template <typename Key, typename Move>
  static cudaError_t Sort(void* storage, size_t& storage_bytes, const Key* keys_in, Key* keys_out,
                          int64_t num_items, int begin_bit, int end_bit, cudaStream_t stream,
                          const Move& move) {
    // Not a round size, and growing with the items and the bits, as with CUB.
    const size_t num_bytes = static_cast<size_t>(num_items) * sizeof(Key);
    const size_t wanted_bytes = 1023 + 64 * static_cast<size_t>(end_bit) + 2 * num_bytes;
    if (storage == nullptr) {
      storage_bytes = wanted_bytes;
      return cudaSuccess;
    }
    if (storage_bytes < wanted_bytes || !emulator::IsDevice(storage, wanted_bytes) ||
        !AreApart(keys_in, keys_out, num_bytes) || begin_bit < 0 || end_bit < begin_bit ||
        end_bit > static_cast<int>(8 * sizeof(Key))) {
      return cudaErrorInvalidValue;
    }
    return EnqueueAndReport(stream, [=]() {
      std::vector<int64_t> order(static_cast<size_t>(num_items));
      std::iota(order.begin(), order.end(), 0);
      const auto digits = [=](int64_t i) {
        const uint64_t below = end_bit == 64 ? ~uint64_t{0} : (uint64_t{1} << end_bit) - 1;
        return (uint64_t{keys_in[i]} & below) >> begin_bit;
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return digits(a) < digits(b); });
      for (int64_t to = 0; to < num_items; ++to) {
        const int64_t from = order[static_cast<size_t>(to)];
        keys_out[to] = keys_in[from];
        move(from, to);
      }
      return cudaSuccess;
    });
  }
};

}  // namespace cub

#endif  // TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUB_CUB_CUH_
