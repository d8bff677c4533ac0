// Encoding and summing under many orders of threads and blocks, and on few multiprocessors; numbers
// of launches and waits.
#include <gtest/gtest.h>

#include "contract_inputs.h"
#include "copied_frames.h"
#include "cuda/frame_encoder.h"
#include "cuda/linear_coder.h"
#include "cuda/pieces.h"
#include "cuda/sum_decoder.h"
#include "device_encode.h"
#include "device_inputs.h"
#include "device_sums.h"

namespace tfcompress {
namespace device {
namespace {

// Of each schedule; on few, threads loop over many items each.
constexpr int kMultiprocessors[] = {1, 2, 1056};

struct AllMultiprocessors {
  ~AllMultiprocessors() { emulator::SetMultiprocessors(kMultiprocessors[2]); }
};

class Schedule : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Device, Schedule, testing::ValuesIn(SomeDeviceSpecs()),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(Schedule, DoesNotChangeTheBytes) {
  const AllMultiprocessors afterwards;
  const Stream stream;
  const auto compressor = Parse(GetParam());
  constexpr size_t kSize = 20000;
  const Slots slots = SomeSlots(*compressor, kSize);
  for (const Input& input : Inputs()) {
    const HostGradient gradient(input.make(kSize, 1), DType::kFloat32);
    const Encoded expected = EncodeOnHost(*compressor, gradient, slots, 1);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      emulator::SetSeed(seed);
      emulator::SetMultiprocessors(kMultiprocessors[seed]);
      const Encoded actual = EncodeOnDevice(*compressor, gradient, slots, {}, stream);
      ASSERT_TRUE(actual.frame == expected.frame) << input.name << ", schedule " << seed;
      ASSERT_TRUE(SameBits(actual.slots, expected.slots)) << input.name << ", schedule " << seed;
    }
  }
}

// Maximum launches of a step. Buckets, groups, keys and cells take many launches.
int64_t MaxLaunches(const std::string& spec) {
  const auto has = [&](const char* name) { return spec.find(name) != std::string::npos; };
  if (has("skcompress")) return 59;
  return has("sketchml") ? 48 : 36;
}

TEST_P(Schedule, WaitsOnce) {
  const Stream stream;
  const auto compressor = Parse("none|" + GetParam().substr(GetParam().find('|') + 1));
  const HostGradient gradient(Gradient(5000, 1), DType::kFloat32);
  const auto encoder = FrameEncoder::Make(*compressor, DType::kFloat32, gradient.n);
  ASSERT_TRUE(encoder.ok());
  const DeviceVector<unsigned char> gradient_dev(gradient.bytes, stream);
  const DeviceVector<unsigned char> workspace(encoder.value().workspace_bytes());
  const DeviceVector<unsigned char> frame(encoder.value().max_frame_bytes());
  const int64_t launches_before = emulator::NumLaunches();
  const int64_t waits_before = emulator::NumSynchronizations();
  uint64_t num_bytes = 0;
  ExpectOk(encoder.value().Encode({gradient_dev.data_dev(), {}, 1, frame.buffer()},
                                  workspace.buffer(), stream.get(), &num_bytes));
  EXPECT_EQ(emulator::NumSynchronizations() - waits_before, 1);
  RecordProperty("launches", static_cast<int>(emulator::NumLaunches() - launches_before));
  EXPECT_LE(emulator::NumLaunches() - launches_before, MaxLaunches(GetParam()));

  Bytes packets = frame.ToHost(stream);
  packets.resize(num_bytes);
  const DeviceVector<float> sum(gradient.n);
  const std::vector<int64_t> positions = {0};
  const std::vector<SumTarget> targets = {{sum.data_dev(), DType::kFloat32, gradient.n}};
  const auto decoder = SumDecoder::Make({packets, 1, 1}, positions, targets);
  ASSERT_TRUE(decoder.ok()) << decoder.status().message();
  const DeviceVector<unsigned char> decode_workspace(decoder.value().workspace_bytes());
  const int64_t waits_before_sum = emulator::NumSynchronizations();
  const int64_t launches_before_sum = emulator::NumLaunches();
  ExpectOk(
      decoder.value().DecodeSum(frame.data_dev(), 1, decode_workspace.buffer(), stream.get(), {}));
  EXPECT_EQ(emulator::NumSynchronizations() - waits_before_sum, 1);
  RecordProperty("launches_of_sum",
                 static_cast<int>(emulator::NumLaunches() - launches_before_sum));
}

// Launches of the encoding of so many pieces of a gradient.
int64_t LaunchesOfPieces(const std::string& spec, size_t num_pieces, bool in_place = true) {
  const Stream stream;
  const auto compressor = Parse(spec);
  const std::vector<uint64_t> sizes(num_pieces, 300);
  const FrameEncoder encoder = FrameEncoder::Make(*compressor, DType::kFloat32, sizes).value();
  const DeviceVector<float> gradient(Gradient(300 * num_pieces, 1), stream);
  const DeviceSlots slots(SomeSlots(*compressor, 300 * num_pieces), in_place, stream);
  const DeviceVector<unsigned char> workspace(encoder.workspace_bytes());
  const DeviceVector<unsigned char> frames(encoder.max_frame_bytes() * num_pieces);
  std::vector<std::vector<DeviceSlot>> of_pieces;
  std::vector<FrameInput> inputs;
  for (size_t i = 0; i < num_pieces; ++i) {
    const Piece piece = {i, static_cast<int64_t>(300 * i), 300};
    of_pieces.push_back(SlotsOf(piece, slots.views()));
    inputs.push_back(
        {gradient.data_dev() + piece.begin,
         of_pieces.back(),
         1,
         {frames.data_dev() + i * encoder.max_frame_bytes(), encoder.max_frame_bytes()}});
  }
  std::vector<EncodeState> states(num_pieces);
  const int64_t before = emulator::NumLaunches();
  ExpectOk(encoder.Launch(inputs, workspace.buffer(), stream.get(), states.data()));
  stream.Synchronize();
  return emulator::NumLaunches() - before;
}

TEST(LaunchesOfPieces, DependOnTheirNumberByTheChunksOfTheTableAlone) {
  for (const char* spec :
       {"dense|raw|raw", "residual|dense|raw|fp16", "residual|dense|raw|block_int:bits=4",
        "momentum|dense|raw|qsgd", "residual|dense|raw|ternary:clip=2.5", "residual|dense|raw|sign",
        "residual|dense|raw|uniform", "residual|randomk:ratio=0.1|raw|raw",
        "residual|topk:ratio=0.1|raw|logquant", "residual|topk:ratio=0.1|raw|raw",
        "residual|topk:ratio=0.1|bitmap|fp16", "residual|topk:ratio=0.1|delta_binary|raw",
        "momentum|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64",
        "residual|threshold:tau=0.5|delta_flag|qsgd"}) {
    const int64_t few = LaunchesOfPieces(spec, 2);
    EXPECT_LE(few, 26) << spec;
    EXPECT_EQ(LaunchesOfPieces(spec, 76), few) << spec << ": the tensors of ResNet-50";
    EXPECT_EQ(LaunchesOfPieces(spec, 120), few + 1) << spec;
  }
}

TEST(LaunchesOfPieces, AreThoseOfOneBloomFilterForMany) {
  for (const char* spec : {"residual|topk:ratio=0.1|bloom:policy=p0|raw",
                           "residual|topk:ratio=0.1|bloom:policy=naive|fp16",
                           "momentum|threshold:tau=0.5|bloom:policy=leftmost|raw",
                           "residual|topk:ratio=0.1|bloom:policy=p1,fpr=0.1|raw",
                           "residual|topk:ratio=0.1|bloom:policy=p2,fpr=0.1|raw"}) {
    const int64_t few = LaunchesOfPieces(spec, 2);
    EXPECT_LE(few, 36) << spec;
    EXPECT_EQ(LaunchesOfPieces(spec, 7), few) << spec;
    EXPECT_EQ(LaunchesOfPieces(spec, 76), few) << spec;
  }
}

// Values that are measured before frames are laid out; log removes some from the supports.
TEST(LaunchesOfPieces, OfMeasuredValuesDoNotDependOnTheirNumber) {
  for (const char* spec : {"residual|dense|raw|quantile", "residual|topk:ratio=0.1|bitmap|quantile",
                           "residual|dense|raw|dexp", "momentum|topk:ratio=0.1|delta_binary|dexp",
                           "residual|dense|raw|log", "residual|topk:ratio=0.1|raw|log:tau=0"}) {
    const int64_t few = LaunchesOfPieces(spec, 2);
    EXPECT_LE(few, 50) << spec;
    EXPECT_EQ(LaunchesOfPieces(spec, 7), few) << spec;
  }
}

TEST(LaunchesOfPieces, AreThoseOfTwoWithJointCodecs) {
  for (const char* spec : {"residual|dense|sketchml", "momentum|topk:ratio=0.1|sketchml",
                           "residual|dense|skcompress", "none|topk:ratio=0.1|skcompress"})
    EXPECT_EQ(LaunchesOfPieces(spec, 7), LaunchesOfPieces(spec, 2)) << spec;
}

// Those that begin, encode, restore slots, set sizes, lay out, and finish. Slots in place are not
// restored: their vectors are inspected.
TEST(LaunchesOfPieces, InOnePassAreThoseOfNoOther) {
  EXPECT_EQ(LaunchesOfPieces("none|dense|raw|raw", 2), 5);
  for (const char* spec : {"residual|dense|raw|fp16", "momentum|dense|raw|bf16",
                           "residual|dense|raw|block_int:bits=4"}) {
    EXPECT_EQ(LaunchesOfPieces(spec, 2, /*in_place=*/false), 6) << spec;
    EXPECT_EQ(LaunchesOfPieces(spec, 2), 6) << spec;
  }
}

// Frames are copied to the host in one launch, before it knows their lengths.
constexpr int64_t kCopyFrames = 1;

TEST(LaunchesOfPieces, AndOfCopiesToTheHostAreWaitedForOnce) {
  constexpr char kSpec[] = "none|topk:ratio=0.1|delta_binary|raw";
  constexpr size_t kFrames = 76;
  const int64_t launches_to_encode = LaunchesOfPieces(kSpec, kFrames);
  CopiedFrames frames(kSpec, std::vector<uint64_t>(kFrames, 300));
  Bytes packet(size_t{1} << 16);
  const int64_t waits_before = emulator::NumSynchronizations();
  const int64_t launches_before = emulator::NumLaunches();
  frames.Launch();
  frames.CopyTo(std::vector<FramePlace>(kFrames, {packet.data(), 0}), PacketMemory::kPinnedHost);
  EXPECT_EQ(emulator::NumSynchronizations() - waits_before, 1);
  EXPECT_EQ(emulator::NumLaunches() - launches_before, launches_to_encode + kCopyFrames);
  const Bytes expected = frames.Joined(0, kFrames);
  packet.resize(expected.size());
  EXPECT_TRUE(packet == expected);
}

// Headers of all frames are searched for in one launch, where packets are on the device.
constexpr int64_t kFindHeaders = 1;

// Launches of DecodeSum for so many ranks, each with so many tensors, whose specs take turns.
int64_t LaunchesOfSum(const std::vector<std::string>& specs, int num_ranks, size_t num_tensors) {
  const Stream stream;
  Bytes packets;
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (size_t t = 0; t < num_tensors; ++t) {
      const HostGradient gradient(Gradient(2000 + t, t), DType::kFloat32);
      Append(specs[t % specs.size()], gradient, 1, &packets);
    }
  }
  std::vector<TensorSpec> tensors;
  for (size_t t = 0; t < num_tensors; ++t) tensors.push_back({DType::kFloat32, 2000 + t});
  const int64_t before = emulator::NumLaunches();
  ExpectOk(SumOnDevice(packets, num_ranks, 1, tensors, stream).status);
  return emulator::NumLaunches() - before;
}

TEST(LaunchesOfSum, AreNoMoreForARankOrATensor) {
  for (const char* spec : {"dense|raw|fp16", "dense|raw|qsgd", "dense|raw|block_int:bits=4",
                           "topk:ratio=0.1|delta_adaptive|fp16", "topk:ratio=0.1|delta_binary|raw",
                           "topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64"}) {
    const int64_t few = LaunchesOfSum({spec}, 2, 2);
    EXPECT_EQ(LaunchesOfSum({spec}, 6, 30), few) << spec;
    EXPECT_EQ(LaunchesOfSum({spec}, 40, 3), few) << spec << ": more ranks than lanes";
    EXPECT_LE(few, 16) << spec;
  }
}

// The same for all codecs.
TEST_P(Schedule, LaunchesDependOnNeitherTensorsNorRanks) {
  const int64_t few_pieces = LaunchesOfPieces(GetParam(), 2);
  EXPECT_EQ(LaunchesOfPieces(GetParam(), 76), few_pieces) << "the tensors of ResNet-50";
  const int64_t few = LaunchesOfSum({GetParam()}, 2, 3);
  EXPECT_EQ(LaunchesOfSum({GetParam()}, 5, 20), few);
  EXPECT_EQ(LaunchesOfSum({GetParam()}, 40, 3), few) << "more ranks than lanes";
}

TEST(LaunchesOfSum, AreThoseOfEachKindOfTensors) {
  const std::string dense = "dense|raw|block_int:bits=4";
  const std::string sparse = "topk:ratio=0.1|delta_adaptive|fp16";
  EXPECT_EQ(LaunchesOfSum({dense, sparse}, 4, 20),
            LaunchesOfSum({dense}, 2, 2) + LaunchesOfSum({sparse}, 2, 2) - kFindHeaders);
}

// The aim of docs/cuda.md for the gradients of ResNet-50 that are encoded, of 8 ranks.
TEST(LaunchesOfAStep, AreNoMoreThanAHundred) {
  for (const char* spec : {"residual|topk:ratio=0.01|delta_binary|raw",
                           "momentum|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64",
                           "residual|dense|raw|block_int:bits=8"})
    EXPECT_LE(LaunchesOfPieces(spec, 76) + kCopyFrames + LaunchesOfSum({spec}, 8, 76), 100) << spec;
}

// Linear codecs do not depend on the schedule either, and never wait.
TEST(LinearSchedule, DoesNotChangeTheBytes) {
  const AllMultiprocessors afterwards;
  const Stream stream;
  constexpr uint64_t kSize = 20000;
  const auto compressor =
      LinearCompressor::FromSpec("count_sketch:rows=3,columns=300,k=50,candidates=4").value();
  const LinearCoder coder = LinearCoder::Make(*compressor, kSize).value();
  const std::vector<float> x = Gradient(kSize, 1);
  std::vector<float> expected(coder.payload_size()), expected_values;
  std::vector<uint32_t> expected_indices;
  ExpectOk(compressor->codec().Encode(x, {1}, Span<float>(expected)));
  ExpectOk(compressor->codec().Recover(expected, kSize, {1}, &expected_indices, &expected_values));
  const DeviceVector<float> x_dev(x, stream), payload(coder.payload_size());
  const DeviceVector<float> values(coder.num_candidates());
  const DeviceVector<uint32_t> indices(coder.num_candidates());
  const DeviceVector<unsigned char> workspace(
      std::max(coder.encode_workspace_bytes(), coder.recover_workspace_bytes()));
  const std::vector<DevicePart> parts = {{x_dev.data_dev(), kSize}};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    emulator::SetSeed(seed);
    emulator::SetMultiprocessors(kMultiprocessors[seed % 3]);
    const int64_t waits_before = emulator::NumSynchronizations();
    ExpectOk(coder.Encode(parts, 1, workspace.buffer(), payload.data_dev(), stream.get()));
    ExpectOk(coder.Recover(payload.data_dev(), 1, workspace.buffer(), indices.data_dev(),
                           values.data_dev(), stream.get()));
    EXPECT_EQ(emulator::NumSynchronizations(), waits_before);
    EXPECT_TRUE(SameBits(payload.ToHost(stream), expected)) << "schedule " << seed;
    EXPECT_EQ(indices.ToHost(stream), expected_indices) << "schedule " << seed;
    EXPECT_TRUE(SameBits(values.ToHost(stream), expected_values)) << "schedule " << seed;
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
