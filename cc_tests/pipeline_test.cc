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
  const Status status = EncodeFrame(*Parse(spec), tensor.view(), MemorySlots{}, {1}, packet);
  EXPECT_TRUE(status.ok()) << status.message();
}

Status Sum(const Bytes& packets, int num_ranks, std::vector<Tensor>* tensors, float scale = 1.0f,
           Executor* executor = SerialExecutor(), Span<DecodeStats> stats = {}) {
  std::vector<SumTarget> targets;
  for (Tensor& tensor : *tensors) targets.push_back(tensor.target());
  return DecodeSum(packets, num_ranks, scale, targets, executor, stats);
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

// A sixth of the elements on each rank but the first two, which have none: groups of several ranks,
// the first of which begins with empty frames, and one of a single rank.
TEST(DecodeSum, AddsGroupsOfRanksInTheirOrder) {
  constexpr size_t kN = 2 * kBlockElements + 9;
  constexpr int kRanks = 6;
  Bytes packets;
  std::vector<float> expected(kN);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<float> values(kN);
    const std::vector<float> gradient = Gradient(kN, static_cast<uint64_t>(rank));
    for (size_t i = rank; rank > 1 && i < kN; i += 6 - i % 2) values[i] = gradient[i];
    for (size_t i = 0; i < kN; ++i) expected[i] += 0.3f * values[i];
    Append("nonzero|delta_binary|raw", Tensor(DType::kFloat32, values), &packets);
  }
  ThreadExecutor threads(3);
  for (Executor* executor : {SerialExecutor(), static_cast<Executor*>(&threads)}) {
    std::vector<Tensor> sum = {Tensor(DType::kFloat32, std::vector<float>(kN, 9.0f))};
    ASSERT_TRUE(Sum(packets, kRanks, &sum, 0.3f, executor).ok());
    EXPECT_EQ(sum[0].values(), expected);
  }
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
  packets.push_back(1);
  ExpectDataLoss(Sum(packets, 2, &sums), "packets: 1 bytes too many");
}

// The packets of TwoPackets, each with `padding` behind it.
Bytes PaddedPackets(const Bytes& padding) {
  Bytes packets;
  for (const Bytes& packet : {PacketOf(1), PacketOf(50)}) {
    packets.insert(packets.end(), packet.begin(), packet.end());
    packets.insert(packets.end(), padding.begin(), padding.end());
  }
  return packets;
}

TEST(DecodeSum, SkipsZerosAfterEachPacket) {
  std::vector<Tensor> expected = Targets();
  std::vector<DecodeStats> expected_stats(expected.size());
  ASSERT_TRUE(Sum(TwoPackets(), 2, &expected, 0.5f, SerialExecutor(), expected_stats).ok());
  for (size_t num_zeros : {1, 3, 44, 1000}) {
    std::vector<Tensor> sums = Targets();
    std::vector<DecodeStats> stats(sums.size());
    const Status status =
        Sum(PaddedPackets(Bytes(num_zeros, 0)), 2, &sums, 0.5f, SerialExecutor(), stats);
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t t = 0; t < sums.size(); ++t) {
      EXPECT_EQ(sums[t].storage, expected[t].storage) << "tensor " << t;
      EXPECT_EQ(stats[t].num_bytes, expected_stats[t].num_bytes) << "tensor " << t;
    }
  }
}

TEST(DecodeSum, RefusesPaddingOtherThanZerosAndElsewhere) {
  std::vector<Tensor> sums = Targets();
  ExpectDataLoss(Sum(PaddedPackets({0, 0, 1}), 2, &sums), "rank 1, tensor 0: not a ");
  Bytes packets = PaddedPackets(Bytes(3, 0));
  packets.back() = 1;
  ExpectDataLoss(Sum(packets, 2, &sums), "packets: 1 bytes too many");
  packets = TwoPackets();
  packets.insert(packets.begin(), 0);
  ExpectDataLoss(Sum(packets, 2, &sums), "rank 0, tensor 0: not a ");
  Bytes first;
  Append(kSpecs[0], Gradients(1)[0], &first);
  packets = TwoPackets();
  packets.insert(packets.begin() + first.size(), 44, 0);
  ExpectDataLoss(Sum(packets, 2, &sums), "rank 0, tensor 1: not a ");
}

TEST(DecodeSum, TellsWhichTensorsWereFiniteOnAllRanks) {
  Bytes packets = PacketOf(1);
  std::vector<Tensor> gradients = Gradients(50);
  std::vector<float> broken = gradients[1].values();
  broken.back() = std::numeric_limits<float>::quiet_NaN();
  gradients[1] = Tensor(kTypes[1], broken);
  for (size_t t = 0; t < gradients.size(); ++t) Append(kSpecs[t], gradients[t], &packets);
  std::vector<Tensor> sums = Targets();
  std::vector<DecodeStats> stats(sums.size());
  ASSERT_TRUE(Sum(packets, 2, &sums, 0.5f, SerialExecutor(), stats).ok());
  EXPECT_TRUE(stats[0].finite);
  EXPECT_FALSE(stats[1].finite);
  EXPECT_TRUE(stats[2].finite);
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

TEST(EncodeFrame, AJointCodecTakesAllElementsAlikeWhoeverSelectsThem) {
  std::vector<float> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) + 1.5f;
  const Tensor tensor(DType::kFloat32, values);
  for (const std::string joint : {"sketchml", "skcompress", "threelc"}) {
    Bytes expected;
    Append("dense|" + joint, tensor, &expected);
    for (const std::string sparsifier : {"nonzero", "threshold:tau=0.4", "topk:ratio=1"}) {
      Bytes frame;
      Append(sparsifier + "|" + joint, tensor, &frame);
      EXPECT_EQ(frame, expected) << sparsifier << "|" << joint;
    }
  }
}

