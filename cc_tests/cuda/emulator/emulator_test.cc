// The emulator finds the mistakes that it is meant to find.
#include <gtest/gtest.h>

#include <cub/cub.cuh>
#include <thread>
#include <vector>

namespace {

template <typename... Parameters, typename... Arguments>
cudaError_t RunKernel(void (*kernel)(Parameters...), unsigned num_blocks, unsigned num_threads,
                      Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(num_blocks);
  config.blockDim = dim3(num_threads);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error == cudaSuccess) return cudaStreamSynchronize(nullptr);
  return cudaGetLastError();  // Which later tests shall not hear of.
}

int* Allocate(size_t count) {
  int* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, count * sizeof(int)), cudaSuccess);
  return data;
}

__global__ void WriteThread(int* out) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<int>(1000 * blockIdx.x + threadIdx.x);
}

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  int* out = Allocate(3 * 64);
  ASSERT_EQ(RunKernel(WriteThread, 3, 64, out), cudaSuccess);
  for (int i = 0; i < 3 * 64; ++i) EXPECT_EQ(out[i], i / 64 * 1000 + i % 64);
  EXPECT_EQ(cudaFree(out), cudaSuccess);
}

__global__ void ReverseInBlock(int* data, bool waits) {
  __shared__ int shared[128];
  shared[threadIdx.x] = data[threadIdx.x];
  if (waits) __syncthreads();
  data[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

// Counts the wrong results over ten orders of the threads.
int NumWrongReversals(bool waits) {
  int num_wrong = 0;
  int* data = Allocate(128);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    emulator::SetSeed(seed);
    for (int i = 0; i < 128; ++i) data[i] = i;
    EXPECT_EQ(RunKernel(ReverseInBlock, 1, 128, data, waits), cudaSuccess);
    bool right = true;
    for (int i = 0; i < 128; ++i) right &= data[i] == 127 - i;
    num_wrong += !right;
  }
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  return num_wrong;
}

TEST(Emulator, ABarrierMakesWritesVisible) { EXPECT_EQ(NumWrongReversals(true), 0); }
TEST(Emulator, AMissingBarrierShows) { EXPECT_EQ(NumWrongReversals(false), 10); }

__global__ void ReadSharedBeforeWriting(int* out) {
  __shared__ int shared;
  if (threadIdx.x != 0) return;
  out[blockIdx.x] = shared;
  shared = 5;
}

TEST(Emulator, SharedAndFreshMemoryArePoisoned) {
  int* out = Allocate(2);
  const int fresh = out[0];
  EXPECT_NE(fresh, 0);
  ASSERT_EQ(RunKernel(ReadSharedBeforeWriting, 2, 32, out), cudaSuccess);
  EXPECT_TRUE(out[0] == fresh && out[1] == fresh);
  EXPECT_EQ(cudaFree(out), cudaSuccess);
}

__global__ void HalfWaits(int) {
  if (threadIdx.x < blockDim.x / 2) __syncthreads();
}
__global__ void SomeLanesVote(int num_lanes) {
  if (static_cast<int>(threadIdx.x) < num_lanes) __ballot_sync(0xFFFFFFFFu, 1);
}
__global__ void LanesDisagree(int) {
  if (threadIdx.x % 2 == 0) {
    __ballot_sync(0xFFFFFFFFu, 1);
  } else {
    __shfl_sync(0xFFFFFFFFu, 1, 0);
  }
}
__global__ void PartialMask(int) { __ballot_sync(0xFFFFu, 1); }

TEST(Emulator, BarriersThatSomeThreadsMissAreErrors) {
  EXPECT_EQ(RunKernel(HalfWaits, 1, 64, 0), cudaErrorLaunchFailure);
  EXPECT_EQ(RunKernel(SomeLanesVote, 1, 32, 31), cudaErrorLaunchFailure);
  EXPECT_EQ(RunKernel(LanesDisagree, 1, 32, 0), cudaErrorLaunchFailure);
  EXPECT_EQ(RunKernel(PartialMask, 1, 32, 0), cudaErrorLaunchFailure);
  EXPECT_EQ(RunKernel(SomeLanesVote, 1, 64, 32), cudaSuccess);  // Whole warps may diverge.
  EXPECT_EQ(RunKernel(SomeLanesVote, 1, 33, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(RunKernel(HalfWaits, 0, 32, 0), cudaErrorInvalidConfiguration);
}

__global__ void WarpOperations(unsigned* out) {
  const unsigned lane = threadIdx.x;
  unsigned* own = out + 5 * lane;
  own[0] = __ballot_sync(0xFFFFFFFFu, lane % 3 == 0);
  own[1] = __shfl_sync(0xFFFFFFFFu, 10 * lane, 7);
  own[2] = __shfl_up_sync(0xFFFFFFFFu, 10 * lane, 2);
  own[3] = __shfl_xor_sync(0xFFFFFFFFu, 10 * lane, 5);
  own[4] = static_cast<unsigned>(__any_sync(0xFFFFFFFFu, lane == 31));
}

TEST(Emulator, WarpOperationsExchangeLanes) {
  unsigned* out = reinterpret_cast<unsigned*>(Allocate(5 * 32));
  ASSERT_EQ(RunKernel(WarpOperations, 1, 32, out), cudaSuccess);
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[5 * lane], 0x49249249u);
    EXPECT_EQ(out[5 * lane + 1], 70u);
    EXPECT_EQ(out[5 * lane + 2], lane < 2 ? 10 * lane : 10 * (lane - 2));
    EXPECT_EQ(out[5 * lane + 3], 10 * (lane ^ 5));
    EXPECT_EQ(out[5 * lane + 4], 1u);
  }
  EXPECT_EQ(cudaFree(out), cudaSuccess);
}

#if !defined(__SANITIZE_ADDRESS__)  // The sanitizer would end the process at the write.
TEST(Emulator, WritesAroundAnAllocationAreErrors) {
  int* out = Allocate(63);
  EXPECT_EQ(RunKernel(WriteThread, 1, 64, out), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaFree(out), cudaErrorIllegalAddress);
}
#endif

TEST(Emulator, StreamsRunWhenTheyAreSynchronized) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  int* data = Allocate(1);
  const int from = 42;
  int to = 0;
  ASSERT_EQ(cudaMemcpyAsync(data, &from, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&to, data, 4, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(to, 0);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(to, 42);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Emulator, StreamsMayRunAtOnceExceptCopiesToTheHost) {
  int* data = Allocate(1);
  int copied = 1;
  emulator::RunAtOnce(true);
  ASSERT_EQ(cudaMemsetAsync(data, 0, sizeof(int), nullptr), cudaSuccess);
  EXPECT_EQ(*data, 0);
  ASSERT_EQ(cudaMemcpyAsync(&copied, data, sizeof(int), cudaMemcpyDeviceToHost, nullptr),
            cudaSuccess);
  EXPECT_EQ(copied, 1);
  ASSERT_EQ(cudaMemsetAsync(data, 2, sizeof(int), nullptr), cudaSuccess);
  emulator::RunAtOnce(false);
  EXPECT_EQ(copied, 0);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Emulator, DefaultStreamsAreOne) {
  int* data = Allocate(1);
  const int from = 42;
  const auto of_thread = reinterpret_cast<cudaStream_t>(uintptr_t{2});
  ASSERT_EQ(cudaMemcpyAsync(data, &from, 4, cudaMemcpyHostToDevice, of_thread), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(*data, 42);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Emulator, EventsAreRecordedInTheirStream) {
  cudaEvent_t begin = nullptr, end = nullptr;
  ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(begin, nullptr), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, nullptr), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
}

TEST(Emulator, AStreamWaitsForAnEventOfAnother) {
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  int* data = Allocate(2);
  data[1] = 0;
  ASSERT_EQ(cudaMemsetAsync(data, 1, sizeof(int), streams[0]), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, streams[0]), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(data, 2, sizeof(int), streams[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(streams[1], event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(data + 1, data, sizeof(int), cudaMemcpyDeviceToDevice, streams[1]),
            cudaSuccess);
  EXPECT_EQ(data[1], 0);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  const int64_t waits_before = emulator::NumSynchronizations();
  ASSERT_EQ(cudaStreamSynchronize(streams[1]), cudaSuccess);
  EXPECT_EQ(emulator::NumSynchronizations() - waits_before, 1);
  EXPECT_EQ(data[1], 0x01010101);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  for (cudaStream_t stream : streams) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(Emulator, EventsMayBeDestroyedBeforeTheirStreamReachesThem) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
}

// Reverses on a stream of its own; returns the number of wrong elements.
int ReverseApart() {
  constexpr int kSize = 128;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  int* data = Allocate(kSize);
  for (int i = 0; i < kSize; ++i) data[i] = i;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(kSize);
  config.stream = stream;
  EXPECT_EQ(cudaLaunchKernelEx(&config, ReverseInBlock, data, true), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  int num_wrong = 0;
  for (int i = 0; i < kSize; ++i) num_wrong += data[i] != kSize - 1 - i;
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  return num_wrong;
}

TEST(Emulator, ServesThreadsOneAfterAnother) {
  constexpr int kThreads = 4;
  int num_wrong[kThreads];
  emulator::SetMeeting(kThreads);
  std::vector<std::thread> threads;
  for (int& of_thread : num_wrong)
    threads.emplace_back([&of_thread] { of_thread = ReverseApart(); });
  for (std::thread& thread : threads) thread.join();
  for (int of_thread : num_wrong) EXPECT_EQ(of_thread, 0);
}

TEST(Emulator, PointerAttributesNameTheMemory) {
  int host = 0;
  int* data = Allocate(2);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, data + 1), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, data + 2), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &host), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Emulator, CopiesCheckTheirDirection) {
  int host = 0;
  int* data = Allocate(1);
  EXPECT_EQ(cudaMemcpyAsync(data, &host, 8, cudaMemcpyHostToDevice, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(&host, &host, 4, cudaMemcpyDeviceToHost, nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(&host, 0, 4, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Emulator, ASortReturnsTheErrorOfACallBeforeIt) {
  auto* data = reinterpret_cast<unsigned*>(Allocate(4000));
  const auto sort = [data]() {
    size_t num_bytes = 2000;
    return cub::DeviceRadixSort::SortPairs(data + 100, num_bytes, data, data + 1, data + 2,
                                           data + 3, 1, 0, 4, nullptr);
  };
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidValue);
  EXPECT_EQ(sort(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(sort(), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Emulator, FindsTheFirstBitCountedFromOne) {
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffsll(0), 0);
  for (int bit = 0; bit < 64; ++bit)
    EXPECT_EQ(__ffsll(static_cast<long long>(-1ull << bit)), bit + 1);
}

TEST(Emulator, SortsByTheBitsOfTheKeysAndKeepsTheOrderOfEqualOnes) {
  constexpr int kItems = 5;
  const unsigned keys[kItems] = {0x13, 0x21, 0x03, 0x11, 0x31};
  unsigned* data = reinterpret_cast<unsigned*>(Allocate(4 * kItems));
  unsigned *keys_in = data, *keys_out = data + kItems;
  unsigned *values_in = data + 2 * kItems, *values_out = data + 3 * kItems;
  for (unsigned i = 0; i < kItems; ++i) {
    keys_in[i] = keys[i];
    values_in[i] = i;
  }
  const auto sort = [&](void* storage, size_t& num_bytes, unsigned* to) {
    return cub::DeviceRadixSort::SortPairs(storage, num_bytes, keys_in, to, values_in, values_out,
                                           kItems, 0, 4, nullptr);
  };
  size_t num_bytes = 0;
  ASSERT_EQ(sort(nullptr, num_bytes, keys_out), cudaSuccess);
  int* storage = Allocate(num_bytes / sizeof(int) + 1);
  size_t too_few = num_bytes - 1;
  EXPECT_EQ(sort(storage, too_few, keys_out), cudaErrorInvalidValue);
  EXPECT_EQ(sort(storage, num_bytes, keys_in + 1), cudaErrorInvalidValue);  // They overlap.
  ASSERT_EQ(sort(storage, num_bytes, keys_out), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  const unsigned expected[kItems] = {1, 3, 4, 0, 2};
  for (int i = 0; i < kItems; ++i) {
    EXPECT_EQ(values_out[i], expected[i]);
    EXPECT_EQ(keys_out[i], keys[expected[i]]);
  }
  EXPECT_EQ(cudaFree(storage), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

}  // namespace
