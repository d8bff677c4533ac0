#include "device_inputs.h"

#include <limits>

#include "contract_inputs.h"
#include "core/compressor.h"
#include "core/hash.h"
#include "cuda/device_variants.h"

namespace tfcompress {
namespace device {
namespace {

constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

// The settings of a part that take different paths through the kernels.
std::vector<std::string> SettingsOf(const std::string& part) {
  if (part == "momentum") return {"momentum", "momentum:nesterov=1,rate=0.5"};
  if (part == "topk")
    return {"topk:ratio=0.01", "topk:ratio=0.3", "topk:ratio=1", "topk:ratio=0.000001"};
  if (part == "randomk") return {"randomk:ratio=0.1", "randomk:ratio=1"};
  if (part == "threshold") return {"threshold:tau=0.01", "threshold:tau=1"};
  if (part == "delta_flag") return {"delta_flag", "delta_flag:flag_bits=5"};
  if (part == "bloom")
    return {"bloom:policy=p0",
            "bloom:policy=naive,fpr=0.2",
            "bloom:policy=leftmost,fpr=0.1",
            "bloom:policy=middle,fpr=0.3",
            "bloom:policy=rightmost,fpr=0.01",
            "bloom:policy=p1,fpr=0.1",
            "bloom:policy=p2,fpr=0.03"};
  if (part == "qsgd") return {"qsgd", "qsgd:bits=3,bucket=7"};
  if (part == "block_int")
    return {"block_int", "block_int:bits=4,block=16", "block_int:bits=2,block=1024",
            "block_int:bits=4,levels=square"};
  if (part == "uniform") return {"uniform", "uniform:bits=16"};
  if (part == "logquant") return {"logquant", "logquant:bits=3"};
  if (part == "skcompress")
    return {"skcompress", "skcompress:buckets=10,groups=3,rows=3,columns=0.5"};
  if (part == "sketchml") return {"sketchml", "sketchml:buckets=10,groups=3,rows=3,columns=0.5"};
  if (part == "ternary") return {"ternary", "ternary:clip=2.5"};
  if (part == "quantile") return {"quantile", "quantile:buckets=3"};
  if (part == "log") return {"log", "log:tau=0", "log:base=2,tau=5"};
  return {part};
}

// Each index codec with one value codec, each setting of a value codec with one index codec, and
// the joint codecs.
std::vector<std::string> AllCodecs() {
  std::vector<std::string> codecs;
  for (const std::string& index : DeviceIndexCodecs())
    for (const std::string& setting : SettingsOf(index)) codecs.push_back(setting + "|raw");
  for (const std::string& value : DeviceValueCodecs())
    for (const std::string& setting : SettingsOf(value))
      if (value != "raw") codecs.push_back("raw|" + setting);
  // Sections that are measured after the filter has added elements to the support.
  for (const char* value : {"quantile", "log", "dexp"})
    codecs.push_back(std::string("bloom:policy=p0,fpr=0.5|") + value);
  // Values that are not those at the indices that are sent.
  for (const char* value :
       {"quantile", "qsgd:bits=4,bucket=10", "ternary", "block_int:bits=2,block=16"})
    codecs.push_back(std::string("bloom:policy=naive,fpr=0.5|") + value);
  for (const std::string& joint : DeviceJointCodecs())
    for (const std::string& setting : SettingsOf(joint)) codecs.push_back(setting);
  return codecs;
}

std::vector<float> FromFew(size_t n, uint64_t seed, const std::vector<float>& few) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = few[random.Below(static_cast<uint32_t>(few.size()))];
  return values;
}

// Magnitudes over many octaves.
std::vector<float> HeavyTailed(size_t n, uint64_t seed) {
  std::vector<float> values = NormalValues(n, seed);
  for (float& value : values) value = value * value * value * value * value;
  return values;
}

// A few large elements among equal ones: the bucket of the k-th largest holds nearly all.
std::vector<float> Outliers(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n, -0.25f);
  for (size_t i = 0; i < n / 200; ++i)
    values[random.Below(static_cast<uint32_t>(n))] = 1.0f + random.NextFloat();
  return values;
}

// Values in one bucket of the first digit, which only the other digits tell apart.
std::vector<float> Narrow(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = 1.0f + 0.1f * random.NextFloat();
  return values;
}

}  // namespace

