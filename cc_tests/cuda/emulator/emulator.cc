// Streams, memory and the scheduler of the emulated threads; see cuda_runtime.h.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "access_checks.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

struct CUstream_st {
  std::deque<std::function<cudaError_t()>> operations;
};

struct CUevent_st {
  struct Record {
    bool is_past = false;
    std::chrono::steady_clock::time_point time;
  };

  cudaStream_t stream = nullptr;  // Stream on which the event was recorded.
  // Shared, since an event may be destroyed before its stream reaches it.
  std::shared_ptr<Record> record = std::make_shared<Record>();
};

// The linker puts these around the section of all __shared__ variables, if there are any.
extern "C" __attribute__((weak)) unsigned char __start_tfc_shared[];
extern "C" __attribute__((weak)) unsigned char __stop_tfc_shared[];

namespace emulator {
namespace {

constexpr unsigned char kPoison = 0xA5;
constexpr size_t kGuardBytes = 64;
constexpr size_t kAlignment = 256;  // That of cudaMalloc.
constexpr size_t kStackBytes = size_t{1} << 16;
constexpr size_t kStackShift = 448;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Held in all calls of the host, some of which make others.
std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;

std::mt19937_64 random_order(FromEnvironment("TFC_EMULATED_SEED", 0));
auto num_multiprocessors = static_cast<int>(FromEnvironment("TFC_EMULATED_MULTIPROCESSORS", 1056));
const bool has_code = FromEnvironment("TFC_EMULATED_CODE", 1) != 0;
int64_t num_launches = 0;
int64_t num_synchronizations = 0;
bool trusts_all_pointers = false;
bool runs_at_once = false;
CUstream_st default_stream;
std::set<CUstream_st*> streams;  // Those that were created.
thread_local cudaError_t last_error = cudaSuccess;

// Maps all default streams, such as null and 2, to one.
CUstream_st* StreamOf(cudaStream_t stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2 ? &default_stream : stream;
}

cudaError_t Fail(cudaError_t error, const char* what) {
  std::fprintf(stderr, "CUDA emulator: %s (block %u, thread %u)\n", what, blockIdx.x, threadIdx.x);
  return error;
}

// Runs the operations of a stream, up to the first error, or to an event.
cudaError_t RunAll(cudaStream_t stream, const CUevent_st::Record* until = nullptr) {
  auto& operations = StreamOf(stream)->operations;
  cudaError_t error = cudaSuccess;
  while (!operations.empty() && error == cudaSuccess && (until == nullptr || !until->is_past)) {
    const auto operation = std::move(operations.front());
    operations.pop_front();
    running = Running::kOperation;
    error = operation();
    running = Running::kNothing;
    if (TakeAccessErrors() && error == cudaSuccess) error = cudaErrorIllegalAddress;
  }
  if (error != cudaSuccess) operations.clear();
  return error;
}

// Waits for the stream, on behalf of a caller that has met the others.
cudaError_t Synchronize(cudaStream_t stream) {
  const Lock lock(mutex);
  ++num_synchronizations;
  return RunAll(stream);
}

// ---- Meetings of threads -----------------------------------------------------------------------

std::mutex meeting_mutex;
std::condition_variable meeting_is_over;
auto num_missing = static_cast<int>(FromEnvironment("TFC_EMULATED_MEETING", 0));

cudaError_t Meet() {
  std::unique_lock<std::mutex> lock(meeting_mutex);
  if (num_missing == 0) return cudaSuccess;
  if (--num_missing == 0) meeting_is_over.notify_all();
  const auto is_over = [] { return num_missing == 0; };
  if (meeting_is_over.wait_for(lock, std::chrono::minutes(1), is_over)) return cudaSuccess;
  std::fprintf(stderr, "CUDA emulator: %d threads did not come to wait, too\n", num_missing);
  ++num_missing;
  return cudaErrorNotReady;
}

// ---- Memory ------------------------------------------------------------------------------------

// Size of each allocation, by the address that the caller got. A guard is on either side.
std::map<unsigned char*, size_t>& Allocations() {
  static std::map<unsigned char*, size_t> allocations;
  return allocations;
}

#if defined(__SANITIZE_ADDRESS__)

// Under the sanitizer the guard is poisoned: it reports the access itself.
void SetGuard(unsigned char* guard) { ASAN_POISON_MEMORY_REGION(guard, kGuardBytes); }
void DropGuard(unsigned char* guard) { ASAN_UNPOISON_MEMORY_REGION(guard, kGuardBytes); }
bool IsWhole(const unsigned char*) { return true; }

#else

void SetGuard(unsigned char* guard) { std::memset(guard, kPoison, kGuardBytes); }
void DropGuard(unsigned char*) {}
bool IsWhole(const unsigned char* guard) {
  return std::all_of(guard, guard + kGuardBytes, [](unsigned char c) { return c == kPoison; });
}

#endif

cudaError_t CheckGuards() {
  for (const auto& [pointer, num_bytes] : Allocations()) {
    if (!IsWhole(pointer - kGuardBytes) || !IsWhole(pointer + num_bytes)) {
      return Fail(cudaErrorIllegalAddress, "something was written around an allocation");
    }
  }
  return cudaSuccess;
}

// ---- Fibers ------------------------------------------------------------------------------------

enum class State { kReady, kInWarp, kAtBarrier, kDone };

#if defined(__x86_64__)

extern "C" void tfc_switch_stack(void** save, void* load);
// Switches stacks: saves the callee-saved registers on the old stack and loads them from the new.
asm(R"(
.text
.globl tfc_switch_stack
.type tfc_switch_stack, @function
tfc_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tfc_switch_stack, .-tfc_switch_stack
)");

using Context = void*;
void Switch(Context* from, Context* to) { tfc_switch_stack(from, *to); }

void Prepare(Context* context, unsigned char* stack, size_t num_bytes, void (*entry)()) {
  auto* top = reinterpret_cast<void**>(stack + num_bytes);
  *--top = nullptr;  // Align as after a call: 8 bytes below a multiple of 16. Entry never returns.
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  *context = top;
}

#else

using Context = ucontext_t;
void Switch(Context* from, Context* to) { swapcontext(from, to); }

void Prepare(Context* context, unsigned char* stack, size_t num_bytes, void (*entry)()) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = num_bytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
}

#endif

struct Fiber {
  Context context;
  State state;
  std::unique_ptr<unsigned char[]> stack;
};

struct Warp {
  unsigned num_waiting = 0;
  const char* operation = nullptr;
  uint64_t brought[kWarpThreads];
  Exchange exchange;
};

// One block at a time.
Context scheduler;
std::vector<Fiber> fibers;
std::vector<Warp> warps;
unsigned num_at_barrier = 0;
const char* failure = nullptr;
const std::function<void()>* thread_body = nullptr;

void Suspend(State state) {
  Fiber& fiber = fibers[threadIdx.x];
  fiber.state = state;
  Switch(&fiber.context, &scheduler);
}

void RunThread() {
  (*thread_body)();
  Suspend(State::kDone);
}

void Resume(unsigned thread) {
  threadIdx.x = thread;
  running = Running::kKernel;
  Switch(&scheduler, &fibers[thread].context);
  running = Running::kOperation;
}

void StartBlock() {
  const unsigned num_threads = blockDim.x;
  BeginBlock(blockIdx.y * gridDim.x + blockIdx.x, num_threads / kWarpThreads);
  if (fibers.size() < num_threads) fibers.resize(num_threads);
  warps.assign((num_threads + kWarpThreads - 1) / kWarpThreads, {});
  num_at_barrier = 0;
  failure = nullptr;
  for (unsigned thread = 0; thread < num_threads; ++thread) {
    Fiber& fiber = fibers[thread];
    if (fiber.stack == nullptr) fiber.stack.reset(new unsigned char[kStackBytes]);
    // Stacks that all begin at the same offset would fight for the same lines of the cache.
    const size_t num_bytes = kStackBytes - thread % kWarpThreads * kStackShift;
    Prepare(&fiber.context, fiber.stack.get(), num_bytes, RunThread);
    fiber.state = State::kReady;
  }
  if (__start_tfc_shared != nullptr) {
    running = Running::kNothing;
    std::memset(__start_tfc_shared, kPoison,
                static_cast<size_t>(__stop_tfc_shared - __start_tfc_shared));
  }
}

// Resumes the threads in turn until all are done or none can continue.
cudaError_t RunBlock(const std::vector<unsigned>& order) {
  StartBlock();
  unsigned num_left = blockDim.x;
  bool advances = true;
  while (num_left > 0 && advances && failure == nullptr) {
    advances = false;
    for (unsigned thread : order) {
      if (fibers[thread].state != State::kReady) continue;
      Resume(thread);
      advances = true;
      num_left -= fibers[thread].state == State::kDone;
      if (failure != nullptr) break;
    }
  }
  if (num_left == 0) return cudaSuccess;
  fibers.clear();  // Frees the stacks of unfinished threads.
  return Fail(cudaErrorLaunchFailure,
              failure != nullptr ? failure : "not all threads reach a barrier or warp operation");
}

std::vector<unsigned> PermutedOrder(unsigned count) {
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random_order);
  return order;
}

}  // namespace

