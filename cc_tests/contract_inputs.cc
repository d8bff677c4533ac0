#include "contract_inputs.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>

#include "core/hash.h"

namespace tfcompress {
namespace {

using Given = std::vector<std::pair<std::string, std::string>>;

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
constexpr uint32_t kSeveralBlocks = 3 * static_cast<uint32_t>(kBlockElements) + 77;

std::string NumberText(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  return text;
}

std::vector<uint32_t> Range(uint32_t begin, uint32_t end, uint32_t step = 1) {
  std::vector<uint32_t> indices;
  for (uint32_t i = begin; i < end; i += step) indices.push_back(i);
  return indices;
}

// Runs of adjacent indices, as embedding rows of a batch have them.
std::vector<uint32_t> Clusters(uint32_t n, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> indices;
  for (uint32_t i = random.Below(100); i < n; i += 1 + random.Below(300)) {
    for (uint32_t run = random.Below(12); run > 0 && i < n; --run) indices.push_back(i++);
  }
  return indices;
}

std::vector<float> Map(size_t count, uint64_t seed, const std::function<float(float)>& map) {
  std::vector<float> values = NormalValues(count, seed);
  for (float& value : values) value = map(value);
  return values;
}

// Tests with so many distinct values that a codec cannot be exact merely because there are few.
bool IsExact(const Setting<ValueCodec>& value) {
  static auto* known = new std::map<std::string, bool>();
  const auto found = known->find(value.part);
  if (found != known->end()) return found->second;
  return (*known)[value.part] = value.codec->MaxError(NormalValues(200000, 1)) == 0;
}

// Specs without memory, and whether they are exact.
using Backs = std::map<std::string, bool>;

void AddBacks(const std::vector<Setting<Sparsifier>>& sparsifiers,
              const std::vector<Setting<IndexCodec>>& indices,
              const std::vector<Setting<ValueCodec>>& values,
              const std::vector<Setting<SparseCodec>>& joints, Backs* backs) {
  for (const auto& sparsifier : sparsifiers) {
    const bool implied = sparsifier.codec->implied() != Implied::kNothing;
    for (const auto& index : indices) {
      if (implied && index.part != "raw") continue;
      for (const auto& value : values) {
        const bool exact = (implied || IsExact(*index.codec)) && IsExact(value);
        (*backs)[sparsifier.part + "|" + index.part + "|" + value.part] = exact;
      }
    }
    for (const auto& joint : joints) (*backs)[sparsifier.part + "|" + joint.part] = false;
  }
}

template <typename Interface>
std::vector<Setting<Interface>> Defaults(const std::string& only_name = "") {
  std::vector<Setting<Interface>> defaults;
  for (auto& setting : AllSettings<Interface>()) {
    if (setting.is_default && (only_name.empty() || setting.part == only_name)) {
      defaults.push_back(setting);
    }
  }
  return defaults;
}

std::vector<SpecCase> WithMemories(const std::vector<std::string>& memories, const Backs& backs) {
  std::vector<SpecCase> specs;
  for (const std::string& memory : memories) {
    for (const auto& [back, exact] : backs) specs.push_back({memory + "|" + back, memory, exact});
  }
  return specs;
}

Backs BacksOfEachPart() {
  const auto topk = Defaults<Sparsifier>("topk");
  const auto raw_index = Defaults<IndexCodec>("raw");
  const auto raw_value = Defaults<ValueCodec>("raw");
  Backs backs;
  AddBacks(AllSettings<Sparsifier>(), raw_index, raw_value, {}, &backs);
  AddBacks(topk, AllSettings<IndexCodec>(), raw_value, {}, &backs);
  AddBacks(topk, raw_index, AllSettings<ValueCodec>(), {}, &backs);
  AddBacks(topk, {}, {}, AllSettings<SparseCodec>(), &backs);
  AddBacks(Defaults<Sparsifier>("dense"), raw_index, Defaults<ValueCodec>(),
           Defaults<SparseCodec>(), &backs);
  return backs;
}

Backs AllBacks() {
  Backs backs = BacksOfEachPart();
  AddBacks(Defaults<Sparsifier>(), Defaults<IndexCodec>(), Defaults<ValueCodec>(),
           Defaults<SparseCodec>(), &backs);
  return backs;
}

}  // namespace

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), 4 * a.size()) == 0);
}

