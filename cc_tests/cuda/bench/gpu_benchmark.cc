// Times of encoding and summing on a GPU, as multiples of a device-to-device copy of the gradient
// that is measured in the same run.
//
//     cuda_benchmark [elements]       default: 25 million
//
// Exits with code 77, without measurements, if there is no GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/compressor.h"
#include "core/hash.h"
#include "cuda/cuda_status.h"
#include "cuda/frame_encoder.h"
#include "cuda/owned_memory.h"
#include "cuda/stream_timer.h"
#include "cuda/sum_decoder.h"

namespace tfcompress {
namespace device {
namespace {

constexpr int kRepetitions = 11;  // The median is reported.
constexpr int kRanks = 8;
constexpr double kMaxSelectCopies = 3, kMaxEncodeCopies = 5, kMaxSumCopies = 4;

// With raw sections, which only gather, encoding costs little more than selecting.
constexpr const char* kSelection = "residual|topk:ratio=0.01|raw|raw";
constexpr const char* kSpecs[] = {
    kSelection,
    "residual|topk:ratio=0.01|delta_binary|raw",
    "residual|topk:ratio=0.01|delta_binary|fp16",
    "residual|topk:ratio=0.01|delta_binary|qsgd",
    "residual|topk:ratio=0.01|bitmap|raw",
    "residual|topk:ratio=0.01|bloom:policy=p2|raw",
    "residual|threshold:tau=2.5|delta_binary|raw",
    "residual|randomk:ratio=0.01|raw|raw",
    "residual|dense|raw|fp16",
    "residual|dense|raw|qsgd",
    "residual|dense|raw|ternary",
    "residual|dense|raw|sign",
};

// Sums of four uniform numbers: near enough to normal ones.
std::vector<float> Gradient(uint64_t n, uint64_t seed) {
  std::vector<float> values(n);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t bits = Mix64(seed * kMaxElements + i);
    float sum = 0;
    for (int part = 0; part < 4; ++part)
      sum += static_cast<float>((bits >> (16 * part)) & 0xFFFF) / 65536.0f - 0.5f;
    values[i] = sum * 1.732f;
  }
  return values;
}

// Measures the median in milliseconds, after one warm-up run.
Status Measure(const std::function<Status()>& work, cudaStream_t stream, double* milliseconds) {
  std::vector<int64_t> times;
  for (int i = 0; i <= kRepetitions; ++i) {
    StreamTimer timer;
    int64_t nanoseconds = 0;
    TFC_RETURN_IF_ERROR(timer.Start(stream));
    TFC_RETURN_IF_ERROR(work());
    TFC_RETURN_IF_ERROR(timer.Stop(stream, &nanoseconds));
    if (i > 0) times.push_back(nanoseconds);
  }
  std::sort(times.begin(), times.end());
  *milliseconds = static_cast<double>(times[times.size() / 2]) * 1e-6;
  return OkStatus();
}

class Benchmark {
 public:
  Benchmark(uint64_t n, cudaStream_t stream) : n_(n), stream_(stream) {}

  Status Run() {
    TFC_RETURN_IF_ERROR(gradient_.Allocate(n_ * sizeof(float)));
    TFC_RETURN_IF_ERROR(slot_.Allocate(n_ * sizeof(float)));
    TFC_RETURN_IF_ERROR(sum_.Allocate(n_ * sizeof(float)));
    TFC_RETURN_IF_ERROR(MeasureCopy());
    std::printf("%-46s %-31s %s\n", "", "   encode", "   DecodeSum of 8 ranks");
    for (const char* spec : kSpecs) TFC_RETURN_IF_ERROR(MeasureSpec(spec));
    return OkStatus();
  }

 private:
  Status MeasureCopy() {
    TFC_RETURN_IF_ERROR(Upload(0));
    const auto copy = [this] {
      return FromCuda(cudaMemcpyAsync(sum_.buffer().data_dev, gradient_.buffer().data_dev,
                                      n_ * sizeof(float), cudaMemcpyDeviceToDevice, stream_),
                      "copy");
    };
    TFC_RETURN_IF_ERROR(Measure(copy, stream_, &copy_milliseconds_));
    std::printf("copy of %llu floats: %.3f ms, %.0f GB/s read and written\n",
                static_cast<unsigned long long>(n_), copy_milliseconds_,
                8e-6 * static_cast<double>(n_) / copy_milliseconds_);
    return OkStatus();
  }

  Status Upload(uint64_t seed) {
    const std::vector<float> values = Gradient(n_, seed);
    TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(gradient_.buffer().data_dev, values.data(),
                                             n_ * sizeof(float), cudaMemcpyHostToDevice, stream_));
    TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    return OkStatus();
  }

  Status ClearSlot() {
    TFC_RETURN_IF_CUDA_ERROR(
        cudaMemsetAsync(slot_.buffer().data_dev, 0, n_ * sizeof(float), stream_));
    return OkStatus();
  }

