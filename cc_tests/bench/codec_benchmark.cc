// Time and size of every codec of the registry on one core, for 10M elements at three densities.
//   codec_benchmark [--benchmark_filter=index/bloom] [--benchmark_format=json]
// Times are per element of the dense tensor, and as multiples of a memcpy of it, whose time is in
// the context of the JSON.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench_inputs.h"
#include "core/linear/low_rank.h"
#include "core/linear_codec.h"
#include "core/pipeline.h"
#include "core/registry.h"
#include "core/sketch/bloom_filter.h"
#include "core/sketch/count_sketch.h"
#include "table_reporter.h"

namespace tfcompress {
namespace {

constexpr char kDensities[][6] = {"0.001", "0.01", "0.1"};
constexpr double kMinSeconds = 0.2;
constexpr uint64_t kSeed = 42;

CodecContext Context() { return {kSeed, SerialExecutor()}; }

// log2 C(n, k) / k: no code for random subsets takes fewer bits for each key.
double LimitBits(double n, double k) {
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0) / k;
}

void Check(const Status& status, benchmark::State* state) {
  if (!status.ok()) state->SkipWithError(status.message().c_str());
}

void SetCounters(double num_bytes, double k, benchmark::State* state) {
  state->counters[kElementsCounter] = kElements;
  state->counters[kItemsCounter] = k;
  if (k > 0) state->counters[kBitsCounter] = 8 * num_bytes / k;
}

void Register(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(body))
      ->Unit(benchmark::kNanosecond)
      ->UseRealTime()
      ->MinTime(kMinSeconds);
}

template <typename Interface>
std::shared_ptr<const Interface> Make(
    const RegistryRow<Interface>& row,
    const std::vector<std::pair<std::string, std::string>>& given = {}) {
  const auto params = Params::Parse(row.name, row.definition.params, given);
  return params.ok() ? row.definition.make(params.value()) : nullptr;
}

void RegisterSparsifier(const RegistryRow<Sparsifier>& row, const std::string& density) {
  bool has_ratio = false;
  for (const ParamSpec& param : row.definition.params) has_ratio |= param.name == "ratio";
  std::shared_ptr<const Sparsifier> sparsifier =
      has_ratio ? Make(row, {{"ratio", density}}) : Make(row);
  if (sparsifier->implied() == Implied::kEverything) return;
  Register("sparsifier/" + row.name + "/" + density + "/encode", [=](benchmark::State& state) {
    const std::vector<float>& dense = has_ratio ? DenseGradient() : InputOf(density).dense;
    std::vector<uint32_t> indices;
    for (auto _ : state) {
      Check(sparsifier->Select(dense, Context(), &indices), &state);
      benchmark::DoNotOptimize(indices.data());
    }
    SetCounters(0, 0, &state);
  });
}

// Measures encoding and decoding the section of an input. `encode` returns how many elements
// receivers decode, and `decode` decodes as many.
template <typename Encode, typename Decode>
void RegisterSections(const std::string& name, const std::string& density, const Encode& encode,
                      const Decode& decode, bool has_limit = false) {
  const auto must_encode = [=](Bytes* section, benchmark::State* state) {
    section->clear();
    const Result<uint32_t> k = encode(InputOf(density), section);
    Check(k.status(), state);
    return k.ok() ? k.value() : 0;
  };
  const auto set_counters = [=](const Bytes& section, benchmark::State* state) {
    const auto k = static_cast<double>(InputOf(density).indices.size());
    SetCounters(static_cast<double>(section.size()), k, state);
    if (has_limit) state->counters[kLimitCounter] = LimitBits(kElements, k);
  };
  Register(name + "/encode", [=](benchmark::State& state) {
    Bytes section;
    InputOf(density);
    for (auto _ : state) must_encode(&section, &state);
    set_counters(section, &state);
  });
  Register(name + "/decode", [=](benchmark::State& state) {
    Bytes section;
    const uint32_t k = must_encode(&section, &state);
    const Support support(kElements, InputOf(density).indices);
    SparseTensor decoded;
    decoded.n = kElements;
    decoded.values.resize(k);
    for (auto _ : state) Check(decode(section, support, k, &decoded), &state);
    set_counters(section, &state);
  });
}

