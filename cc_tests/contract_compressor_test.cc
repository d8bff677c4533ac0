// The contract of every legal compressor: memory x sparsifier x (index x value, or joint).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "contract_inputs.h"
#include "core/pipeline.h"

namespace tfcompress {
namespace {

constexpr uint32_t kElements = 1500;
constexpr size_t kFrameOverhead = kFrameHeaderBytes;

// A compressor and the memory of one tensor on one rank.
class Worker {
 public:
  Worker(const std::string& spec, size_t n) {
    const auto parsed = Compressor::FromSpec(spec);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    compressor_ = parsed.value();
    for (int i = 0; i < compressor_->memory().num_slots(); ++i) storage_.emplace_back(n, 0.0f);
    for (std::vector<float>& slot : storage_) slots_.push_back(slot.data());
  }

  const Compressor& compressor() const { return *compressor_; }
  const std::vector<std::vector<float>>& slots() const { return storage_; }

  Bytes Encode(const std::vector<float>& gradient, uint64_t seed,
               Executor* executor = SerialExecutor()) {
    Bytes frame;
    const Status status =
        EncodeFrame(*compressor_, {gradient.data(), DType::kFloat32, gradient.size()},
                    Span<float* const>(slots_), {seed, executor}, &frame);
    EXPECT_TRUE(status.ok()) << status.message();
    return frame;
  }

 private:
  std::shared_ptr<const Compressor> compressor_;
  std::vector<std::vector<float>> storage_;
  std::vector<float*> slots_;
};

Frame ReadOne(const Bytes& bytes) {
  ByteReader reader(bytes);
  Frame frame;
  const Status status = ReadFrame(&reader, &frame);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(reader.remaining(), 0u);
  return frame;
}

SparseTensor Decode(const Bytes& bytes, Executor* executor = SerialExecutor()) {
  SparseTensor decoded;
  const Frame frame = ReadOne(bytes);
  const Status status = DecodeFrame(frame, executor, &decoded);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(decoded.n, frame.header.n);
  EXPECT_EQ(decoded.values.size(), frame.header.k);
  ExpectFinite(decoded.values);
  if (!decoded.everything) ExpectSubset(decoded.indices, decoded.n, frame.header.k);
  return decoded;
}

std::vector<float> ToDense(const SparseTensor& sparse) {
  std::vector<float> dense(sparse.n);
  const Support support = sparse.support();
  for (size_t i = 0; i < sparse.values.size(); ++i) dense[support[i]] = sparse.values[i];
  return dense;
}

Status Sum(const Bytes& packets, int num_ranks, float scale, std::vector<float>* sum,
           Executor* executor = SerialExecutor()) {
  const std::vector<SumTarget> targets = {{sum->data(), DType::kFloat32, sum->size()}};
  return DecodeSum(packets, num_ranks, scale, targets, executor, {});
}

class CompressorContract : public testing::TestWithParam<SpecCase> {
 protected:
  const std::string& spec() const { return GetParam().spec; }

  // The gradient after the memory's compensation. With slots, slot 0 is the residual.
  std::vector<float> Compensated(const Worker& worker, const std::vector<float>& gradient) const {
    std::vector<float> compensated = gradient;
    for (size_t i = 0; i < gradient.size(); ++i) {
      if (GetParam().memory == "momentum") compensated[i] += 0.9f * worker.slots()[1][i];
      if (GetParam().memory != "none") compensated[i] += worker.slots()[0][i];
    }
    return compensated;
  }

  // Runs one step of `worker`; the residual must keep exactly what receivers did not get.
  void ExpectConserved(Worker* worker, const std::vector<float>& gradient, uint64_t seed) {
    const std::vector<float> compensated = Compensated(*worker, gradient);
    const SparseTensor decoded = Decode(worker->Encode(gradient, seed));
    if (GetParam().exact) {
      const Support support = decoded.support();
      for (size_t i = 0; i < decoded.values.size(); ++i) {
        ASSERT_EQ(decoded.values[i], compensated[support[i]]) << "element " << support[i];
      }
    }
    if (GetParam().memory == "none") return;
    const std::vector<float> dense = ToDense(decoded);
    for (size_t i = 0; i < dense.size(); ++i) {
      ASSERT_EQ(worker->slots()[0][i], compensated[i] - dense[i]) << "element " << i;
    }
  }
};

TEST_P(CompressorContract, HasACanonicalSpec) {
  const std::string canonical = Worker(spec(), 0).compressor().spec();
  EXPECT_EQ(Worker(canonical, 0).compressor().spec(), canonical);
}

TEST_P(CompressorContract, ConservesWhatItDrops) {
  Worker worker(spec(), kElements);
  for (uint64_t step = 0; step < 4; ++step) {
    SCOPED_TRACE(step);
    ExpectConserved(&worker, Gradient(kElements, 100 + step), step);
  }
}

TEST_P(CompressorContract, TakesTensorsOfEverySize) {
  std::vector<std::vector<float>> gradients = {{},
                                               {0.5f},
                                               {0.0f},
                                               {-1.0f, 1.0f},
                                               std::vector<float>(200, 0.0f),
                                               std::vector<float>(200, -0.1f)};
  gradients.push_back(std::vector<float>(200, 0.0f));
  gradients.back().back() = 3.0f;
  for (const std::vector<float>& gradient : gradients) {
    SCOPED_TRACE(gradient.size());
    Worker worker(spec(), gradient.size());
    for (uint64_t step = 0; step < 2; ++step) ExpectConserved(&worker, gradient, step);
  }
}

TEST_P(CompressorContract, FramesAreWithinTheirBoundWhateverIsRemembered) {
  const std::vector<float> gradient = Gradient(kElements, 5);
  Worker worker(spec(), kElements);
  const Bytes bytes = worker.Encode(gradient, 77);
  const FrameHeader header = ReadOne(bytes).header;
  // A lossy index codec sends more, or others, than were chosen; none more than all.
  const uint64_t most = worker.compressor().MaxSectionBytes(kElements, kElements);
  EXPECT_LE(bytes.size() - kFrameOverhead, most);
  EXPECT_TRUE(header.k > 0 || bytes.size() == kFrameOverhead);
  // A memory that holds nothing yet does not change the bytes.
  const std::string without = spec().substr(GetParam().memory.size() + 1);
  EXPECT_EQ(Worker(without, kElements).Encode(gradient, 77), bytes);
}

TEST_P(CompressorContract, SumsRanksAsANaiveLoopDoes) {
  constexpr int kRanks = 3;
  constexpr float kScale = 1.0f / kRanks;
  Bytes packets;
  std::vector<float> expected(kElements, 0.0f);
  for (int rank = 0; rank < kRanks; ++rank) {
    Worker worker(spec(), kElements);
    const Bytes frame = worker.Encode(Gradient(kElements, 200 + rank), 10 + rank);
    const std::vector<float> dense = ToDense(Decode(frame));
    for (size_t i = 0; i < dense.size(); ++i) expected[i] += kScale * dense[i];
    packets.insert(packets.end(), frame.begin(), frame.end());
  }
  std::vector<float> sum(kElements, std::numeric_limits<float>::quiet_NaN());
  const Status status = Sum(packets, kRanks, kScale, &sum);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], expected[i]) << "element " << i;
}