double RelativeError(const std::vector<float>& values, const std::vector<float>& decoded) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(double{values[i]} - decoded[i], 2);
    norm += std::pow(values[i], 2);
  }
  return std::sqrt(error / norm);
}

bool IsExact(const IndexCodec& codec) {
  Bytes section;
  return !codec.Encode(std::vector<uint32_t>{0}, 1, {}, &section).value().changed.has_value();
}

bool Narrows(const ValueCodec& codec) {
  return codec.LeastSent(NormalValues(1000, 1), SerialExecutor()) > 0;
}

std::vector<Given> ParameterSettings(const std::vector<ParamSpec>& params) {
  std::vector<Given> settings = {{}};
  for (const ParamSpec& param : params) {
    if (param.kind == ParamKind::kChoice) {
      for (const std::string& choice : param.choices) settings.push_back({{param.name, choice}});
      continue;
    }
    if (!param.min_open) settings.push_back({{param.name, NumberText(param.min)}});
    if (!param.max_open) settings.push_back({{param.name, NumberText(param.max)}});
  }
  return settings;
}

std::string PartText(const std::string& name, const Given& given) {
  std::string text = name;
  for (const auto& [key, value] : given) text += (text == name ? ":" : ",") + key + "=" + value;
  return text;
}

std::string TestName(const std::string& text) {
  std::string name;
  for (char c : text) name += c == '|' ? "__" : std::string(1, std::isalnum(c) ? c : '_');
  return name;
}

std::vector<uint32_t> RandomSubset(uint32_t n, double probability, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < n; ++i) {
    if (random.NextFloat() < probability) indices.push_back(i);
  }
  return indices;
}

std::vector<uint32_t> RandomProduct(uint32_t num_rows, uint32_t width, uint64_t seed) {
  const std::vector<uint32_t> rows = RandomSubset(num_rows, 0.25, seed);
  const std::vector<uint32_t> columns = RandomSubset(width, 0.25, seed + 1);
  std::vector<uint32_t> indices;
  for (const uint32_t row : rows)
    for (const uint32_t column : columns) indices.push_back(row * width + column);
  return indices;
}

std::vector<float> NormalValues(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = -6.0f;
    for (int i = 0; i < 12; ++i) value += random.NextFloat();
  }
  return values;
}

std::vector<float> Gradient(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> values = NormalValues(n, seed + 1);
  for (float& value : values) {
    const uint32_t kind = random.Below(10);
    value = kind < 5 ? 0.0f : 0.01f * value * value * value * (kind == 9 ? 1e-6f : 1.0f);
  }
  return values;
}

const std::vector<IndexCase>& IndexCases() {
  static const auto* cases = new std::vector<IndexCase>{
      {"none of one", 1, {}},
      {"one of one", 1, {0}},
      {"none", 1000, {}},
      {"first", 1000, {0}},
      {"last", 1000, {999}},
      {"both ends", 1000, {0, 999}},
      {"all of 8", 8, Range(0, 8)},
      {"all of 9", 9, Range(0, 9)},
      {"all", 1000, Range(0, 1000)},
      {"all but the first", 1000, Range(1, 1000)},
      {"one percent", 20000, RandomSubset(20000, 0.01, 1)},
      {"half", 5000, RandomSubset(5000, 0.5, 2)},
      {"every third", 5000, Range(2, 5000, 3)},
      {"clusters", 30000, Clusters(30000, 3)},
      {"gaps of every length", 70000, {5, 6, 261, 517, 1028, 66564, 69999}},
      {"several blocks, thin", kSeveralBlocks, RandomSubset(kSeveralBlocks, 0.001, 4)},
      {"several blocks, one used", kSeveralBlocks, Range(140000, 140100)},
      {"several blocks of indices", kSeveralBlocks, RandomSubset(kSeveralBlocks, 0.7, 5)},
      {"matrix", 200 * 300, RandomProduct(200, 300, 6), 300},
  };
  return *cases;
}

const std::vector<IndexCase>& SmallIndexCases() {
  static const auto* cases = new std::vector<IndexCase>{
      {"one of one", 1, {0}},
      {"last", 300, {299}},
      {"some", 300, {0, 3, 4, 5, 17, 60, 61, 128, 129, 200, 255, 256, 290, 299}},
      {"all", 43, Range(0, 43)},
      {"a tenth", 1000, RandomSubset(1000, 0.1, 8)},
      {"long gaps", 70000, {1, 2, 300, 66000, 69999}},
      {"matrix", 40 * 20, RandomProduct(40, 20, 7), 20},
  };
  return *cases;
}