// Encodes with `part`, a setting of the row, and decodes again.
void RegisterIndex(const RegistryRow<IndexCodec>& row, const std::string& part,
                   std::shared_ptr<const IndexCodec> codec, const std::string& density) {
  const IndexCodec* decoder = DecoderById<IndexCodec>(row.id);
  RegisterSections(
      "index/" + part + "/" + density, density,
      [=](const BenchInput& input, Bytes* section) -> Result<uint32_t> {
        const auto decoded = codec->Encode(input.indices, kElements, Context(), section);
        if (!decoded.ok()) return decoded.status();
        const Support support(kElements, input.indices);
        return static_cast<uint32_t>(decoded.value().support(support).size());
      },
      [=](const Bytes& section, const Support&, uint32_t k, SparseTensor* decoded) {
        return decoder->Decode(section, kElements, k, Context(), &decoded->indices);
      },
      /*has_limit=*/true);
}

void RegisterValue(const RegistryRow<ValueCodec>& row, const std::string& density) {
  const std::shared_ptr<const ValueCodec> codec = Make(row);
  RegisterSections(
      "value/" + row.name + "/" + density, density,
      [=](const BenchInput& input, Bytes* section) -> Result<uint32_t> {
        const Support support(kElements, input.indices);
        TFC_RETURN_IF_ERROR(codec->Encode(input.values, support, Context(), section));
        return static_cast<uint32_t>(input.values.size());
      },
      [=](const Bytes& section, const Support& support, uint32_t, SparseTensor* decoded) {
        return codec->Decode(section, support, Context(), Span<float>(decoded->values));
      });
}

void RegisterJoint(const RegistryRow<SparseCodec>& row, const std::string& density) {
  const std::shared_ptr<const SparseCodec> codec = Make(row);
  RegisterSections(
      "joint/" + row.name + "/" + density, density,
      [=](const BenchInput& input, Bytes* section) {
        const Support support(kElements, input.indices);
        return codec->Encode(input.values, support, Context(), section);
      },
      [=](const Bytes& section, const Support&, uint32_t k, SparseTensor* decoded) {
        return codec->Decode(section, k, Context(), decoded);
      });
}

// Measures keys inserted and queried each second, without the policies of the index codec.
void RegisterBloomFilter(const std::string& density) {
  constexpr double kFalsePositiveRate = 0.001;
  const auto build = [=](BloomShape shape, Bytes* bits) {
    bits->assign(static_cast<size_t>(shape.num_bytes()), 0);
    BloomFilter::Insert(shape, kSeed, InputOf(density).indices, bits->data());
  };
  const auto set_counters = [](const Bytes& bits, double num_keys, double num_probes,
                               benchmark::State* state) {
    SetCounters(static_cast<double>(bits.size()), num_keys, state);
    state->counters[kItemsCounter] = num_probes;
  };
  const std::string name = "bloom filter (build, query)/fpr=0.001/" + density;
  Register(name + "/encode", [=](benchmark::State& state) {
    const size_t num_keys = InputOf(density).indices.size();
    const BloomShape shape = BloomRate(kFalsePositiveRate).ShapeFor(num_keys);
    Bytes bits;
    for (auto _ : state) build(shape, &bits);
    set_counters(bits, static_cast<double>(num_keys), static_cast<double>(num_keys), &state);
  });
  Register(name + "/decode", [=](benchmark::State& state) {
    const size_t num_keys = InputOf(density).indices.size();
    const BloomShape shape = BloomRate(kFalsePositiveRate).ShapeFor(num_keys);
    Bytes bits;
    build(shape, &bits);
    const BloomFilter filter(shape, kSeed, bits.data());
    std::vector<uint32_t> positives;
    for (auto _ : state) {
      positives.clear();
      filter.AppendContained(0, kElements, &positives);
    }
    set_counters(bits, static_cast<double>(num_keys), kElements, &state);
  });
}

// Measures elements inserted and estimated each second, without the selection among the estimates.
void RegisterCountSketch(uint32_t columns) {
  constexpr int kRows = 5;
  const CountSketch sketch(kRows, columns, kSeed);
  const auto set_counters = [](benchmark::State* state) { SetCounters(0, kElements, state); };
  const std::string name = "count sketch (insert, query)/5 x " + std::to_string(columns) + "/1";
  Register(name + "/encode", [=](benchmark::State& state) {
    const std::vector<float>& dense = DenseGradient();
    std::vector<float> table(sketch.num_cells());
    for (auto _ : state) sketch.Insert(dense, SerialExecutor(), Span<float>(table));
    set_counters(&state);
  });
  Register(name + "/decode", [=](benchmark::State& state) {
    std::vector<float> table(sketch.num_cells()), estimates(kElements);
    sketch.Insert(DenseGradient(), SerialExecutor(), Span<float>(table));
    for (auto _ : state) sketch.Estimate(table, SerialExecutor(), Span<float>(estimates));
    set_counters(&state);
  });
}