TEST(EncodeFrame, RefusesTheWrongNumberOfSlots) {
  const Tensor gradient(DType::kFloat32, {1, 2});
  std::vector<float> slot(2);
  const std::vector<float*> slots = {slot.data()};
  Bytes frame = {42};
  EXPECT_EQ(
      EncodeFrame(*Parse("residual|dense|raw|raw"), gradient.view(), MemorySlots{}, {}, &frame)
          .code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(EncodeFrame(*Parse("dense|raw|raw"), gradient.view(), slots, {}, &frame).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(frame, Bytes{42});
}

TEST(EncodeFrame, RefusesMoreElementsThanAnIndexCanName) {
  Bytes frame;
  const GradientView gradient{nullptr, DType::kFloat32, kMaxElements + 1};
  EXPECT_EQ(EncodeFrame(*Parse("topk|raw|raw"), gradient, MemorySlots{}, {}, &frame).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(frame.empty());
}

TEST(EncodeFrame, TheSeedTravelsInTheFrame) {
  Bytes frame;
  const Tensor gradient(DType::kFloat32, {1, 2});
  ASSERT_TRUE(EncodeFrame(*Parse("dense|raw|raw"), gradient.view(), MemorySlots{},
                          {0xABCDEF0123456789}, &frame)
                  .ok());
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

// Encodes with one slot before the step and another, of its size, after it.
void EncodeBeside(const std::string& spec, const Tensor& gradient, const std::vector<float>& before,
                  std::vector<float>* after, Bytes* frame, Executor* executor = SerialExecutor()) {
  const std::vector<const float*> slots_before = {before.data()};
  const std::vector<float*> slots_after = {after->data()};
  const Status status =
      EncodeFrame(*Parse(spec), gradient.view(), {slots_before, slots_after}, {1, executor}, frame);
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(EncodeFrame, LeavesTheSlotBeforeAndFillsTheOneAfter) {
  const size_t n = kSizes[1];
  const std::vector<float> residual = Gradient(n, 2);
  ThreadExecutor threads(3);
  for (const std::string spec :
       {"residual|topk:ratio=0.3|delta_binary|raw", "residual|topk:ratio=0.1|bloom:policy=p2|dexp",
        "residual|nonzero|sketchml", "residual|dense|raw|quantile"}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
      SCOPED_TRACE(spec + " " + DTypeName(dtype));
      const Tensor gradient(dtype, Gradient(n, 1));
      std::vector<float> in_place = residual;
      const std::vector<float*> slots = {in_place.data()};
      Bytes expected;
      ASSERT_TRUE(EncodeFrame(*Parse(spec), gradient.view(), slots, {1}, &expected).ok());
      for (Executor* executor : {SerialExecutor(), static_cast<Executor*>(&threads)}) {
        const std::vector<float> before = residual;
        std::vector<float> after(n, 9.0f);
        Bytes frame;
        EncodeBeside(spec, gradient, before, &after, &frame, executor);
        EXPECT_EQ(frame, expected);
        EXPECT_TRUE(SameBits(before, residual));
        EXPECT_TRUE(SameBits(after, in_place));
      }
    }
  }
}

TEST(EncodeFrame, WhereNothingIsSelectedTheSlotAfterIsTheCompensatedGradient) {
  std::vector<float> after(2, 9.0f);
  Bytes frame;
  EncodeBeside("residual|threshold:tau=9|raw|raw", Tensor(DType::kFloat32, {1, 2}), {0.5f, -4.0f},
               &after, &frame);
  EXPECT_EQ(after, (std::vector<float>{1.5f, -2.0f}));
}

TEST(EncodeFrame, ANonFiniteGradientCopiesTheSlotBefore) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  std::vector<float> before = Gradient(kSizes[1], 2);
  before[0] = -0.0f;
  before.back() = kLargest;
  const std::vector<float> residual = before;
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, kLargest}) {
    std::vector<float> values = Gradient(kSizes[1], 1);
    values.back() = bad;
    std::vector<float> after(before.size(), 9.0f);
    Bytes frame;
    EncodeBeside("residual|topk|raw|raw", Tensor(DType::kFloat32, values), before, &after, &frame);
    EXPECT_EQ(frame[frame_fields::kFlags], 1);
    EXPECT_TRUE(SameBits(before, residual));
    EXPECT_TRUE(SameBits(after, residual));
  }
}

}  // namespace
}  // namespace tfcompress