void TrustAllPointers() {
  const Lock lock(mutex);
  trusts_all_pointers = true;
}
void RunAtOnce(bool at_once) {
  const Lock lock(mutex);
  runs_at_once = at_once;
}
void SetSeed(uint64_t seed) {
  const Lock lock(mutex);
  random_order.seed(seed);
}
void SetMultiprocessors(int count) {
  const Lock lock(mutex);
  num_multiprocessors = count;
}
void SetMeeting(int count) {
  const std::lock_guard<std::mutex> lock(meeting_mutex);
  num_missing = count;
}
int64_t NumLaunches() {
  const Lock lock(mutex);
  return num_launches;
}
int64_t NumSynchronizations() {
  const Lock lock(mutex);
  return num_synchronizations;
}
unsigned Lane() { return threadIdx.x % kWarpThreads; }

const Exchange& ExchangeInWarp(const char* operation, unsigned mask, uint64_t value) {
  Warp& warp = warps[threadIdx.x / kWarpThreads];
  if (mask != 0xFFFFFFFFu) failure = "a warp operation of some lanes";
  if (warp.num_waiting > 0 && warp.operation != operation &&
      std::strcmp(warp.operation, operation) != 0) {
    failure = "lanes of a warp are at different operations";
  }
  warp.operation = operation;
  warp.brought[Lane()] = value;
  if (++warp.num_waiting == kWarpThreads) {
    warp.num_waiting = 0;
    warp.exchange.ballot = 0;
    for (unsigned lane = 0; lane < kWarpThreads; ++lane) {
      warp.exchange.values[lane] = warp.brought[lane];
      warp.exchange.ballot |= static_cast<uint32_t>(warp.brought[lane] != 0) << lane;
      fibers[threadIdx.x - Lane() + lane].state = State::kReady;
    }
    Suspend(State::kReady);
  } else {
    Suspend(State::kInWarp);
  }
  return warp.exchange;
}