// Measures Encode, and Recover from the payload of one rank.
void RegisterLinear(const RegistryRow<LinearCodec>& row, const std::string& density) {
  const std::string k = std::to_string(std::lround(kElements * std::stod(density)));
  const bool has_ratio = row.definition.params[0].name == "ratio";
  const std::shared_ptr<const LinearCodec> codec =
      Make(row, {has_ratio ? std::pair<std::string, std::string>{"ratio", density}
                           : std::pair<std::string, std::string>{"k", k}});
  const auto size = static_cast<size_t>(codec->PayloadSize(kElements));
  const auto encode = [=](std::vector<float>* payload, benchmark::State* state) {
    Check(codec->Encode(DenseGradient(), Context(), Span<float>(*payload)), state);
  };
  const auto set_counters = [=](benchmark::State* state) {
    SetCounters(4.0 * static_cast<double>(size), std::stod(k), state);
  };
  const std::string name = "linear/" + row.name + "/" + density;
  Register(name + "/encode", [=](benchmark::State& state) {
    std::vector<float> payload(size);
    DenseGradient();
    for (auto _ : state) encode(&payload, &state);
    set_counters(&state);
  });
  Register(name + "/decode", [=](benchmark::State& state) {
    std::vector<float> payload(size), values;
    std::vector<uint32_t> indices;
    encode(&payload, &state);
    for (auto _ : state) {
      Check(codec->Recover(payload, kElements, Context(), &indices, &values), &state);
    }
    set_counters(&state);
  });
}

// Measures the products of a square matrix with the factors of one rank.
void RegisterLowRank(const RegistryRow<LinearCodec>& row) {
  const int rank = Make(row)->low_rank().rank;
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(kElements)));
  const auto low_rank =
      std::make_shared<const LowRank>(rank, std::vector<MatrixShape>{{side, side}});
  struct Step {
    const float* matrix = DenseGradient().data();
    std::vector<float> start, left, right, decoded, residual;
  };
  const auto make_step = [=] {
    Step step;
    step.start.resize(static_cast<size_t>(low_rank->right_size()), 1.0f);
    step.left.resize(static_cast<size_t>(low_rank->left_size()));
    step.right.resize(step.start.size());
    step.decoded.resize(static_cast<size_t>(side * side));
    step.residual = step.decoded;
    return step;
  };
  const auto encode = [=](Step* step, benchmark::State* state) {
    const float* const start = step->start.data();
    Check(low_rank->Left({&step->matrix, 1}, {&start, 1}, kSeed, SerialExecutor(),
                         Span<float>(step->left)),
          state);
    Check(low_rank->Right({&step->matrix, 1}, SerialExecutor(), Span<float>(step->left),
                          Span<float>(step->right)),
          state);
  };
  const double num_bytes =
      4.0 * static_cast<double>(low_rank->left_size() + low_rank->right_size());
  const std::string name = "linear/" + row.name + "/1";
  Register(name + "/encode", [=](benchmark::State& state) {
    Step step = make_step();
    for (auto _ : state) encode(&step, &state);
    SetCounters(num_bytes, kElements, &state);
  });
  Register(name + "/decode", [=](benchmark::State& state) {
    Step step = make_step();
    encode(&step, &state);
    float* const decoded = step.decoded.data();
    float* const residual = step.residual.data();
    bool finite = true;
    for (auto _ : state) {
      Check(low_rank->Decode({&step.matrix, 1}, step.left, step.right, 1.0f, SerialExecutor(),
                             {&decoded, 1}, {&residual, 1}, &finite),
            &state);
    }
    SetCounters(num_bytes, kElements, &state);
  });
}

