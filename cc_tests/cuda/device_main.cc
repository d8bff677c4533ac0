// Runs the tests if there is a device. Otherwise prints that there is none and exits with
// automake's code for a skipped test.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr int kSkipped = 77;
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    std::printf("no GPU: nothing was tested (%s)\n", cudaGetErrorString(error));
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
