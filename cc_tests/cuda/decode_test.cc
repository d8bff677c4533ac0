// SumDecoder writes the floats that the core writes, and refuses what the core refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "contract_inputs.h"
#include "core/count_bits.h"
#include "core/hash.h"
#include "core/index/bloom_policy.h"
#include "core/pipeline.h"
#include "core/sketch/bloom_filter.h"
#include "core/value/double_exponential.h"
#include "core/value/reciprocal_log_levels.h"
#include "core/value/trits.h"
#include "cuda/sum_decoder.h"
#include "device_inputs.h"
#include "device_sums.h"
#include "fuzz/frame_fields.h"

namespace tfcompress {
namespace device {
namespace {

class SumOfEverySpec : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Device, SumOfEverySpec, testing::ValuesIn(AllDeviceSpecs()),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(SumOfEverySpec, SumsThreeRanksToTheSameBits) {
  const Stream stream;
  uint64_t seed = 1;
  for (size_t n : {0, 1, 31, 33, 1023, 1024, 1025, 5000}) {
    const DType dtype = kTypes[++seed % 3];
    Bytes packets;
    for (int rank = 0; rank < 3; ++rank) {
      const Input& input = Inputs()[(seed + static_cast<uint64_t>(rank)) % Inputs().size()];
      Append(GetParam(), HostGradient(input.make(n, seed + 100), dtype), seed, &packets);
      ++seed;
    }
    SCOPED_TRACE(testing::Message() << n << " elements of " << DTypeName(dtype));
    ASSERT_NO_FATAL_FAILURE(ExpectSameSums(packets, 3, 1.0f / 3, {{dtype, n}}, stream, seed % 4));
  }
}

class SumOfSomeSpecs : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Device, SumOfSomeSpecs, testing::ValuesIn(SomeDeviceSpecs()),
                         [](const auto& info) { return TestName(info.param); });

// With 0.3 of 300000 elements the delta bytes have several blocks.
TEST_P(SumOfSomeSpecs, SumsLargerTensorsToTheSameBits) {
  const Stream stream;
  for (size_t n : {65535, 65537, 300000}) {
    Bytes packets;
    for (uint64_t rank = 0; rank < 2; ++rank)
      Append(GetParam(), HostGradient(Gradient(n, rank), DType::kFloat32), rank, &packets);
    ASSERT_NO_FATAL_FAILURE(ExpectSameSums(packets, 2, 0.5f, {{DType::kFloat32, n}}, stream));
  }
}

TEST(SumDecoder, SumsSeveralTensorsOfSeveralTypesAndSpecs) {
  const Stream stream;
  const std::vector<TensorSpec> tensors = {
      {DType::kFloat16, 10}, {DType::kFloat32, 3000}, {DType::kBFloat16, 300}};
  const char* const specs[] = {"dense|raw|raw", "topk:ratio=0.3|delta_binary|raw",
                               "nonzero|bitmap|bf16"};
  Bytes packets;
  for (uint64_t rank = 0; rank < 4; ++rank) {
    for (size_t t = 0; t < tensors.size(); ++t)
      Append(specs[t], HostGradient(Gradient(tensors[t].n, 10 * rank + t), tensors[t].dtype), rank,
             &packets);
    packets.resize(packets.size() + 5 * rank, 0);  // Padding zeros.
  }
  ExpectSameSums(packets, 4, 0.25f, tensors, stream);

  std::vector<DecodeStats> stats(tensors.size());
  ExpectOk(SumOnDevice(packets, 4, 0.25f, tensors, stream, 0, Span<DecodeStats>(stats)).status);
  int64_t num_bytes = 0;
  for (const DecodeStats& stat : stats) {
    EXPECT_TRUE(stat.finite);
    num_bytes += stat.num_bytes;
  }
  EXPECT_EQ(num_bytes, static_cast<int64_t>(packets.size()) - 5 * (1 + 2 + 3));
}

TEST(SumDecoder, ANonFiniteRankMakesItsTensorNaN) {
  const Stream stream;
  for (DType dtype : kTypes) {
    Bytes packets;
    std::vector<float> bad(100, 1.0f);
    bad[99] = std::numeric_limits<float>::infinity();
    Append("topk:ratio=0.1|raw|raw", HostGradient(bad, dtype), 1, &packets);
    Append("topk:ratio=0.1|raw|raw", HostGradient(Gradient(100, 1), dtype), 1, &packets);
    ExpectSameSums(packets, 2, 1, {{dtype, 100}}, stream);
    std::vector<DecodeStats> stats(1);
    ExpectOk(
        SumOnDevice(packets, 2, 1, {{dtype, 100}}, stream, 0, Span<DecodeStats>(stats)).status);
    EXPECT_FALSE(stats[0].finite);
  }
}

// Sums that overflow the target's type, and values that a step subtracts to -0.
TEST(SumDecoder, RoundsAsTheCoreDoes) {
  const Stream stream;
  for (DType dtype : kTypes) {
    Bytes packets;
    const std::vector<float> values = {60000.0f, -60000.0f, -0.0f, 1e-7f, 3e38f, 0.1f, 1e-40f};
    for (uint64_t rank = 0; rank < 3; ++rank)
      Append("dense|raw|raw", HostGradient(values, DType::kFloat32), rank, &packets);
    // The same frames as of tensors of another type.
    for (uint64_t rank = 0; rank < 3; ++rank) {
      Bytes frame(packets.begin() + static_cast<std::ptrdiff_t>(rank * packets.size() / 3),
                  packets.begin() + static_cast<std::ptrdiff_t>((rank + 1) * packets.size() / 3));
      SetField(frame_fields::kDType, static_cast<uint8_t>(dtype), &frame);
      RepairChecksum(&frame);
      std::copy(frame.begin(), frame.end(),
                packets.begin() + static_cast<std::ptrdiff_t>(rank * packets.size() / 3));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSameSums(packets, 3, 0.7f, {{dtype, values.size()}}, stream));
  }
}

// ---- Hostile bytes -----------------------------------------------------------------------------

const std::vector<std::string>& HostileSpecs() {
  static const auto* specs =
      new std::vector<std::string>{"topk:ratio=0.2|raw|raw",
                                   "topk:ratio=0.2|bitmap|fp16",
                                   "topk:ratio=0.2|delta_binary|bf16",
                                   "randomk:ratio=0.2|raw|raw",
                                   "dense|raw|fp16",
                                   "dense|raw|qsgd:bits=3,bucket=7",
                                   "topk:ratio=0.2|raw|qsgd",
                                   "dense|raw|block_int:bits=4,block=16",
                                   "dense|raw|block_int:bits=3,levels=square",
                                   "topk:ratio=0.9|bitmap|block_int:bits=2,block=16",
                                   "topk:ratio=0.9|bitmap|uniform:bits=16",
                                   "dense|raw|uniform",
                                   "randomk:ratio=0.9|raw|logquant:bits=5",
                                   "dense|raw|ternary",
                                   "dense|raw|sign",
                                   "dense|raw|quantile:buckets=5",
                                   "topk:ratio=0.2|raw|quantile",
                                   "dense|raw|log",
                                   "topk:ratio=0.9|bitmap|log:base=2,tau=5",
                                   "dense|raw|dexp",
                                   "topk:ratio=0.2|bitmap|dexp",
                                   "topk:ratio=0.2|delta_adaptive|bf16",
                                   "topk:ratio=0.9|delta_adaptive|fp16",
                                   "topk:ratio=0.2|delta_flag:flag_bits=3|bf16",
                                   "topk:ratio=0.2|bloom:policy=p0|raw",
                                   "topk:ratio=0.2|bloom:policy=middle,fpr=0.3|fp16",
                                   "topk:ratio=0.2|bloom:policy=naive|raw",
                                   "topk:ratio=0.2|bloom:policy=p1,fpr=0.3|raw",
                                   "topk:ratio=0.2|bloom:policy=p2,fpr=0.3|raw",
                                   "topk:ratio=0.3|sketchml:groups=2",
                                   "topk:ratio=0.5|sketchml:buckets=4,groups=3,rows=1,columns=1",
                                   "topk:ratio=0.3|skcompress:groups=2",
                                   "topk:ratio=0.5|skcompress:buckets=4,groups=3,rows=1,columns=1"};
  return *specs;
}

constexpr size_t kHostileSize = 45;
const std::vector<TensorSpec> kHostileTensor = {{DType::kFloat32, kHostileSize}};

class HostileBytes : public testing::TestWithParam<std::string> {
 protected:
  Bytes Frame() const {
    Bytes frame;
    Append(GetParam(), HostGradient(NormalValues(kHostileSize, 5), DType::kFloat32), 3, &frame);
    return frame;
  }
  // Expects core and device to both accept the frame, with the same floats, or both refuse it:
  // alone, before or after a frame of another rank, with which it is decoded side by side if its
  // codecs are.
  void ExpectSameVerdict(const Bytes& frame) {
    const Bytes healthy = Frame();
    switch (num_verdicts_++ % 3) {
      case 0:
        return ExpectSameVerdict(frame, 1, "rank 0, tensor 0: ");
      case 1:
        return ExpectSameVerdict(Joined(healthy, frame), 2, "rank 1, tensor 0: ");
      default:
        return ExpectSameVerdict(Joined(frame, healthy), 2, "rank 0, tensor 0: ");
    }
  }

