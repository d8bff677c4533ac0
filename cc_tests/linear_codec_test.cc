// The contract of every linear codec, and linear specs.
#include "core/linear_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/compressor.h"
#include "core/linear_compressor.h"
#include "core/seeded_support.h"
#include "expect_refused.h"

namespace tfcompress {
namespace {

using Floats = std::vector<float>;
using Indices = std::vector<uint32_t>;

std::shared_ptr<const LinearCompressor> Parse(const std::string& spec) {
  const auto compressor = LinearCompressor::FromSpec(spec);
  EXPECT_TRUE(compressor.ok()) << compressor.status().message();
  return compressor.value();
}

// Payloads small enough for every size of vector.
const std::vector<std::string>& Specs() {
  static const auto* specs = new std::vector<std::string>{
      "count_sketch:rows=1,columns=1,k=1",
      "count_sketch:rows=5,columns=1000,k=20",
      "count_sketch:rows=3,columns=512,k=300,candidates=2",
      "count_sketch:rows=31,columns=100,k=3,recovery=heavymix",
      "shared_randomk",
      "shared_randomk:ratio=1",
      "powersgd",
  };
  return *specs;
}

class LinearContract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { compressor_ = Parse(GetParam()); }

  const LinearCodec& codec() const { return compressor_->codec(); }

  Floats Encode(const JoinedSpan& x, uint64_t seed = 3,
                Executor* executor = SerialExecutor()) const {
    Floats payload(static_cast<size_t>(codec().PayloadSize(x.size())), 9.0f);
    const Status status = codec().Encode(x, {seed, executor}, Span<float>(payload));
    EXPECT_TRUE(status.ok()) << status.message();
    return payload;
  }

  void Recover(const Floats& summed, int64_t n, Indices* indices, Floats* values, uint64_t seed = 3,
               Executor* executor = SerialExecutor()) const {
    *indices = {9, 9};  // Recover must overwrite this.
    *values = {9};
    const Status status = codec().Recover(summed, n, {seed, executor}, indices, values);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(CheckIndices(*indices, static_cast<uint32_t>(n)).ok());
    ASSERT_EQ(static_cast<int64_t>(indices->size()), codec().NumCandidates(n));
    ASSERT_EQ(values->size(), indices->size());
  }

 private:
  std::shared_ptr<const LinearCompressor> compressor_;
};

TEST_P(LinearContract, TakesVectorsOfEverySize) {
  for (const int64_t n : {0, 1, 2, 99, 20000}) {
    const Floats payload = Encode(Gradient(static_cast<size_t>(n), 1));
    Indices indices;
    Floats values;
    Recover(payload, n, &indices, &values);
    ExpectFinite(values);
    EXPECT_LE(codec().NumKept(n), codec().NumCandidates(n));
    EXPECT_LE(codec().NumCandidates(n), n);
    EXPECT_TRUE(n == 0 || codec().NumKept(n) > 0);
  }
}

TEST_P(LinearContract, PayloadsOfIntegersAddUpExactly) {
  constexpr size_t kElements = 5000;
  Floats a = NormalValues(kElements, 1), b = NormalValues(kElements, 2), sum(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    a[i] = std::round(100 * a[i]);
    b[i] = std::round(100 * b[i]);
    sum[i] = a[i] + b[i];
  }
  const Floats of_a = Encode(a), of_b = Encode(b);
  Floats summed(of_a.size());
  for (size_t i = 0; i < summed.size(); ++i) summed[i] = of_a[i] + of_b[i];
  EXPECT_EQ(summed, Encode(sum));
  if (!codec().exact()) return;
  Indices indices;
  Floats values;
  Recover(summed, kElements, &indices, &values);
  for (size_t j = 0; j < indices.size(); ++j) ASSERT_EQ(values[j], sum[indices[j]]);
}

TEST_P(LinearContract, DoesNotDependOnTheExecutorOrOnWhereTheVectorIsCut) {
  constexpr size_t kElements = 2 * kBlockElements + 100;
  const Floats x = Gradient(kElements, 5);
  const Floats payload = Encode(x);
  ThreadExecutor threads(3);
  EXPECT_EQ(Encode(x, 3, &threads), payload);
  const Span<const float> whole(x);
  const std::vector<Span<const float>> parts = {whole.subspan(0, 1), whole.subspan(1, 0),
                                                whole.subspan(1, 70000),
                                                whole.subspan(70001, kElements - 70001)};
  EXPECT_EQ(Encode(JoinedSpan(parts)), payload);
  Indices indices, parallel_indices;
  Floats values, parallel_values;
  Recover(payload, kElements, &indices, &values);
  Recover(payload, kElements, &parallel_indices, &parallel_values, 3, &threads);
  EXPECT_EQ(parallel_indices, indices);
  EXPECT_EQ(parallel_values, values);
}

TEST_P(LinearContract, ANonFiniteVectorMakesEverythingNaN) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    for (const size_t place : {size_t{0}, size_t{99999}}) {
      Floats x = Gradient(100000, 1);
      x[place] = bad;
      const Floats payload = Encode(x);
      for (float value : payload) ASSERT_TRUE(std::isnan(value));
      Indices indices;
      Floats values;
      Recover(payload, 100000, &indices, &values);
      for (float value : values) ASSERT_TRUE(std::isnan(value));
    }
  }
}

