// An emulator of the CUDA runtime, for tests: the sources of cc_ops/cuda compile against it as
// plain C++ and run on the CPU. It has only the functions that they use.
//
// - Device memory is host memory, poisoned when allocated, with guards that are checked when it is
//   freed or its stream is synchronized. Ranges are recorded: a copy in the wrong direction fails.
// - Streams run their operations when they are synchronized, so that a host which reads too early
//   finds no results.
// - A block runs its threads as fibers, one warp operation or barrier at a time, in an order that
//   emulator::SetSeed permutes, so that a missing barrier changes results. Barriers and warp
//   operations that not all threads reach fail with cudaErrorLaunchFailure. Shared memory is
//   poisoned before each block. Blocks run one after another, in a permuted order too.
//
// Threads of the process may call it at the same time: it serves one after another. It has no
// dynamic shared memory, no partial masks and no second device. Blocks never overlap: races between
// blocks are found by checks of accesses alone (access_checks.h).
#ifndef TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_RUNTIME_H_
#define TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#define CUDART_VERSION 13000
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
// Functions whose accesses are not checked where others' are: see access_checks.h.
#define TFC_UNCHECKED __attribute__((no_sanitize("thread")))
// Blocks run one after another, so one copy is enough. The section collects all these variables.
#define __shared__ static __attribute__((section("tfc_shared")))

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
};
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventBlockingSync = 1;
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice
};

enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };

enum cudaMemoryType {
  cudaMemoryTypeUnregistered,
  cudaMemoryTypeHost,
  cudaMemoryTypeDevice,
  cudaMemoryTypeManaged
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}  // NOLINT
};

struct CUstream_st;
using cudaStream_t = CUstream_st*;
struct CUevent_st;
using cudaEvent_t = CUevent_st*;

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
// The last error of a launch, an allocation or a choice of the device on this thread; the first
// one forgets it.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
// The driver is as new as the runtime.
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
// A multiprocessor runs one block at a time.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, const void* kernel,
                                                          int num_threads, size_t shared_bytes);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
cudaError_t cudaMalloc(void** pointer, size_t num_bytes);
cudaError_t cudaFree(void* pointer);
// Pinned memory of the host, which kernels may use.
cudaError_t cudaMallocHost(void** pointer, size_t num_bytes);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t num_bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
// All streams are alike.
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
// Events record the host's time when their stream reaches them.
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

template <typename T>
cudaError_t cudaMalloc(T** pointer, size_t num_bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), num_bytes);
}

struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace emulator {

inline constexpr int kWarpThreads = 32;

// From now on accepts host memory as device memory: TensorFlow allocates both on a CPU.
void TrustAllPointers();
// Sets whether streams run operations at once, since TensorFlow's CPU device does not synchronize
// streams. Copies between host and device are still delayed until the next operation or wait.
void RunAtOnce(bool at_once);
// Sets the order of threads and blocks from here on: at first that of the environment variable
// TFC_EMULATED_SEED, or 0.
void SetSeed(uint64_t seed);
// Sets the number of multiprocessors, at first TFC_EMULATED_MULTIPROCESSORS or 1056. With few, the
// threads of a launch loop over many items each.
void SetMultiprocessors(int count);
// Makes threads that wait for the device wait for each other first, until `count` of them do; at
// first TFC_EMULATED_MEETING or 0. A wait fails where the others have not come after a minute.
void SetMeeting(int count);
// Number of launches, and of waits, since the process began.
int64_t NumLaunches();
int64_t NumSynchronizations();
// Puts an operation into a stream. Its result becomes the stream's error.
cudaError_t Enqueue(cudaStream_t stream, std::function<cudaError_t()> operation);
// Runs `thread` once for each thread of each block.
cudaError_t RunGrid(dim3 grid, dim3 block, const std::function<void()>& thread);
// Returns the error of a call that failed, and keeps it as the thread's last one.
cudaError_t Failed(cudaError_t error);
// Whether all of [pointer, pointer + num_bytes) is device memory.
bool IsDevice(const void* pointer, size_t num_bytes);
bool HasCode();  // Whether kernels can be launched.

// The values that the lanes of the calling thread's warp passed to a warp operation.
struct Exchange {
  uint64_t values[kWarpThreads];
  uint32_t ballot;  // Bit l: values[l] is not 0.
};
// Exchanges values in the warp. `operation` must be the same for all lanes. The result is valid
// until the lane's next warp operation.
const Exchange& ExchangeInWarp(const char* operation, unsigned mask, uint64_t value);
void WaitForBlock();
void SynchronizeWarp(unsigned mask);
void NoteFence();
unsigned Lane();
// Before an atomic operation of the code at `where`.
void BeginAtomic(const void* address, size_t num_bytes, const void* where);
// Replaces the word by update(word); returns what it was.
template <typename T, typename Update>
TFC_UNCHECKED T ReplaceAtomically(T* address, const Update& update) {
  BeginAtomic(address, sizeof(T), __builtin_return_address(0));
  const T before = *address;
  *address = update(before);
  return before;
}

template <typename T>
T Shuffle(const char* operation, unsigned mask, T value, unsigned source, bool in_range = true) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t word = 0;
  __builtin_memcpy(&word, &value, sizeof(T));
  const Exchange& exchange = ExchangeInWarp(operation, mask, word);
  if (in_range) __builtin_memcpy(&value, &exchange.values[source % kWarpThreads], sizeof(T));
  return value;
}

}  // namespace emulator

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  constexpr unsigned kMaxGridRows = 65535;
  if (grid.x == 0 || grid.y == 0 || grid.y > kMaxGridRows || block.x == 0 || block.x > 1024)
    return emulator::Failed(cudaErrorInvalidConfiguration);
  if (!emulator::HasCode()) return emulator::Failed(cudaErrorNoKernelImageForDevice);
  std::tuple<Parameters...> copied(std::forward<Arguments>(arguments)...);
  return emulator::Enqueue(config->stream, [=]() {
    return emulator::RunGrid(grid, block, [&]() { std::apply(kernel, copied); });
  });
}

// Indices of the running thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

inline void __syncthreads() { emulator::WaitForBlock(); }
// What a thread writes, all see; checks of accesses demand it.
inline void __threadfence() { emulator::NoteFence(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) { emulator::SynchronizeWarp(mask); }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return emulator::ExchangeInWarp("ballot", mask, predicate != 0).ballot;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return emulator::Shuffle("shfl", mask, value, static_cast<unsigned>(lane));
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
  const unsigned lane = emulator::Lane();
  return emulator::Shuffle("shfl_up", mask, value, lane - delta, lane >= delta);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return emulator::Shuffle("shfl_xor", mask, value,
                           emulator::Lane() ^ static_cast<unsigned>(lanes));
}

inline int __popc(unsigned word) { return __builtin_popcount(word); }
inline int __ffs(int word) { return __builtin_ffs(word); }
inline int __ffsll(long long word) { return __builtin_ffsll(word); }
inline unsigned __brev(unsigned word) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (word >> bit & 1) << (31 - bit);
  return reversed;
}

template <typename T>
T atomicAdd(T* address, T value) {
  return emulator::ReplaceAtomically(address,
                                     [=](T before) { return static_cast<T>(before + value); });
}
template <typename T>
T atomicMax(T* address, T value) {
  return emulator::ReplaceAtomically(
      address, [=](T before) { return static_cast<T>(value > before ? value : before); });
}
template <typename T>
T atomicMin(T* address, T value) {
  return emulator::ReplaceAtomically(
      address, [=](T before) { return static_cast<T>(value < before ? value : before); });
}
template <typename T>
T atomicCAS(T* address, T expected, T value) {
  return emulator::ReplaceAtomically(
      address, [=](T before) { return static_cast<T>(before == expected ? value : before); });
}
template <typename T>
T atomicAnd(T* address, T value) {
  return emulator::ReplaceAtomically(address,
                                     [=](T before) { return static_cast<T>(before & value); });
}
template <typename T>
T atomicOr(T* address, T value) {
  return emulator::ReplaceAtomically(address,
                                     [=](T before) { return static_cast<T>(before | value); });
}
template <typename T>
T atomicXor(T* address, T value) {
  return emulator::ReplaceAtomically(address,
                                     [=](T before) { return static_cast<T>(before ^ value); });
}

#endif  // TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_CUDA_RUNTIME_H_