 private:
  static Bytes Joined(Bytes packets, const Bytes& frame) {
    packets.insert(packets.end(), frame.begin(), frame.end());
    return packets;
  }

  static void ExpectSameVerdict(const Bytes& packets, int num_ranks, const std::string& name) {
    const Stream stream;
    const Sums expected = SumOnHost(packets, num_ranks, 1, kHostileTensor);
    const Sums actual = SumOnDevice(packets, num_ranks, 1, kHostileTensor, stream);
    const std::string& message = actual.status.message();
    if (actual.status.code() == StatusCode::kInvalidArgument) {
      // A header that names a codec without a device variant.
      EXPECT_NE(message.find("no device variant"), std::string::npos);
      return;
    }
    ASSERT_EQ(actual.status.code(), expected.status.code())
        << message << " / " << expected.status.message();
    if (expected.status.ok()) {
      ASSERT_TRUE(actual.tensors == expected.tensors);
    } else {
      ASSERT_EQ(message.substr(0, name.size()), name) << expected.status.message();
    }
  }

  int num_verdicts_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Device, HostileBytes, testing::ValuesIn(HostileSpecs()),
                         [](const auto& info) { return TestName(info.param); });

TEST_P(HostileBytes, CutPacketsAreRefused) {
  const Stream stream;
  ForEachPrefix(Frame(), [&](const Bytes& prefix) {
    ASSERT_EQ(SumOnDevice(prefix, 1, 1, kHostileTensor, stream).status.code(),
              StatusCode::kDataLoss)
        << prefix.size();
  });
}

TEST_P(HostileBytes, FlippedBitsAreRefused) {
  const Stream stream;
  ForEachBitFlip(Frame(), [&](const Bytes& flipped, size_t bit) {
    const Status status = SumOnDevice(flipped, 1, 1, kHostileTensor, stream).status;
    ASSERT_FALSE(status.ok()) << "bit " << bit;
    // InvalidArgument is for a header that names a codec without a device variant.
    if (bit / 8 != frame_fields::kIndexId && bit / 8 != frame_fields::kValueId &&
        bit / 8 != frame_fields::kSupport) {
      ASSERT_EQ(status.code(), StatusCode::kDataLoss) << "bit " << bit << status.message();
    }
  });
}

TEST_P(HostileBytes, FlippedBitsUnderARightChecksumGetTheSameVerdict) {
  ForEachBitFlip(Frame(), [&](const Bytes& flipped, size_t bit) {
    if (bit / 8 >= frame_fields::kChecksum && bit / 8 < frame_fields::kHeaderBytes) return;
    Bytes repaired = flipped;
    RepairChecksum(&repaired);
    SCOPED_TRACE(testing::Message() << "bit " << bit);
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(repaired));
  });
}

TEST_P(HostileBytes, RandomSectionsUnderARightChecksumGetTheSameVerdict) {
  Random random(1);
  for (int round = 0; round < 100; ++round) {
    Bytes frame = Frame();
    for (uint32_t change = 1 + random.Below(8); change > 0; --change) {
      const auto rest = static_cast<uint32_t>(frame.size() - kFrameHeaderBytes);
      const uint32_t kind = random.Below(3);
      frame[kFrameHeaderBytes + random.Below(rest)] =
          static_cast<unsigned char>(kind == 0   ? 0
                                     : kind == 1 ? 0xFF
                                                 : random.Below(256));
    }
    RepairChecksum(&frame);
    SCOPED_TRACE(testing::Message() << "round " << round);
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(frame));
  }
}