TEST_P(LinearContract, ASumThatOverflowedIsNaN) {
  Floats payload = Encode(Gradient(1000, 1));
  payload.back() = std::numeric_limits<float>::infinity();
  Indices indices;
  Floats values;
  Recover(payload, 1000, &indices, &values);
  for (float value : values) ASSERT_TRUE(std::isnan(value));
}

TEST_P(LinearContract, RefusesWrongSizes) {
  const Floats x(1000, 1.0f);
  const auto size = static_cast<size_t>(codec().PayloadSize(1000));
  Indices indices;
  Floats values;
  for (const size_t wrong : {size_t{0}, size - 1, size + 1}) {
    Floats payload(wrong, 5.0f);
    EXPECT_EQ(codec().Encode(x, {}, Span<float>(payload)).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(payload, Floats(wrong, 5.0f));
    ExpectError(codec().Recover(payload, 1000, {}, &indices, &values), StatusCode::kInvalidArgument,
                "expected " + std::to_string(size));
  }
  const Floats payload(size);
  for (const int64_t n : {int64_t{-1}, std::numeric_limits<int64_t>::min(), int64_t{1} << 31}) {
    ExpectError(codec().Recover(payload, n, {}, &indices, &values), StatusCode::kInvalidArgument,
                std::to_string(n));
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, LinearContract, testing::ValuesIn(Specs()),
                         [](const auto& info) { return TestName(info.param); });

TEST(LinearSpecs, CoverTheRegistry) {
  for (const auto& row : Registry<LinearCodec>()) {
    EXPECT_TRUE(std::any_of(Specs().begin(), Specs().end(), [&](const std::string& spec) {
      return spec.substr(0, row.name.size()) == row.name;
    })) << row.name;
  }
}

TEST(CountSketchCodec, CountsWhatItRecovers) {
  const auto top = Parse("count_sketch:rows=3,columns=10,k=100,candidates=4");
  EXPECT_EQ(top->codec().PayloadSize(12345), 30);
  EXPECT_EQ(top->codec().NumCandidates(1000), 400);
  EXPECT_EQ(top->codec().NumCandidates(300), 300);
  EXPECT_EQ(top->codec().NumKept(1000), 100);
  EXPECT_EQ(top->codec().NumKept(30), 30);
  const auto mix = Parse("count_sketch:rows=3,columns=10,k=100,recovery=heavymix");
  EXPECT_EQ(mix->codec().NumCandidates(1000), 100);
  EXPECT_EQ(mix->codec().NumKept(1000), 100);
  const auto most = Parse("count_sketch:k=2147483647,candidates=1000");
  EXPECT_EQ(most->codec().NumCandidates(1 << 30), 1 << 30);
  EXPECT_FALSE(most->codec().exact());
}

TEST(SharedRandomK, SendsTheSeededSupport) {
  const auto compressor = Parse("shared_randomk:ratio=0.1");
  const Floats x = NormalValues(500, 1);
  Floats payload(50);
  ASSERT_TRUE(compressor->codec().Encode(x, {7}, Span<float>(payload)).ok());
  const Indices support = SeededSupport(500, 50, 7, SerialExecutor());
  for (size_t j = 0; j < support.size(); ++j) EXPECT_EQ(payload[j], x[support[j]]);
  Indices indices;
  Floats values;
  ASSERT_TRUE(compressor->codec().Recover(payload, 500, {7}, &indices, &values).ok());
  EXPECT_EQ(indices, support);
  EXPECT_EQ(values, payload);
  EXPECT_TRUE(compressor->codec().exact());
}

TEST(PowerSgd, SendsVectorsAsTheyAre) {
  const auto compressor = Parse("residual|powersgd:rank=3,warm_start=0");
  EXPECT_EQ(compressor->codec().low_rank().rank, 3);
  EXPECT_FALSE(compressor->codec().low_rank().warm_start);
  EXPECT_TRUE(Parse("powersgd")->codec().low_rank().warm_start);
  EXPECT_EQ(Parse("shared_randomk")->codec().low_rank().rank, 0);
  const Floats x = NormalValues(500, 1);
  Floats payload(500);
  ASSERT_TRUE(compressor->codec().Encode(x, {7}, Span<float>(payload)).ok());
  EXPECT_EQ(payload, x);
}

TEST(LinearSpec, WritesEveryParameterButNotTheMemoryNone) {
  EXPECT_EQ(Parse("none|count_sketch")->spec(),
            "count_sketch:rows=5,columns=1000000,k=100000,candidates=36,recovery=top");
  EXPECT_EQ(Parse("momentum|shared_randomk:ratio=1e-2")->spec(),
            "momentum:rate=0.9,nesterov=0|shared_randomk:ratio=0.01");
  const auto compressor = Parse("residual|count_sketch:columns=134217728,rows=31");
  EXPECT_EQ(Parse(compressor->spec())->spec(), compressor->spec());
  EXPECT_EQ(compressor->memory().num_slots(), 1);
}

TEST(LinearSpec, NamesTheError) {
  ExpectSpecRefused<LinearCompressor>("count_sketch:rows=4",
                                      {"'rows'", "odd integer in [1, 31]", "got '4'"});
  ExpectSpecRefused<LinearCompressor>("count_sketch:rows=33", {"[1, 31]"});
  ExpectSpecRefused<LinearCompressor>("count_sketch:columns=0", {"'columns'", "[1, 134217728]"});
  ExpectSpecRefused<LinearCompressor>("count_sketch:columns=134217729", {"'columns'"});
  ExpectSpecRefused<LinearCompressor>("count_sketch:k=0", {"'k'"});
  ExpectSpecRefused<LinearCompressor>("count_sketch:k=1.5", {"'k'", "an integer"});
  ExpectSpecRefused<LinearCompressor>("count_sketch:recovery=best", {"top, heavymix"});
  ExpectSpecRefused<LinearCompressor>("count_sketch:size=3",
                                      {"known: rows, columns, k, candidates, recovery"});
  ExpectSpecRefused<LinearCompressor>("momentum:rate=1|count_sketch", {"'rate'", "[0, 1)"});
  ExpectSpecRefused<LinearCompressor>("topk|count_sketch", {"unknown memory 'topk'", "momentum"});
  ExpectSpecRefused<LinearCompressor>("residual|topk|count_sketch",
                                      {"has 3 parts", "[memory|]linear"});
  ExpectSpecRefused<LinearCompressor>("count_sketch|residual", {"unknown memory 'count_sketch'"});
}

TEST(LinearSpec, CannotBeFramedAndAFramedSpecIsNotLinear) {
  ExpectSpecRefused<LinearCompressor>("topk|raw|raw",
                                      {"names no linear codec", "count_sketch, shared_randomk"});
  ExpectSpecRefused<LinearCompressor>("", {"names no linear codec"});
  for (const std::string spec : {"count_sketch", "residual|shared_randomk", "topk|count_sketch|raw",
                                 "momentum|count_sketch:rows=4"}) {
    ExpectError(Compressor::FromSpec(spec).status(), StatusCode::kInvalidArgument,
                "can never be framed");
    EXPECT_TRUE(IsLinearSpec(spec));
  }
  EXPECT_FALSE(IsLinearSpec("residual|randomk|raw|raw"));
}

TEST(Registry, LinearNamesAreNoOtherParts) {
  for (const auto& row : Registry<LinearCodec>()) {
    EXPECT_EQ(FindByName<Memory>(row.name), nullptr);
    EXPECT_EQ(FindByName<Sparsifier>(row.name), nullptr);
    EXPECT_EQ(FindByName<IndexCodec>(row.name), nullptr);
    EXPECT_EQ(FindByName<ValueCodec>(row.name), nullptr);
    EXPECT_EQ(FindByName<SparseCodec>(row.name), nullptr);
  }
}

}  // namespace
}  // namespace tfcompress
