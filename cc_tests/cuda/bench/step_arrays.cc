#include "step_arrays.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/executor.h"
#include "core/hash.h"
#include "cuda/cuda_status.h"
#include "cuda/stream_timer.h"
#include "platform.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint64_t kTensorAlignment = 64;  // In elements.
constexpr int kThreads = 16;

// Sums of four uniform numbers: near enough to normal ones.
float NearlyNormal(uint64_t bits) {
  float sum = 0;
  for (int part = 0; part < 4; ++part)
    sum += static_cast<float>((bits >> (16 * part)) & 0xFFFF) / 65536.0f - 0.5f;
  return sum * 1.732f;
}

std::vector<float> Gradient(uint64_t n, uint64_t seed, Executor* executor) {
  std::vector<float> values(n);
  executor->ParallelFor(NumBlocks(static_cast<int64_t>(n)), [&](int64_t block) {
    const uint64_t begin = block * kBlockElements,
                   end = std::min<uint64_t>(n, begin + kBlockElements);
    for (uint64_t i = begin; i < end; ++i) values[i] = NearlyNormal(Mix64(seed * kMaxElements + i));
  });
  return values;
}

Status MeasureOnce(const std::function<Status()>& work, cudaStream_t stream, int64_t* nanoseconds) {
  StreamTimer timer;
  TFC_RETURN_IF_ERROR(timer.Start(stream));
  TFC_RETURN_IF_ERROR(work());
  TFC_RETURN_IF_ERROR(timer.Stop(stream));
  return timer.Wait(nanoseconds);
}

}  // namespace

uint64_t StepArrays::num_elements() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), uint64_t{0});
}

Status StepArrays::Allocate(std::vector<uint64_t> sizes, DType dtype, int num_ranks,
                            cudaStream_t stream) {
  sizes_ = std::move(sizes);
  dtype_ = dtype;
  num_ranks_ = num_ranks;
  for (uint64_t size : sizes_) {
    begins_.push_back(end_);
    end_ += (size + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  }
  TFC_RETURN_IF_ERROR(sums_.Allocate(end_ * DTypeBytes(dtype_)));
  for (int i = 0; i < kMaxSlots; ++i) {
    TFC_RETURN_IF_ERROR(slots_[i].Allocate(end_ * sizeof(float)));
    TFC_RETURN_IF_ERROR(slots_after_[i].Allocate(end_ * sizeof(float)));
  }
  for (int rank = 0; rank < num_ranks; ++rank) {
    TFC_RETURN_IF_ERROR(gradients_[rank].Allocate(end_ * DTypeBytes(dtype_)));
    TFC_RETURN_IF_ERROR(Upload(rank, stream));
  }
  return OkStatus();
}

Status StepArrays::Upload(int rank, cudaStream_t stream) const {
  const DeviceBuffer& gradients = gradients_[rank].buffer();
  Bytes narrowed(gradients.num_bytes);
  ThreadExecutor executor(kThreads);
  NarrowFromFloat(Gradient(end_, static_cast<uint64_t>(rank), &executor), dtype_, &executor,
                  narrowed.data());
  TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(gradients.data_dev, narrowed.data(), narrowed.size(),
                                           cudaMemcpyHostToDevice, stream));
  return FromCuda(cudaStreamSynchronize(stream), "gradients");
}

Status StepArrays::ClearSlots(cudaStream_t stream) const {
  for (const OwnedMemory& slot : slots_) {
    TFC_RETURN_IF_CUDA_ERROR(
        cudaMemsetAsync(slot.buffer().data_dev, 0, slot.buffer().num_bytes, stream));
  }
  return OkStatus();
}

Result<double> MeasureMilliseconds(const std::function<Status()>& work, cudaStream_t stream) {
  std::vector<int64_t> times(kRepetitions);
  for (int64_t& nanoseconds : times) TFC_RETURN_IF_ERROR(MeasureOnce(work, stream, &nanoseconds));
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]) * 1e-6;
}

}  // namespace device
}  // namespace tfcompress
