// Times of encoding and summing on a GPU, as multiples of a device-to-device copy of as many floats
// that is measured in the same run.
//
//     cuda_benchmark [elements]            each spec on one gradient; default: 25 million elements
//     cuda_benchmark resnet50 [elements]   some specs on all gradients of ResNet-50, of at most so
//                                          many elements each
//     cuda_benchmark profile [elements]    each spec once, without warm-up, for a profiler
//
// A row has the bytes that a rank sends, the workspace to encode, and two parts: encoding, and
// summing what 8 ranks sent. Launches are kernels, copies and memsets. The percentage is that of
// the copy's bandwidth, counting the fewest bytes that an encoding must move: it reads the gradient
// and the memory, and writes the memory and the frame. Targets are met or MISSED. Rows of shards
// have what rank 0 does in both hops.
//
// Goes on after a spec that fails, and then exits with code 1; with code 77, without measurements,
// if there is no GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codec_step.h"
#include "cuda/cuda_status.h"
#include "platform.h"
#include "resnet50.h"
#include "shard_step.h"
#include "step_arrays.h"

namespace tfcompress {
namespace device {
namespace {

constexpr double kMaxSelectCopies = 3, kMaxEncodeCopies = 5, kMaxSumCopies = 4, kMinPercent = 50;
constexpr double kMaxStepMilliseconds = 1;
constexpr int kMaxStepLaunches = 100;
// Tensors with fewer elements are all-reduced as they are.
constexpr uint64_t kLeastEncoded = 1024;

// With raw sections, which only gather, encoding costs little more than selecting.
constexpr const char* kSelection = "residual|topk:ratio=0.01|raw|raw";
constexpr const char* kSpecs[] = {
    kSelection,
    "residual|topk:ratio=0.01|delta_binary|raw",
    "residual|topk:ratio=0.01|delta_adaptive|fp16",
    "residual|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64",
    "residual|topk:ratio=0.01|bitmap|raw",
    "residual|topk:ratio=0.01|bloom:policy=p2|raw",
    "residual|topk:ratio=0.01|bloom|dexp",
    "residual|topk:ratio=0.01|delta_binary|qsgd",
    "residual|topk:ratio=0.01|delta_binary|quantile",
    "residual|topk:ratio=0.01|delta_binary|log",
    "residual|topk:ratio=0.1|sketchml",
    "residual|topk:ratio=0.1|skcompress",
    "momentum|topk:ratio=0.01|delta_binary|raw",
    "residual|threshold:tau=2.5|delta_binary|raw",
    "residual|randomk:ratio=0.01|raw|raw",
    "dense|raw|raw",
    "residual|dense|raw|fp16",
    "residual|dense|raw|block_int:bits=8",
    "residual|dense|raw|block_int:bits=4",
    "residual|dense|raw|block_int:bits=2",
    "residual|dense|raw|qsgd",
    "residual|dense|raw|uniform",
    "residual|dense|raw|logquant",
    "residual|dense|raw|ternary",
    "residual|dense|raw|sign",
    "residual|dense|raw|quantile",
};
constexpr const char* kHalfSpecs[] = {
    "residual|topk:ratio=0.01|delta_binary|raw",
    "residual|dense|raw|block_int:bits=8",
};
// By shards, whose rows have both hops.
constexpr const char* kShardSpecs[] = {
    "residual|dense|raw|block_int:bits=8",
    "residual|dense|raw|block_int:bits=4,levels=square",
    "residual|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64",
};
constexpr const char* kResNetSpecs[] = {
    "residual|topk:ratio=0.01|delta_binary|raw",
    "residual|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64",
    "residual|dense|raw|block_int:bits=8",
};

const char* Verdict(bool met) { return met ? "met" : "MISSED"; }

struct Part {
  double milliseconds = 0;
  int num_launches = -1;
  double max_copies = 0;  // The target; 0 means none.
};

struct Row {
  uint64_t num_bytes = 0, least_bytes = 0;
  size_t workspace_bytes = 0;
  Part encode, sum;
  double copy_by_kernel_milliseconds = 0, copy_each_milliseconds = 0;
};

void SetTargets(const std::string& spec, Row* row) {
  if (spec.rfind("residual|topk:ratio=0.01|", 0) != 0) return;
  row->encode.max_copies = spec == kSelection ? kMaxSelectCopies : kMaxEncodeCopies;
  row->sum.max_copies = kMaxSumCopies;
}

// Measures specs on the tensors of some arrays.
class Benchmark {
 public:
  Benchmark(const StepArrays& arrays, cudaStream_t stream) : arrays_(arrays), stream_(stream) {}