void WaitForBlock() {
  if (++num_at_barrier < blockDim.x) return Suspend(State::kAtBarrier);
  num_at_barrier = 0;
  NoteBarrier();
  for (unsigned thread = 0; thread < blockDim.x; ++thread) fibers[thread].state = State::kReady;
  Suspend(State::kReady);
}

void SynchronizeWarp(unsigned mask) {
  Warp& warp = warps[threadIdx.x / kWarpThreads];
  if (warp.num_waiting + 1 == kWarpThreads) NoteWarpBarrier(threadIdx.x / kWarpThreads);
  ExchangeInWarp("syncwarp", mask, 0);
}

void BeginAtomic(const void* address, size_t num_bytes, const void* where) {
  if (checks_accesses) CheckAccess(address, num_bytes, Access::kAtomic, where);
}

cudaError_t RunGrid(dim3 grid, dim3 block, const std::function<void()>& thread) {
  ++num_launches;
  gridDim = grid;
  blockDim = block;
  thread_body = &thread;
  if (block.x % kWarpThreads != 0) {
    return Fail(cudaErrorInvalidConfiguration, "a block that is not of whole warps");
  }
  BeginLaunch();
  const std::vector<unsigned> order = PermutedOrder(block.x);
  for (unsigned index : PermutedOrder(grid.x * grid.y)) {
    blockIdx.x = index % grid.x;
    blockIdx.y = index / grid.x;
    const cudaError_t error = RunBlock(order);
    if (error != cudaSuccess) return error;
  }
  return CheckGuards();
}

cudaError_t Failed(cudaError_t error) { return last_error = error; }

cudaError_t Enqueue(cudaStream_t stream, std::function<cudaError_t()> operation) {
  const Lock lock(mutex);
  StreamOf(stream)->operations.push_back(std::move(operation));
  return runs_at_once ? RunAll(stream) : cudaSuccess;
}

bool HasCode() { return has_code; }

bool IsDevice(const void* pointer, size_t num_bytes) {
  const Lock lock(mutex);
  if (trusts_all_pointers) return true;
  auto* const begin = static_cast<unsigned char*>(const_cast<void*>(pointer));
  auto after = Allocations().upper_bound(begin);
  if (after == Allocations().begin()) return false;
  const auto& [first, size] = *--after;
  return begin + num_bytes <= first + size;
}

}  // namespace emulator

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorUnsupportedPtxVersion:
      return "cudaErrorUnsupportedPtxVersion";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
  }
  return "unknown";
}

const char* cudaGetErrorString(cudaError_t) { return "emulated"; }