// A frame whose sections are changed under a right checksum.
struct ForgedFrame {
  const char* name;
  const char* spec;
  std::vector<float> values;
  std::function<void(Bytes*)> change;
};

std::vector<ForgedFrame> ForgedFrames() {
  // Numbers of the values of each sign, in sections of dexp.
  constexpr size_t kCount = kFrameHeaderBytes;
  constexpr size_t kOtherCount = kCount + sizeof(uint32_t) + CurvePart::kCurveBytes;
  const std::vector<float> ones(kHostileSize, 1.0f), normal = NormalValues(kHostileSize, 5);
  return {
      {"a bit past the end, where as many are set as before", "nonzero|bitmap|raw", ones,
       [](Bytes* frame) {
         (*frame)[kFrameHeaderBytes] ^= 1;
         (*frame)[kFrameHeaderBytes + kHostileSize / 8] |= 0x80;
       }},
      {"a level that is not finite, to which no value refers", "dense|raw|log", normal,
       [](Bytes* frame) {
         SetField(kFrameHeaderBytes + sizeof(double), 1e47, frame);
         std::fill(frame->begin() + kFrameHeaderBytes + LogScale::kNumBytes, frame->end(),
                   static_cast<unsigned char>(0));
       }},
      {"counts that add up to k only where the sum wraps around", "dense|raw|dexp", normal,
       [](Bytes* frame) {
         SetField(kCount, static_cast<uint32_t>(kHostileSize) + 5, frame);
         SetField(kOtherCount, static_cast<uint32_t>(-5), frame);
       }},
      {"two curves, of which the second is cut off",
       "dense|raw|dexp",
       {1.0f, 2.0f},
       [](Bytes* frame) {
         SetField(kCount, uint32_t{1}, frame);
         SetField(kOtherCount, uint32_t{1}, frame);
       }},
      {"a byte past five trits", "dense|raw|ternary", normal,
       [](Bytes* frame) { frame->back() = kNumTritCodes; }},
  };
}

