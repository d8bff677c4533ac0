// EncodeFrame and DecodeSum beyond what the contract suite asks of each compressor.
#include "core/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "contract_inputs.h"
#include "fuzz/frame_fields.h"

namespace tfcompress {
namespace {

struct Tensor {
  DType dtype;
  std::vector<unsigned char> storage;
  uint64_t n;

  Tensor(DType dtype, const std::vector<float>& values)
      : dtype(dtype), storage(values.size() * DTypeBytes(dtype)), n(values.size()) {
    NarrowFromFloat(values, dtype, SerialExecutor(), storage.data());
  }
  GradientView view() const { return {storage.data(), dtype, n}; }
  SumTarget target() { return {storage.data(), dtype, n}; }
  std::vector<float> values() const {
    std::vector<float> values(n);
    WidenToFloat(storage.data(), dtype, SerialExecutor(), Span<float>(values));
    return values;
  }
};

std::shared_ptr<const Compressor> Parse(const std::string& spec) {
  const auto compressor = Compressor::FromSpec(spec);
  EXPECT_TRUE(compressor.ok()) << compressor.status().message();
  return compressor.value();
}

// Appends the frame of a tensor under a spec without memory.
void Append(const std::string& spec, const Tensor& tensor, Bytes* packet) {
  const Status status = EncodeFrame(*Parse(spec), tensor.view(), {}, {1}, packet);
  EXPECT_TRUE(status.ok()) << status.message();
}

Status Sum(const Bytes& packets, int num_ranks, std::vector<Tensor>* tensors, float scale = 1.0f,
           Executor* executor = SerialExecutor(), Span<DecodeStats> stats = {}) {
  std::vector<SumTarget> targets;
  for (Tensor& tensor : *tensors) targets.push_back(tensor.target());
  return DecodeSum(packets, num_ranks, scale, targets, executor, stats);
}

void ExpectDataLoss(const Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
}

// Two ranks' packets of three tensors of different type, codec and size; the second has several
// blocks.
const std::vector<size_t> kSizes = {10, static_cast<size_t>(2 * kBlockElements + 9), 300};
const DType kTypes[] = {DType::kFloat16, DType::kFloat32, DType::kBFloat16};
const char* const kSpecs[] = {"dense|raw|raw", "topk:ratio=0.3|delta_binary|raw",
                              "nonzero|bitmap|bf16"};

std::vector<Tensor> Gradients(uint64_t seed) {
  std::vector<Tensor> tensors;
  for (size_t t = 0; t < kSizes.size(); ++t)
    tensors.emplace_back(kTypes[t], Gradient(kSizes[t], seed + t));
  return tensors;
}

std::vector<Tensor> Targets() {
  std::vector<Tensor> tensors;
  for (size_t t = 0; t < kSizes.size(); ++t)
    tensors.emplace_back(kTypes[t], std::vector<float>(kSizes[t], 9.0f));
  return tensors;
}

Bytes PacketOf(uint64_t seed) {
  Bytes packet;
  const std::vector<Tensor> gradients = Gradients(seed);
  for (size_t t = 0; t < gradients.size(); ++t) Append(kSpecs[t], gradients[t], &packet);
  return packet;
}

Bytes TwoPackets() {
  Bytes packets = PacketOf(1);
  const Bytes second = PacketOf(50);
  packets.insert(packets.end(), second.begin(), second.end());
  return packets;
}

TEST(DecodeSum, SumsSeveralTensorsOfSeveralTypes) {
  std::vector<Tensor> sums = Targets();
  std::vector<DecodeStats> stats(sums.size());
  const Bytes packets = TwoPackets();
  const Status status = Sum(packets, 2, &sums, 0.5f, SerialExecutor(), Span<DecodeStats>(stats));
  ASSERT_TRUE(status.ok()) << status.message();
  const std::vector<Tensor> first = Gradients(1), second = Gradients(50);
  for (size_t t : {0, 2}) {  // Everything other than zero is sent, and the type holds it exactly.
    const auto a = first[t].values(), b = second[t].values();
    std::vector<float> expected(a.size());
    for (size_t i = 0; i < a.size(); ++i) expected[i] = 0.5f * a[i] + 0.5f * b[i];
    EXPECT_EQ(sums[t].values(), Tensor(kTypes[t], expected).values()) << "tensor " << t;
  }
  int64_t num_bytes = 0;
  for (const DecodeStats& stat : stats) num_bytes += stat.num_bytes;
  EXPECT_EQ(num_bytes, static_cast<int64_t>(packets.size()));
}

TEST(DecodeSum, DoesNotDependOnTheExecutor) {
  ThreadExecutor threads(3);
  std::vector<Tensor> serial = Targets(), parallel = Targets();
  ASSERT_TRUE(Sum(TwoPackets(), 2, &serial, 0.5f).ok());
  ASSERT_TRUE(Sum(TwoPackets(), 2, &parallel, 0.5f, &threads).ok());
  for (size_t t = 0; t < serial.size(); ++t) EXPECT_EQ(parallel[t].storage, serial[t].storage);
}

TEST(DecodeSum, ANonFiniteTensorLeavesItsNeighboursAlone) {
  std::vector<Tensor> gradients = Gradients(1);
  Tensor broken(DType::kFloat16,
                std::vector<float>(kSizes[0], std::numeric_limits<float>::infinity()));
  Bytes packets = PacketOf(1);
  Append(kSpecs[0], broken, &packets);
  for (size_t t : {1, 2}) Append(kSpecs[t], gradients[t], &packets);
  std::vector<Tensor> sums = Targets();
  ASSERT_TRUE(Sum(packets, 2, &sums).ok());
  for (float value : sums[0].values()) EXPECT_TRUE(std::isnan(value));
  for (size_t t : {1, 2}) {
    for (float value : sums[t].values()) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(DecodeSum, RefusesPacketsThatAreCutOrTooLong) {
  std::vector<Tensor> sums;
  sums.emplace_back(DType::kFloat32, std::vector<float>(20));
  sums.emplace_back(DType::kFloat32, std::vector<float>(30));
  Bytes packets;
  for (int rank = 0; rank < 2; ++rank) {
    Append("nonzero|delta_binary|raw", Tensor(DType::kFloat32, Gradient(20, rank)), &packets);
    Append("dense|raw|fp16", Tensor(DType::kFloat32, Gradient(30, rank)), &packets);
  }
  ASSERT_TRUE(Sum(packets, 2, &sums).ok());
  ForEachPrefix(packets, [&](const Bytes& prefix) {
    ASSERT_EQ(Sum(prefix, 2, &sums).code(), StatusCode::kDataLoss) << prefix.size();
  });
  ExpectDataLoss(Sum(packets, 1, &sums), "bytes too many");
  ExpectDataLoss(Sum(packets, 3, &sums), "rank 2, tensor 0: truncated");
  packets.push_back(0);
  ExpectDataLoss(Sum(packets, 2, &sums), "packets: 1 bytes too many");
}

TEST(DecodeSum, NamesTheRankAndTheTensorOfABrokenFrame) {
  Bytes packets = TwoPackets();
  std::vector<Tensor> sums = Targets();
  packets.back() ^= 1;
  ExpectDataLoss(Sum(packets, 2, &sums), "rank 1, tensor 2: checksum");
}

TEST(DecodeSum, RefusesFramesOfAnotherTensor) {
  Bytes packet;
  Append("dense|raw|raw", Tensor(DType::kFloat32, {1, 2, 3}), &packet);
  std::vector<Tensor> longer, other_type;
  longer.emplace_back(DType::kFloat32, std::vector<float>(4));
  other_type.emplace_back(DType::kFloat16, std::vector<float>(3));
  ExpectDataLoss(Sum(packet, 1, &longer), "rank 0, tensor 0: frame of 3 elements, expected 4");
  ExpectDataLoss(Sum(packet, 1, &other_type),
                 "rank 0, tensor 0: frame of float32, expected float16");
}

TEST(DecodeSum, TakesNoTensorsAndEmptyTensors) {
  std::vector<Tensor> none;
  EXPECT_TRUE(Sum({}, 2, &none).ok());
  std::vector<Tensor> empty;
  empty.emplace_back(DType::kFloat32, std::vector<float>());
  Bytes packet;
  Append("topk|raw|raw", Tensor(DType::kFloat32, {}), &packet);
  EXPECT_TRUE(Sum(packet, 1, &empty).ok());
  EXPECT_EQ(Sum(packet, 0, &empty).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Sum(packet, -1, &empty).code(), StatusCode::kInvalidArgument);
}

TEST(EncodeFrame, WidensHalvesBeforeItSelects) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Tensor gradient(dtype, {0.5f, -3.0f, 0.25f, 2.0f, 0.0f, 1.0f, 0.0f, 0.0f});
    Bytes packet;
    Append("topk:ratio=0.25|raw|raw", gradient, &packet);
    std::vector<Tensor> sums;
    sums.emplace_back(dtype, std::vector<float>(8, 7.0f));
    ASSERT_TRUE(Sum(packet, 1, &sums).ok());
    EXPECT_EQ(sums[0].values(), (std::vector<float>{0, -3.0f, 0, 2.0f, 0, 0, 0, 0}));
  }
}

TEST(EncodeFrame, RefusesTheWrongNumberOfSlots) {
  const Tensor gradient(DType::kFloat32, {1, 2});
  std::vector<float> slot(2);
  const std::vector<float*> slots = {slot.data()};
  Bytes frame = {42};
  EXPECT_EQ(EncodeFrame(*Parse("residual|dense|raw|raw"), gradient.view(), {}, {}, &frame).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeFrame(*Parse("dense|raw|raw"), gradient.view(), slots, {}, &frame).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(frame, Bytes{42});
}

TEST(EncodeFrame, RefusesMoreElementsThanAnIndexCanName) {
  Bytes frame;
  const GradientView gradient{nullptr, DType::kFloat32, kMaxElements + 1};
  EXPECT_EQ(EncodeFrame(*Parse("topk|raw|raw"), gradient, {}, {}, &frame).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(frame.empty());
}

TEST(EncodeFrame, TheSeedTravelsInTheFrame) {
  Bytes frame;
  const Tensor gradient(DType::kFloat32, {1, 2});
  ASSERT_TRUE(
      EncodeFrame(*Parse("dense|raw|raw"), gradient.view(), {}, {0xABCDEF0123456789}, &frame).ok());
  EXPECT_EQ(GetField<uint64_t>(frame, frame_fields::kSeed), 0xABCDEF0123456789u);
}

TEST(EncodeFrame, AFiniteGradientThatOverflowsTheResidualIsNonFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Tensor gradient(DType::kFloat32, {1.0f, kLargest});
  std::vector<float> slot = {0.5f, kLargest};
  const std::vector<float*> slots = {slot.data()};
  Bytes frame;
  ASSERT_TRUE(
      EncodeFrame(*Parse("residual|topk|raw|raw"), gradient.view(), slots, {}, &frame).ok());
  EXPECT_EQ(frame[frame_fields::kFlags], 1);
  EXPECT_EQ(slot, (std::vector<float>{0.5f, kLargest}));
}

}  // namespace
}  // namespace tfcompress