cudaError_t cudaGetLastError() { return std::exchange(emulator::last_error, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return emulator::last_error; }

cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : emulator::Failed(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const emulator::Lock lock(emulator::mutex);
  if (attribute != cudaDevAttrMultiProcessorCount || device != 0) return cudaErrorInvalidValue;
  *value = emulator::num_multiprocessors;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, const void*, int,
                                                          size_t) {
  if (!emulator::HasCode()) return emulator::Failed(cudaErrorInvalidDeviceFunction);
  *num_blocks = 1;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const bool is_device = emulator::IsDevice(pointer, 1);
  *attributes = {is_device ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered, is_device ? 0 : -2};
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t num_bytes) {
  using namespace emulator;  // NOLINT: this is its other half.
  const size_t whole = (num_bytes + 3 * kAlignment - 1) / kAlignment * kAlignment;
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(kAlignment, whole));
  if (memory == nullptr) return emulator::Failed(cudaErrorMemoryAllocation);
  unsigned char* data = memory + kAlignment;
  std::memset(data, kPoison, num_bytes);
  const Lock lock(mutex);
  SetGuard(data - kGuardBytes);
  SetGuard(data + num_bytes);
  Allocations()[data] = num_bytes;
  NoteAllocation(data, num_bytes);
  *pointer = data;
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  using namespace emulator;  // NOLINT: this is its other half.
  if (pointer == nullptr) return cudaSuccess;
  const Lock lock(mutex);
  const cudaError_t error = Synchronize(nullptr);
  auto* data = static_cast<unsigned char*>(pointer);
  const auto found = Allocations().find(data);
  if (found == Allocations().end()) return cudaErrorInvalidValue;
  const bool is_whole = IsWhole(data - kGuardBytes) && IsWhole(data + found->second);
  DropGuard(data - kGuardBytes);
  DropGuard(data + found->second);
  Allocations().erase(found);
  NoteFree(data);
  std::free(data - kAlignment);
  return is_whole ? error : Fail(cudaErrorIllegalAddress, "an allocation's guard was overwritten");
}

cudaError_t cudaMallocHost(void** pointer, size_t num_bytes) {
  *pointer = std::malloc(num_bytes);
  return *pointer == nullptr ? emulator::Failed(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const emulator::Lock lock(emulator::mutex);
  const bool to_device = kind != cudaMemcpyDeviceToHost;
  const bool from_device = kind != cudaMemcpyHostToDevice;
  if (num_bytes > 0 && !emulator::trusts_all_pointers &&
      (emulator::IsDevice(to, num_bytes) != to_device ||
       emulator::IsDevice(from, num_bytes) != from_device)) {
    return cudaErrorInvalidValue;
  }
  const auto copy = [=]() {
    emulator::running = emulator::Running::kNothing;  // It may copy what nothing has written.
    if (num_bytes > 0) std::memcpy(to, from, num_bytes);
    if (to_device) emulator::NoteCopied(to, from, num_bytes);
    return cudaSuccess;
  };
  if (to_device && from_device) return emulator::Enqueue(stream, copy);
  emulator::StreamOf(stream)->operations.push_back(copy);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t num_bytes, cudaStream_t stream) {
  if (num_bytes > 0 && !emulator::IsDevice(pointer, num_bytes)) return cudaErrorInvalidValue;
  return emulator::Enqueue(stream, [=]() {
    emulator::running = emulator::Running::kNothing;
    if (num_bytes > 0) std::memset(pointer, value, num_bytes);
    emulator::NoteWritten(pointer, num_bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const emulator::Lock lock(emulator::mutex);
  *stream = new CUstream_st;
  emulator::streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return cudaStreamCreate(stream);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const emulator::Lock lock(emulator::mutex);
  const cudaError_t error = emulator::Synchronize(stream);
  emulator::streams.erase(stream);
  delete stream;
  return error;
}

cudaError_t cudaDeviceSynchronize() {
  cudaError_t error = emulator::Meet();
  const emulator::Lock lock(emulator::mutex);
  if (error == cudaSuccess) error = emulator::Synchronize(nullptr);
  for (CUstream_st* stream : emulator::streams) {
    if (error == cudaSuccess) error = emulator::Synchronize(stream);
  }
  return error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const cudaError_t error = emulator::Meet();
  return error == cudaSuccess ? emulator::Synchronize(stream) : error;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const emulator::Lock lock(emulator::mutex);
  event->stream = stream;
  event->record = std::make_shared<CUevent_st::Record>();
  return emulator::Enqueue(stream, [record = event->record]() {
    *record = {true, std::chrono::steady_clock::now()};
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const cudaError_t error = emulator::Meet();
  if (error != cudaSuccess) return error;
  const emulator::Lock lock(emulator::mutex);
  return event->record->is_past ? cudaSuccess : emulator::Synchronize(event->stream);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const emulator::Lock lock(emulator::mutex);
  return emulator::Enqueue(stream, [other = event->stream, record = event->record]() {
    return emulator::RunAll(other, record.get());
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const emulator::Lock lock(emulator::mutex);
  if (!begin->record->is_past || !end->record->is_past) return cudaErrorNotReady;
  const auto elapsed = end->record->time - begin->record->time;
  *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
  return cudaSuccess;
}