// The memories alternate over the specs: compensation ends before selection and coding begin.
std::vector<std::string> AllDeviceSpecs() {
  std::vector<std::string> memories;
  for (const std::string& memory : DeviceMemories())
    for (const std::string& setting : SettingsOf(memory)) memories.push_back(setting);
  std::vector<std::string> specs;
  size_t num_settings = 0;
  for (const std::string& sparsifier : DeviceSparsifiers())
    for (const std::string& setting : SettingsOf(sparsifier)) {
      size_t turn = num_settings++;
      for (const std::string& codecs : AllCodecs()) {
        const std::string& memory = memories[turn++ % memories.size()];
        const std::string spec = memory + "|" + setting + "|" + codecs;
        if (Compressor::FromSpec(spec).ok()) specs.push_back(spec);
      }
    }
  return specs;
}

const std::vector<std::string>& SomeDeviceSpecs() {
  static const auto* specs = new std::vector<std::string>{
      "residual|topk:ratio=0.01|raw|raw",
      "none|topk:ratio=0.3|bitmap|fp16",
      "residual|topk:ratio=0.05|delta_binary|bf16",
      "none|nonzero|delta_binary|raw",
      "residual|threshold:tau=0.5|bitmap|bf16",
      "none|randomk:ratio=0.01|raw|fp16",
      "residual|dense|raw|fp16",
      "residual|dense|raw|qsgd:bits=4,bucket=100",
      "residual|dense|raw|block_int",
      "residual|dense|raw|block_int:bits=3,block=16,levels=square",
      "momentum|dense|raw|block_int:bits=4",
      "none|dense|raw|raw",
      "none|topk:ratio=0.3|delta_binary|block_int:bits=2,block=64",
      "residual|topk:ratio=0.3|delta_binary|uniform:bits=16",
      "none|topk:ratio=0.05|bitmap|logquant:bits=5",
      "none|dense|raw|ternary:clip=2.5",
      "residual|nonzero|delta_binary|sign",
      "residual|topk:ratio=0.05|bitmap|quantile:buckets=20",
      "residual|topk:ratio=0.05|bitmap|log:base=1.001,tau=32767",
      "residual|topk:ratio=0.05|bitmap|dexp",
      "none|dense|raw|dexp",
      "residual|topk:ratio=0.05|delta_adaptive|bf16",
      "none|nonzero|delta_adaptive|fp16",
      "residual|topk:ratio=0.3|delta_flag:flag_bits=3|raw",
      "residual|topk:ratio=0.01|bloom:policy=p0|raw",
      "none|nonzero|bloom:policy=p0,fpr=0.6|qsgd",
      "momentum|topk:ratio=0.05|raw|fp16",
      "momentum:nesterov=1,rate=0.5|topk:ratio=0.01|bloom:policy=leftmost|raw",
      "residual|threshold:tau=0.5|bloom:policy=middle,fpr=0.2|fp16",
      "residual|topk:ratio=0.05|bloom:policy=naive,fpr=0.3|sign",
      "residual|topk:ratio=0.05|bloom:policy=p1,fpr=0.1|fp16",
      "residual|topk:ratio=0.01|bloom:policy=p2,fpr=0.01|raw",
      "none|nonzero|bloom:policy=p2,fpr=0.3|qsgd",
      "residual|topk:ratio=0.1|sketchml",
      "none|dense|sketchml:buckets=2000,groups=256,rows=1,columns=0.9",
      "residual|topk:ratio=0.1|skcompress",
      "none|dense|skcompress:buckets=2000,groups=2,rows=2,columns=0.9",
  };
  return *specs;
}

const std::vector<Input>& Inputs() {
  static const auto* inputs = new std::vector<Input>{
      {"normal", NormalValues},
      {"gradient", Gradient},
      {"heavy tailed", HeavyTailed},
      {"many ties",
       [](size_t n, uint64_t seed) {
         return FromFew(n, seed, {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 0.01f});
       }},
      {"all equal", [](size_t n, uint64_t) { return std::vector<float>(n, -0.75f); }},
      {"zeros", [](size_t n, uint64_t seed) { return FromFew(n, seed, {0.0f, -0.0f}); }},
      {"subnormal",
       [](size_t n, uint64_t seed) {
         return FromFew(n, seed, {kDenormal, -kDenormal, 77 * kDenormal, 1e-39f, -0.0f, 1e-38f});
       }},
      {"largest",
       [](size_t n, uint64_t seed) {
         return FromFew(n, seed, {1e38f, -1.1e38f, 1e-30f, 70000.0f, 65519.0f});
       }},
      {"outliers", Outliers},
      {"narrow", Narrow},
  };
  return *inputs;
}

}  // namespace device
}  // namespace tfcompress
