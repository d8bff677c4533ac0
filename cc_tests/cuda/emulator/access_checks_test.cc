// What the checks of accesses find, and what they allow.
#include "access_checks.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

namespace {

constexpr unsigned kThreads = 64, kBlocks = 3;

// Device memory, of which nothing is written, and one launch of a kernel that gets it.
class AccessChecks : public testing::Test {
 protected:
  AccessChecks() { EXPECT_EQ(cudaMalloc(&words_, kWords * sizeof(int)), cudaSuccess); }
  ~AccessChecks() override { EXPECT_EQ(cudaFree(words_), cudaSuccess); }

  void Clear() {
    EXPECT_EQ(cudaMemsetAsync(words_, 0, kWords * sizeof(int), nullptr), cudaSuccess);
  }
  // Whether a launch has no error.
  bool Passes(void (*kernel)(int*, int), int argument = 0) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(kBlocks);
    config.blockDim = dim3(kThreads);
    EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, words_, argument), cudaSuccess);
    return cudaStreamSynchronize(nullptr) == cudaSuccess;
  }

 private:
  static constexpr size_t kWords = 1024;
  int* words_ = nullptr;
};

unsigned Thread() { return blockIdx.x * kThreads + threadIdx.x; }

void CopyWord(int* words, int from) { words[Thread()] = words[512 + Thread() + from]; }

TEST_F(AccessChecks, FindReadsOfWhatNothingHasWritten) {
  EXPECT_FALSE(Passes(CopyWord));
  Clear();
  EXPECT_TRUE(Passes(CopyWord));
}

void ReadOthers(int* words, int from) {
  words[Thread()] = 1;
  words[512 + Thread()] = words[(Thread() + from) % (kBlocks * kThreads)];
}

TEST_F(AccessChecks, FindReadsOfWhatAnotherThreadWrites) {
  Clear();
  EXPECT_TRUE(Passes(ReadOthers, 0));
  EXPECT_FALSE(Passes(ReadOthers, 1)) << "in the same warp";
  EXPECT_FALSE(Passes(ReadOthers, 32)) << "in another warp";
  EXPECT_FALSE(Passes(ReadOthers, kThreads)) << "in another block";
}

void AddToWord(int* words, int word) { words[word] += 1; }

TEST_F(AccessChecks, FindWritesBehindReadsOfTheSameThread) {
  Clear();
  EXPECT_FALSE(Passes(AddToWord));
}

enum Barrier { kNone, kOfWarp, kOfBlock };

void Exchange(int* words, int barrier, unsigned distance) {
  __shared__ int shared[kThreads];
  shared[threadIdx.x] = 1;
  if (barrier == kOfWarp) __syncwarp();
  if (barrier == kOfBlock) __syncthreads();
  words[Thread()] = shared[threadIdx.x ^ distance];
}
void ExchangeInWarp(int* words, int barrier) { Exchange(words, barrier, 1); }
void ExchangeInBlock(int* words, int barrier) { Exchange(words, barrier, 32); }

TEST_F(AccessChecks, KnowBarriers) {
  EXPECT_FALSE(Passes(ExchangeInWarp, kNone));
  EXPECT_TRUE(Passes(ExchangeInWarp, kOfWarp));
  EXPECT_TRUE(Passes(ExchangeInWarp, kOfBlock));
  EXPECT_FALSE(Passes(ExchangeInBlock, kOfWarp));
  EXPECT_TRUE(Passes(ExchangeInBlock, kOfBlock));
}

void OverwriteRead(int* words, int barrier) {
  __shared__ int shared[kThreads];
  shared[threadIdx.x] = 1;
  __syncthreads();
  const int other = shared[threadIdx.x ^ 32];
  if (barrier == kOfBlock) __syncthreads();
  shared[threadIdx.x] = 2;
  words[Thread()] = other;
}

TEST_F(AccessChecks, FindWritesOfWhatAnotherThreadReads) {
  EXPECT_FALSE(Passes(OverwriteRead, kNone));
  EXPECT_TRUE(Passes(OverwriteRead, kOfBlock));
}

void WriteOne(int* words, int is_atomic) {
  if (threadIdx.x > 0) return;
  if (is_atomic != 0) {
    atomicAdd(words, 1);
  } else {
    words[0] = 1;
  }
}

TEST_F(AccessChecks, AllowAtomicsOfSeveralBlocks) {
  Clear();
  EXPECT_FALSE(Passes(WriteOne, false));
  EXPECT_TRUE(Passes(WriteOne, true));
}

// In templates, shared memory is not where that of other kernels is.
template <typename T>
void ShareScalar(int* words, int barrier) {
  __shared__ T shared;
  if (threadIdx.x == 0) shared = T{1};
  if (barrier == kOfBlock) __syncthreads();
  words[Thread()] = shared;
}

TEST_F(AccessChecks, KnowSharedScalars) {
  EXPECT_FALSE(Passes(ShareScalar<int>, kNone));
  EXPECT_TRUE(Passes(ShareScalar<int>, kOfBlock));
}

void ReadFlag(int* words, int) {
  atomicOr(words, 1);
  words[1 + Thread()] = *words;
}
void ReadVolatileFlag(int* words, int) {
  atomicOr(words, 1);
  words[1 + Thread()] = *static_cast<volatile int*>(words);
}

TEST_F(AccessChecks, AllowVolatileReadsOfAtomics) {
  Clear();
  EXPECT_FALSE(Passes(ReadFlag));
  Clear();
  EXPECT_TRUE(Passes(ReadVolatileFlag));
}

enum Missing { kNothing, kFence, kBarrier };

// The last block reads what the others have written.
void SumByLastBlock(int* words, int missing) {
  words[1 + Thread()] = 1;
  if (missing != kBarrier) __syncthreads();
  __shared__ int num_done;
  if (threadIdx.x == 0) {
    if (missing != kFence) __threadfence();
    num_done = atomicAdd(words, 1) + 1;
  }
  __syncthreads();
  if (num_done == static_cast<int>(kBlocks))
    words[512 + threadIdx.x] = words[1 + (Thread() + kThreads) % (kBlocks * kThreads)];
}

TEST_F(AccessChecks, KnowBlocksThatWereWaitedFor) {
  Clear();
  EXPECT_TRUE(Passes(SumByLastBlock, kNothing));
  Clear();
  EXPECT_FALSE(Passes(SumByLastBlock, kFence));
  Clear();
  EXPECT_FALSE(Passes(SumByLastBlock, kBarrier));
}

// Atomics on shared memory, which is another one in each block, order no blocks.
void CountInSharedMemory(int* words, int) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (threadIdx.x > 0) return;
  __threadfence();
  atomicAdd(&count, 1);
  words[0] = count;
}

TEST_F(AccessChecks, KnowThatSharedMemoryIsOfABlock) {
  Clear();
  EXPECT_FALSE(Passes(CountInSharedMemory));
}

}  // namespace