  bool failed() const { return failed_; }

  // What all times are compared to.
  Result<double> MeasureCopy() const {
    const size_t num_bytes = arrays_.num_elements() * DTypeBytes(arrays_.dtype());
    const auto copy = [this, num_bytes] {
      return FromCuda(cudaMemcpyAsync(arrays_.target(0).data, arrays_.gradient_dev(0, 0), num_bytes,
                                      cudaMemcpyDeviceToDevice, stream_),
                      "copy");
    };
    return MeasureMilliseconds(copy, stream_);
  }
  void set_copy_milliseconds(double milliseconds) { copy_milliseconds_ = milliseconds; }

  // Prints one row, or why there is none.
  void Print(const std::string& label, const Result<Row>& row) {
    std::printf("%-64s ", label.c_str());
    if (row.ok()) {
      PrintNumbers(row.value());
    } else {
      std::printf("failed: %s\n", row.status().message().c_str());
      failed_ = true;
    }
    std::fflush(stdout);
  }

  // With the copies to the host, whose bus every exchange needs that is not NCCL's, if wanted.
  Result<Row> Measure(const std::string& spec, bool with_copies = false) const {
    CodecStep step(arrays_, stream_);
    Row row;
    TFC_RETURN_IF_ERROR(step.Make(spec));
    TFC_RETURN_IF_ERROR(step.Gather());
    row.num_bytes = step.packet_bytes();
    TFC_RETURN_IF_ERROR(Measure([&step] { return step.Encode(0); }, &step, &row));
    if (with_copies) TFC_RETURN_IF_ERROR(MeasureCopies(&step, &row));
    return row;
  }

  Result<Row> MeasureShards(const std::string& spec) const {
    ShardStep step(arrays_, stream_);
    Row row;
    TFC_RETURN_IF_ERROR(step.Make(spec));
    TFC_RETURN_IF_ERROR(step.Exchange());
    row.num_bytes = step.sent_bytes();
    TFC_RETURN_IF_ERROR(Measure([&step] { return step.Encode(); }, &step, &row));
    return row;
  }

  Result<Row> MeasureLinear(const std::string& spec) const {
    LinearStep step(arrays_, stream_);
    Row row;
    TFC_RETURN_IF_ERROR(step.Make(spec));
    row.num_bytes = step.payload_bytes();
    row.workspace_bytes = step.workspace_bytes();
    row.least_bytes = arrays_.size(0) * sizeof(float) + row.num_bytes;
    TFC_RETURN_IF_ERROR(Measure([&step] { return step.Encode(); }, &row.encode));
    TFC_RETURN_IF_ERROR(Measure([&step] { return step.Recover(); }, &row.sum));
    return row;
  }

 private:
  // Measures both parts of a step whose bytes are there.
  template <typename Step>
  Status Measure(const std::function<Status()>& encode, Step* step, Row* row) const {
    row->workspace_bytes = step->workspace_bytes();
    const size_t moved_each = DTypeBytes(arrays_.dtype()) + 2 * sizeof(float) * step->num_slots();
    row->least_bytes = arrays_.num_elements() * moved_each + row->num_bytes;
    TFC_RETURN_IF_ERROR(arrays_.ClearSlots(stream_));
    TFC_RETURN_IF_ERROR(Measure(encode, &row->encode));
    const auto sum = [step] { return step->Sum(); };
    TFC_ASSIGN_OR_RETURN(row->sum.milliseconds, MeasureMilliseconds(sum, stream_));
    TFC_RETURN_IF_ERROR(step->CheckSum());
    row->sum.num_launches = CountLaunches([step] { return step->LaunchSum(); }, stream_);
    return OkStatus();
  }

  Status MeasureCopies(CodecStep* step, Row* row) const {
    TFC_RETURN_IF_ERROR(step->MakePacket());
    const auto by_kernel = [step] { return step->CopyFrames(); };
    const auto each = [step] { return step->CopyEachFrame(); };
    TFC_ASSIGN_OR_RETURN(row->copy_by_kernel_milliseconds, MeasureMilliseconds(by_kernel, stream_));
    TFC_ASSIGN_OR_RETURN(row->copy_each_milliseconds, MeasureMilliseconds(each, stream_));
    return OkStatus();
  }

  Status Measure(const std::function<Status()>& work, Part* part) const {
    TFC_ASSIGN_OR_RETURN(part->milliseconds, MeasureMilliseconds(work, stream_));
    part->num_launches = CountLaunches(work, stream_);
    return OkStatus();
  }

