// Device memory and streams that tests own.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_DEVICE_MEMORY_H_
#define TFCOMPRESS_CC_TESTS_CUDA_DEVICE_MEMORY_H_

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "core/span.h"
#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

inline void ExpectOk(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreate(&stream_), cudaSuccess); }
  ~Stream() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void Synchronize() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

template <typename T>
using HostVector = std::conditional_t<std::is_same_v<T, unsigned char>, Bytes, std::vector<T>>;

// Copies memory that others own to the host.
template <typename T>
HostVector<T> Read(const T* data_dev, size_t size, const Stream& stream) {
  HostVector<T> values(size);
  EXPECT_EQ(cudaMemcpyAsync(values.data(), data_dev, size * sizeof(T), cudaMemcpyDeviceToHost,
                            stream.get()),
            cudaSuccess);
  stream.Synchronize();
  return values;
}

template <typename T>
class DeviceVector {
 public:
  explicit DeviceVector(size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(&data_dev_, size * sizeof(T)), cudaSuccess);
  }
  DeviceVector(const HostVector<T>& values, const Stream& stream) : DeviceVector(values.size()) {
    EXPECT_EQ(cudaMemcpyAsync(data_dev_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice,
                              stream.get()),
              cudaSuccess);
    stream.Synchronize();
  }
  ~DeviceVector() { EXPECT_EQ(cudaFree(data_dev_), cudaSuccess); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;

  T* data_dev() const { return data_dev_; }
  size_t size() const { return size_; }
  DeviceBuffer buffer() const { return {data_dev_, size_ * sizeof(T)}; }

  HostVector<T> ToHost(const Stream& stream) const {
    HostVector<T> values(size_);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data_dev_, size_ * sizeof(T), cudaMemcpyDeviceToHost,
                              stream.get()),
              cudaSuccess);
    stream.Synchronize();
    return values;
  }

 private:
  T* data_dev_ = nullptr;
  size_t size_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_DEVICE_MEMORY_H_