TEST_P(CompressorContract, NonFiniteGradientsReachEveryRankAndNoMemory) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Worker sound(spec(), kElements), broken(spec(), kElements);
    Bytes packets = sound.Encode(Gradient(kElements, 1), 1);
    broken.Encode(Gradient(kElements, 2), 1);
    const auto before = broken.slots();
    std::vector<float> gradient = Gradient(kElements, 3);
    gradient[kElements - 1] = bad;
    const Bytes frame = broken.Encode(gradient, 2);
    for (size_t slot = 0; slot < before.size(); ++slot)
      EXPECT_TRUE(SameBits(broken.slots()[slot], before[slot]));
    EXPECT_EQ(frame.size(), kFrameOverhead);
    packets.insert(packets.end(), frame.begin(), frame.end());
    std::vector<float> sum(kElements);
    ASSERT_TRUE(Sum(packets, 2, 0.5f, &sum).ok());
    for (float value : sum) ASSERT_TRUE(std::isnan(value));
  }
}

TEST_P(CompressorContract, AnyFlippedBitOrPrefixIsDataLoss) {
  constexpr uint32_t kFew = 120;
  Worker worker(spec(), kFew);
  const Bytes frame = worker.Encode(Gradient(kFew, 9), 3);
  std::vector<float> sum(kFew);
  ASSERT_TRUE(Sum(frame, 1, 1.0f, &sum).ok());
  const auto expect_data_loss = [&](const Bytes& bytes) {
    ASSERT_EQ(Sum(bytes, 1, 1.0f, &sum).code(), StatusCode::kDataLoss) << bytes.size() << " bytes";
  };
  ForEachPrefix(frame, expect_data_loss);
  ForEachBitFlip(frame, [&](const Bytes& bytes, size_t) { expect_data_loss(bytes); });
}

INSTANTIATE_TEST_SUITE_P(AllSpecs, CompressorContract, testing::ValuesIn(AllSpecs()),
                         [](const auto& info) { return TestName(info.param.spec); });

class ExecutorContract : public testing::TestWithParam<SpecCase> {};

TEST_P(ExecutorContract, BytesSumsAndMemoryDoNotDependOnTheExecutor) {
  constexpr size_t kBlocks = 2 * kBlockElements + 100;
  ThreadExecutor threads(3);
  Worker serial(GetParam().spec, kBlocks), parallel(GetParam().spec, kBlocks);
  for (uint64_t step = 0; step < 2; ++step) {
    const std::vector<float> gradient = Gradient(kBlocks, 300 + step);
    const Bytes frame = serial.Encode(gradient, step);
    ASSERT_EQ(parallel.Encode(gradient, step, &threads), frame);
    for (size_t slot = 0; slot < serial.slots().size(); ++slot) {
      ASSERT_TRUE(SameBits(parallel.slots()[slot], serial.slots()[slot]));
    }
    std::vector<float> serial_sum(kBlocks), parallel_sum(kBlocks);
    ASSERT_TRUE(Sum(frame, 1, 1.0f, &serial_sum).ok());
    ASSERT_TRUE(Sum(frame, 1, 1.0f, &parallel_sum, &threads).ok());
    EXPECT_TRUE(SameBits(parallel_sum, serial_sum));
    EXPECT_EQ(serial_sum, ToDense(Decode(frame)));
  }
}

INSTANTIATE_TEST_SUITE_P(EachPart, ExecutorContract, testing::ValuesIn(SpecsOfEachPart()),
                         [](const auto& info) { return TestName(info.param.spec); });

}  // namespace
}  // namespace tfcompress