TEST(SumDecoder, RefusesForgedFrames) {
  const Stream stream;
  for (const ForgedFrame& forged : ForgedFrames()) {
    SCOPED_TRACE(forged.name);
    Bytes frame;
    Append(forged.spec, HostGradient(forged.values, DType::kFloat32), 1, &frame);
    forged.change(&frame);
    RepairChecksum(&frame);
    ExpectRefused(frame, {{DType::kFloat32, forged.values.size()}}, stream);
  }
}

// One set bit more than the hashes of one key can set.
TEST(SumDecoder, RefusesABloomFilterThatIsTooFull) {
  const Stream stream;
  constexpr int kHashes = 3;
  int num_refused = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Bytes frame;
    Append("topk:ratio=0.02|bloom:policy=leftmost,fpr=0.1|raw",
           HostGradient(NormalValues(kHostileSize, seed), DType::kFloat32), seed, &frame);
    unsigned char* const filter = frame.data() + kFrameHeaderBytes + kBloomHeaderBytes;
    if (CountBits({filter, kMinBloomBits / 8}) != kHashes) continue;
    unsigned char& byte = filter[0];
    byte = static_cast<unsigned char>(byte | (byte + 1));  // The lowest bit that is not set.
    RepairChecksum(&frame);
    ExpectRefused(frame, kHostileTensor, stream);
    ++num_refused;
  }
  EXPECT_GT(num_refused, 0);
}