  void PrintNumbers(const Row& row) const {
    std::printf("%10llu B %6.1f MB ", static_cast<unsigned long long>(row.num_bytes),
                static_cast<double>(row.workspace_bytes) * 1e-6);
    PrintPart(row.encode);
    const double bytes_of_copy = 2.0 * sizeof(float) * static_cast<double>(arrays_.num_elements());
    const double percent = 100 * (static_cast<double>(row.least_bytes) / bytes_of_copy) /
                           (row.encode.milliseconds / copy_milliseconds_);
    std::printf(" %5.1f %% %-6s ", percent, Verdict(percent >= kMinPercent));
    PrintPart(row.sum);
    std::printf("\n");
  }

  void PrintPart(const Part& part) const {
    const double copies = part.milliseconds / copy_milliseconds_;
    const std::string launches = part.num_launches < 0 ? "-" : std::to_string(part.num_launches);
    std::printf("| %8.3f ms %7.1f copies %-6s %5s launches", part.milliseconds, copies,
                part.max_copies == 0 ? "" : Verdict(copies <= part.max_copies), launches.c_str());
  }

  const StepArrays& arrays_;
  cudaStream_t stream_;
  double copy_milliseconds_ = 0;
  bool failed_ = false;
};

// Prints the head of a table, after a copy that it measures and sets.
Status Begin(const char* what, Benchmark* benchmark, uint64_t n, double* copy_milliseconds) {
  TFC_ASSIGN_OR_RETURN(*copy_milliseconds, benchmark->MeasureCopy());
  benchmark->set_copy_milliseconds(*copy_milliseconds);
  std::printf("copy of %llu floats: %.4f ms, %.0f GB/s read and written\n",
              static_cast<unsigned long long>(n), *copy_milliseconds,
              8e-6 * static_cast<double>(n) / *copy_milliseconds);
  std::printf("%-65s%10s   %7s   %-52s %s\n", what, "sent", "workspace", "| encode",
              "| sum of 8 ranks");
  return OkStatus();
}

Status MeasureFloats(uint64_t n, cudaStream_t stream, double* copy_milliseconds, bool* failed) {
  StepArrays arrays;
  TFC_RETURN_IF_ERROR(arrays.Allocate({n}, DType::kFloat32, kRanks, stream));
  Benchmark benchmark(arrays, stream);
  TFC_RETURN_IF_ERROR(Begin("one gradient", &benchmark, n, copy_milliseconds));
  for (const char* spec : kSpecs) {
    Result<Row> row = benchmark.Measure(spec);
    if (row.ok()) SetTargets(spec, &row.value());
    benchmark.Print(spec, row);
  }
  for (const char* spec : kShardSpecs)
    benchmark.Print(std::string("shards of ") + spec, benchmark.MeasureShards(spec));
  // For these, recovering stands in place of the sum.
  const std::string columns = std::to_string(std::max<uint64_t>(n / 250, 1));
  const std::string k = std::to_string(std::max<uint64_t>(n / 500, 1));
  benchmark.Print("count_sketch:rows=5,columns=n/250,k=n/500",
                  benchmark.MeasureLinear("count_sketch:rows=5,columns=" + columns + ",k=" + k));
  benchmark.Print("shared_randomk:ratio=0.01",
                  benchmark.MeasureLinear("shared_randomk:ratio=0.01"));
  *failed |= benchmark.failed();
  return OkStatus();
}

Status MeasureHalves(uint64_t n, cudaStream_t stream, double copy_milliseconds, bool* failed) {
  StepArrays arrays;
  TFC_RETURN_IF_ERROR(arrays.Allocate({n}, DType::kFloat16, kRanks, stream));
  Benchmark benchmark(arrays, stream);
  benchmark.set_copy_milliseconds(copy_milliseconds);
  for (const char* spec : kHalfSpecs)
    benchmark.Print(std::string("float16 ") + spec, benchmark.Measure(spec));
  *failed |= benchmark.failed();
  return OkStatus();
}

Status MeasureOneGradient(uint64_t n, cudaStream_t stream, bool* failed) {
  std::printf(
      "Targets: encode at %.0f %% of the copy's bandwidth. For topk:ratio=0.01 with a residual: "
      "encode within %.0f copies with raw sections (selection), within %.0f with others; sum "
      "within %.0f.\n",
      kMinPercent, kMaxSelectCopies, kMaxEncodeCopies, kMaxSumCopies);
  double copy_milliseconds = 0;
  TFC_RETURN_IF_ERROR(MeasureFloats(n, stream, &copy_milliseconds, failed));
  return MeasureHalves(n, stream, copy_milliseconds, failed);
}

// A step of all gradients, against its targets.
void PrintStep(const Row& row) {
  const double milliseconds = row.encode.milliseconds + row.sum.milliseconds;
  const int num_launches = row.encode.num_launches + row.sum.num_launches;
  std::printf(
      "  encode and sum: %.3f ms (%s), %d launches (%s)\n", milliseconds,
      Verdict(milliseconds <= kMaxStepMilliseconds), num_launches,
      row.encode.num_launches < 0 ? "not counted" : Verdict(num_launches <= kMaxStepLaunches));
  std::printf("  frames to the host: %.3f ms by one kernel, %.3f ms by a copy for each\n",
              row.copy_by_kernel_milliseconds, row.copy_each_milliseconds);
}

Status MeasureResNet50(uint64_t most_elements, cudaStream_t stream, bool* failed) {
  std::vector<uint64_t> encoded;
  for (uint64_t size : ResNet50Sizes())
    if (size >= kLeastEncoded) encoded.push_back(std::min(size, most_elements));
  const std::string what = "ResNet-50: " + std::to_string(encoded.size()) + " gradients";
  StepArrays arrays;
  TFC_RETURN_IF_ERROR(arrays.Allocate(std::move(encoded), DType::kFloat32, kRanks, stream));
  Benchmark benchmark(arrays, stream);
  double copy_milliseconds = 0;
  TFC_RETURN_IF_ERROR(Begin(what.c_str(), &benchmark, arrays.num_elements(), &copy_milliseconds));
  for (const char* spec : kResNetSpecs) {
    const Result<Row> row = benchmark.Measure(spec, /*with_copies=*/true);
    benchmark.Print(spec, row);
    if (row.ok()) PrintStep(row.value());
  }
  *failed |= benchmark.failed();
  return OkStatus();
}

Status RunOnce(const char* spec, const StepArrays& arrays, cudaStream_t stream) {
  CodecStep step(arrays, stream);
  TFC_RETURN_IF_ERROR(step.Make(spec));
  TFC_RETURN_IF_ERROR(step.Gather());
  TFC_RETURN_IF_ERROR(step.LaunchSum());
  return step.CheckSum();
}

// Two ranks encode, and their frames are summed as those of more.
Status Profile(uint64_t n, cudaStream_t stream, bool* failed) {
  StepArrays arrays;
  TFC_RETURN_IF_ERROR(arrays.Allocate({n}, DType::kFloat32, 2, stream));
  for (const char* spec : kSpecs) {
    std::printf("## %s\n", spec);
    const Status status = RunOnce(spec, arrays, stream);
    if (!status.ok()) std::printf("failed: %s\n", status.message().c_str());
    *failed |= !status.ok();
    std::fflush(stdout);
  }
  return OkStatus();
}

int Main(const std::string& mode, uint64_t n) {
  cudaStream_t stream = nullptr;
  bool failed = false;
  Status status = FromCuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  if (status.ok()) {
    status = mode == "profile"    ? Profile(n, stream, &failed)
             : mode == "resnet50" ? MeasureResNet50(n, stream, &failed)
                                  : MeasureOneGradient(n, stream, &failed);
  }
  if (status.ok()) status = FromCuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
  if (status.ok()) return failed ? 1 : 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}

bool HasGpu() {
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error == cudaSuccess && num_devices > 0) return true;
  std::printf("no GPU: nothing was measured (%s)\n", cudaGetErrorString(error));
  return false;
}

}  // namespace
}  // namespace device
}  // namespace tfcompress

int main(int argc, char** argv) {
  constexpr int kNothingMeasured = 77;
  if (!tfcompress::device::HasGpu()) return kNothingMeasured;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string mode;
  if (!arguments.empty() && (arguments[0] == "resnet50" || arguments[0] == "profile")) {
    mode = arguments[0];
    arguments.erase(arguments.begin());
  }
  const uint64_t n =
      arguments.empty() ? 25'000'000 : std::strtoull(arguments[0].c_str(), nullptr, 10);
  if (n == 0 || n > tfcompress::kMaxElements || arguments.size() > 1) {
    std::fprintf(stderr, "usage: %s [resnet50 | profile] [elements, 1 to 2^31 - 1]\n", argv[0]);
    return 2;
  }
  return tfcompress::device::Main(mode, n);
}