  Status MeasureSpec(const std::string& spec) {
    TFC_ASSIGN_OR_RETURN(const auto compressor, Compressor::FromSpec(spec));
    TFC_ASSIGN_OR_RETURN(const FrameEncoder encoder,
                         FrameEncoder::Make(*compressor, DType::kFloat32, n_));
    OwnedMemory workspace, frame;
    TFC_RETURN_IF_ERROR(workspace.Allocate(encoder.workspace_bytes()));
    TFC_RETURN_IF_ERROR(frame.Allocate(encoder.max_frame_bytes()));
    auto* const slot = static_cast<float*>(slot_.buffer().data_dev);
    const std::vector<DeviceSlot> slots = {{slot, slot}};
    uint64_t num_bytes = 0;
    const auto encode = [&] {
      return encoder.Encode(gradient_.buffer().data_dev, slots, 1, workspace.buffer(),
                            frame.buffer(), stream_, &num_bytes);
    };
    Bytes packets;
    for (uint64_t rank = 0; rank < kRanks; ++rank) {
      TFC_RETURN_IF_ERROR(Upload(rank));
      TFC_RETURN_IF_ERROR(ClearSlot());
      TFC_RETURN_IF_ERROR(encode());
      TFC_RETURN_IF_ERROR(Append(frame.buffer(), num_bytes, &packets));
    }
    double encode_milliseconds = 0, sum_milliseconds = 0;
    TFC_RETURN_IF_ERROR(ClearSlot());
    TFC_RETURN_IF_ERROR(Measure(encode, stream_, &encode_milliseconds));
    TFC_RETURN_IF_ERROR(MeasureSum(packets, &sum_milliseconds));
    std::printf("%-46s", spec.c_str());
    const bool is_topk = spec.find("topk") != std::string::npos;
    Print(encode_milliseconds, !is_topk             ? 0
                               : spec == kSelection ? kMaxSelectCopies
                                                    : kMaxEncodeCopies);
    Print(sum_milliseconds, is_topk ? kMaxSumCopies : 0);
    std::printf("\n");
    return OkStatus();
  }

  Status Append(const DeviceBuffer& frame, uint64_t num_bytes, Bytes* packets) {
    const size_t begin = packets->size();
    packets->resize(begin + num_bytes);
    TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(packets->data() + begin, frame.data_dev, num_bytes,
                                             cudaMemcpyDeviceToHost, stream_));
    TFC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    return OkStatus();
  }

  // Includes reading the headers; excludes copying the packets to the device.
  Status MeasureSum(const Bytes& packets, double* milliseconds) {
    OwnedMemory packets_dev, workspace;
    TFC_RETURN_IF_ERROR(packets_dev.Allocate(packets.size()));
    TFC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(packets_dev.buffer().data_dev, packets.data(),
                                             packets.size(), cudaMemcpyHostToDevice, stream_));
    const std::vector<int64_t> positions = {0};
    const std::vector<DeviceTarget> targets = {{sum_.buffer().data_dev, DType::kFloat32, n_}};
    const auto make = [&] { return SumDecoder::Make({packets, kRanks, 1}, positions, targets); };
    TFC_ASSIGN_OR_RETURN(const SumDecoder first, make());
    TFC_RETURN_IF_ERROR(workspace.Allocate(first.workspace_bytes()));
    const auto sum = [&]() -> Status {
      TFC_ASSIGN_OR_RETURN(const SumDecoder decoder, make());
      return decoder.DecodeSum(static_cast<const unsigned char*>(packets_dev.buffer().data_dev),
                               1.0f / kRanks, workspace.buffer(), stream_, {});
    };
    return Measure(sum, stream_, milliseconds);
  }

  // Prints a time, and its ratio to the copy; a target of 0 means none.
  void Print(double milliseconds, double target) const {
    const double copies = milliseconds / copy_milliseconds_;
    const char* verdict = target == 0 ? "" : copies <= target ? "met" : "MISSED";
    std::printf(" %8.3f ms %5.1f copies %-6s", milliseconds, copies, verdict);
  }

  uint64_t n_;
  cudaStream_t stream_;
  OwnedMemory gradient_, slot_, sum_;
  double copy_milliseconds_ = 0;
};

int Main(uint64_t n) {
  constexpr int kNothingMeasured = 77;
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess || num_devices == 0) {
    std::printf("no GPU: nothing was measured (%s)\n", cudaGetErrorString(error));
    return kNothingMeasured;
  }
  std::printf(
      "Targets for topk: encode within %.0f copies with raw sections (selection), within "
      "%.0f with others; DecodeSum within %.0f.\n",
      kMaxSelectCopies, kMaxEncodeCopies, kMaxSumCopies);
  cudaStream_t stream = nullptr;
  Status status = FromCuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  if (status.ok()) status = Benchmark(n, stream).Run();
  if (status.ok()) status = FromCuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}

}  // namespace
}  // namespace device
}  // namespace tfcompress

int main(int argc, char** argv) {
  const uint64_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 25'000'000;
  if (n == 0 || n > tfcompress::kMaxElements) {
    std::fprintf(stderr, "usage: %s [elements, 1 to 2^31 - 1]\n", argv[0]);
    return 2;
  }
  return tfcompress::device::Main(n);
}