// ---- Arguments ---------------------------------------------------------------------------------

TEST(SumDecoder, NamesRankTensorAndCodec) {
  const Stream stream;
  Bytes packets;
  Append("dense|raw|raw", HostGradient(Gradient(20, 1), DType::kFloat32), 1, &packets);
  Append("topk:ratio=0.5|raw|deflate", HostGradient(Gradient(20, 1), DType::kFloat32), 1, &packets);
  const std::vector<TensorSpec> tensors = {{DType::kFloat32, 20}};
  ExpectError(SumOnDevice(packets, 2, 1, tensors, stream).status, StatusCode::kInvalidArgument,
              "rank 1, tensor 0: the value codec 'deflate' has no device variant");

  packets.clear();
  for (int i = 0; i < 4; ++i)
    Append("dense|raw|raw", HostGradient(Gradient(20, 1), DType::kFloat32), 1, &packets);
  packets[packets.size() / 4 * 3 - 1] ^= 1;  // In rank 1, tensor 0.
  ExpectDataLoss(
      SumOnDevice(packets, 2, 1, {{DType::kFloat32, 20}, {DType::kFloat32, 20}}, stream).status,
      "rank 1, tensor 0: the checksum");
}

TEST(SumDecoder, TakesNoMemoryForMoreElementsThanASketchCanHold) {
  constexpr uint32_t kSize = 10000;
  const Stream stream;
  for (const char* spec : {"topk:ratio=0.01|sketchml", "topk:ratio=0.01|skcompress"}) {
    Bytes frame;
    Append(spec, HostGradient(Gradient(kSize, 1), DType::kFloat32), 1, &frame);
    SetField(frame_fields::kK, kSize, &frame);
    // Of the length: the checksum, which is wrong, is known only after memory has been taken.
    ExpectDataLoss(SumOnDevice(frame, 1, 1, {{DType::kFloat32, kSize}}, stream).status,
                   "value section");
  }
}

TEST(SumDecoder, RefusesMissingAndSmallBuffers) {
  const Stream stream;
  Bytes packets;
  Append("dense|raw|raw", HostGradient(Gradient(20, 1), DType::kFloat32), 1, &packets);
  const DeviceVector<float> sum(20);
  const DeviceVector<unsigned char> packets_dev(packets, stream);
  const std::vector<int64_t> positions = {0};
  const std::vector<SumTarget> targets = {{sum.data_dev(), DType::kFloat32, 20}};
  const auto made = SumDecoder::Make({packets, 1, 1}, positions, targets);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const SumDecoder& decoder = made.value();
  const DeviceVector<unsigned char> memory(decoder.workspace_bytes());
  const DeviceBuffer small = {memory.data_dev(), memory.size() - 1};
  const auto code = [&](const unsigned char* from, const DeviceBuffer& workspace) {
    return decoder.DecodeSum(from, 1, workspace, stream.get(), {}).code();
  };
  EXPECT_EQ(code(packets_dev.data_dev(), memory.buffer()), StatusCode::kOk);
  EXPECT_EQ(code(packets_dev.data_dev(), small), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(nullptr, memory.buffer()), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      decoder.Launch(packets_dev.data_dev(), 1, memory.buffer(), stream.get(), nullptr).code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(SumDecoder::Make({packets, 1, 1}, {}, targets).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(SumDecoder::Make({packets, 0, 1}, positions, targets).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