const std::vector<ValueCase>& ValueCases() {
  static const auto* cases = new std::vector<ValueCase>{
      {"none", {}},
      {"one", {-0.25f}},
      {"one zero", {0.0f}},
      {"two", {1.0f, -2.0f}},
      {"three", {3.0f, 1.0f, 2.0f}},
      {"zeros", std::vector<float>(100, 0.0f)},
      {"both zeros", {0.0f, -0.0f, -0.0f, 0.0f}},
      {"equal", std::vector<float>(100, -0.1f)},
      {"two values", Map(500, 1, [](float x) { return x < 0 ? -1.5f : 2.5f; })},
      {"normal", NormalValues(1000, 2)},
      {"positive", Map(1000, 3, [](float x) { return std::fabs(x) + 0.001f; })},
      {"negative", Map(1000, 4, [](float x) { return -std::fabs(x) - 0.001f; })},
      {"heavy tails", Map(1000, 5, [](float x) { return x * x * x * x * x; })},
      {"wide range", Map(1000, 6, [](float x) { return std::copysign(std::exp2(x * 20), x); })},
      {"one outlier", Map(999, 7, [](float x) { return x > 2.5f ? 1e30f : 1e-3f * x; })},
      {"denormal", Map(300, 8, [](float x) { return std::round(x * 20) * kDenormal; })},
      {"denormal and normal", Map(300, 9, [](float x) { return x < 0 ? kDenormal : x; })},
      {"largest", {kLargest, -kLargest, kLargest, 1.0f, 0.0f, -kLargest, kDenormal}},
      {"largest only", std::vector<float>(40, kLargest)},
      {"near the largest", Map(300, 10, [](float x) { return x / 6 * kLargest; })},
      {"half overflow", {65504.0f, 65519.0f, 65520.0f, 70000.0f, -65520.0f, 1.0f}},
      {"several blocks", NormalValues(kSeveralBlocks, 11)},
  };
  return *cases;
}

const std::vector<ValueCase>& SmallValueCases() {
  static const auto* cases = new std::vector<ValueCase>{
      {"one", {-0.25f}},
      {"nine", NormalValues(9, 1)},
      {"forty", Map(40, 2, [](float x) { return x * x * x; })},
      {"zeros", std::vector<float>(10, 0.0f)},
  };
  return *cases;
}

const std::vector<SpecCase>& AllSpecs() {
  static const auto* specs = [] {
    std::vector<std::string> memories;
    for (const auto& row : Registry<Memory>()) memories.push_back(row.name);
    return new std::vector<SpecCase>(WithMemories(memories, AllBacks()));
  }();
  return *specs;
}

const std::vector<SpecCase>& SpecsOfEachPart() {
  static const auto* specs =
      new std::vector<SpecCase>(WithMemories({"residual"}, BacksOfEachPart()));
  return *specs;
}

void ForEachPrefix(ByteSpan bytes, const std::function<void(const Bytes&)>& check) {
  for (size_t size = 0; size < bytes.size(); ++size) {
    check(Bytes(bytes.begin(), bytes.begin() + size));
  }
}

void ForEachBitFlip(ByteSpan bytes, const std::function<void(const Bytes&, size_t)>& check) {
  Bytes flipped(bytes.begin(), bytes.end());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    flipped[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    check(flipped, bit);
    flipped[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
  }
}

void ExpectError(const Status& status, StatusCode code, const std::string& words) {
  EXPECT_EQ(status.code(), code);
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

void ExpectDataLoss(const Status& status, const std::string& words) {
  ExpectError(status, StatusCode::kDataLoss, words);
}

void ExpectSubset(const std::vector<uint32_t>& indices, uint32_t n, uint32_t k) {
  EXPECT_EQ(indices.size(), k);
  const Status status = CheckIndices(indices, n);
  EXPECT_TRUE(status.ok()) << status.message();
}

void ExpectFinite(const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(std::isfinite(values[i])) << "value " << i << " is " << values[i];
  }
}

void ExpectSame(const SparseTensor& actual, const SparseTensor& expected) {
  EXPECT_EQ(actual.n, expected.n);
  EXPECT_EQ(actual.everything, expected.everything);
  EXPECT_EQ(actual.indices, expected.indices);
  EXPECT_TRUE(SameBits(actual.values, expected.values)) << "values differ";
}

}  // namespace tfcompress