// Measures a whole step: EncodeFrame with its memory, and DecodeSum over one rank. As in the
// TensorFlow op, the gradient is a new vector in each step, whose memory becomes the first slot.
void RegisterPipeline(const std::string& spec, const std::string& density) {
  const auto parsed = Compressor::FromSpec(spec);
  if (!parsed.ok()) return;
  const std::shared_ptr<const Compressor> compressor = parsed.value();
  using Floats = std::vector<float>;
  const auto encode = [=](std::vector<Floats>* before, std::vector<Floats>* after, Bytes* frame,
                          benchmark::State* state) {
    std::vector<const float*> from;
    std::vector<float*> to;
    for (const Floats& slot : *before) from.push_back(slot.data());
    for (Floats& slot : *after) to.push_back(slot.data());
    frame->clear();
    const float* gradient = after->empty() ? DenseGradient().data() : to[0];
    Check(EncodeFrame(*compressor, {gradient, DType::kFloat32, kElements},
                      {Span<const float* const>(from), Span<float* const>(to)}, Context(), frame),
          state);
    std::swap(*before, *after);
  };
  const auto zeros = [=] {
    return std::vector<Floats>(compressor->memory().num_slots(), Floats(kElements));
  };
  const auto set_counters = [=](const Bytes& frame, benchmark::State* state) {
    SetCounters(static_cast<double>(frame.size()), kElements * std::stod(density), state);
  };
  const std::string name = "pipeline/" + spec + "/" + density;
  Register(name + "/encode", [=](benchmark::State& state) {
    std::vector<Floats> before = zeros(), after = zeros();
    Bytes frame;
    DenseGradient();
    for (auto _ : state) {
      state.PauseTiming();
      if (!after.empty()) after[0] = DenseGradient();
      state.ResumeTiming();
      encode(&before, &after, &frame, &state);
    }
    set_counters(frame, &state);
  });
  Register(name + "/decode", [=](benchmark::State& state) {
    std::vector<Floats> before = zeros(), after = zeros();
    if (!after.empty()) after[0] = DenseGradient();
    std::vector<float> sum(kElements);
    Bytes frame;
    encode(&before, &after, &frame, &state);
    const SumTarget target = {sum.data(), DType::kFloat32, kElements};
    for (auto _ : state) {
      Check(DecodeSum(frame, 1, 1.0f, Span<const SumTarget>(&target, 1), SerialExecutor(), {}),
            &state);
    }
    set_counters(frame, &state);
  });
}

// Registers the codecs density by density, so that each input is made once.
void RegisterAll() {
  for (const char* density : kDensities) {
    for (const auto& row : Registry<Sparsifier>()) RegisterSparsifier(row, density);
    for (const auto& row : Registry<IndexCodec>()) {
      RegisterIndex(row, row.name, Make(row), density);
      for (const ParamSpec& param : row.definition.params) {
        for (const std::string& choice : param.choices) {
          if (choice == param.default_value) continue;
          RegisterIndex(row, row.name + ":" + param.name + "=" + choice,
                        Make(row, {{param.name, choice}}), density);
        }
      }
    }
    for (const auto& row : Registry<ValueCodec>()) RegisterValue(row, density);
    for (const auto& row : Registry<SparseCodec>()) RegisterJoint(row, density);
    for (const auto& row : Registry<LinearCodec>()) {
      if (Make(row)->low_rank().rank == 0) RegisterLinear(row, density);
    }
    RegisterBloomFilter(density);
  }
  for (const auto& row : Registry<LinearCodec>()) {
    if (Make(row)->low_rank().rank > 0) RegisterLowRank(row);
  }
  for (const uint32_t columns : {1'000'000u, 1u << 20}) RegisterCountSketch(columns);
  RegisterPipeline("residual|topk:ratio=0.01|delta_binary|raw", "0.01");
  RegisterPipeline("momentum|topk:ratio=0.01|delta_binary|raw", "0.01");
  RegisterPipeline("topk:ratio=0.01|bloom|raw", "0.01");
  for (const char* codec : {"qsgd", "block_int", "block_int:bits=4,levels=square", "uniform",
                            "quantile", "log", "fp16"}) {
    RegisterPipeline(std::string("dense|raw|") + codec, "1");
  }
  RegisterPipeline("residual|dense|raw|qsgd", "1");
  RegisterPipeline("nonzero|sketchml", "1");
}

// Measures the median of several copies. The first copy only faults the pages in.
double MemcpyNanoseconds() {
  const std::vector<float>& from = DenseGradient();
  std::vector<float> to(from.size());
  std::vector<double> times;
  for (int i = 0; i < 12; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), 4 * from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    if (i > 0) times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace
}  // namespace tfcompress

int main(int argc, char** argv) {
  bool wants_table = true;
  for (int i = 1; i < argc; ++i)
    wants_table &= std::strncmp(argv[i], "--benchmark_format", 18) != 0;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tfcompress::RegisterAll();
  const double memcpy_ns = tfcompress::MemcpyNanoseconds();
  benchmark::AddCustomContext("memcpy_ns", std::to_string(memcpy_ns));
  if (wants_table) {
    tfcompress::TableReporter reporter(memcpy_ns);
    benchmark::RunSpecifiedBenchmarks(&reporter);
  } else {
    benchmark::RunSpecifiedBenchmarks();
  }
  return 0;
}
