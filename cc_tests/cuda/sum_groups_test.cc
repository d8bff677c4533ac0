// Frames of many tensors and ranks that are decoded side by side.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "contract_inputs.h"
#include "cuda/sum_decoder.h"
#include "device_inputs.h"
#include "device_sums.h"
#include "fuzz/frame_fields.h"

namespace tfcompress {
namespace device {
namespace {

constexpr int kRanks = 5;
constexpr uint64_t kSizes[] = {1, 5, 0, 3000, 70000, 17, 1024};
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
constexpr size_t kZeros = 3;      // A tensor of zeros.
constexpr size_t kNonFinite = 5;  // A tensor that is not finite on one rank.

class SumGroups : public testing::TestWithParam<std::string> {
 protected:
  SumGroups() {
    for (uint64_t size : kSizes)
      tensors_.push_back({kTypes[tensors_.size() % std::size(kTypes)], size});
    for (int rank = 0; rank < kRanks; ++rank) AppendPacket(rank);
  }

  void AppendPacket(int rank) {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      std::vector<float> values = Gradient(tensors_[t].n, static_cast<uint64_t>(10 * rank) + t);
      if (t == kZeros) std::fill(values.begin(), values.end(), 0.0f);
      if (t == kNonFinite && rank == 2) values[7] = std::numeric_limits<float>::infinity();
      begins_.push_back(packets_.size());
      Append(GetParam(), HostGradient(values, tensors_[t].dtype), static_cast<uint64_t>(rank),
             &packets_);
    }
    packets_.resize(packets_.size() + static_cast<size_t>(7 * rank), 0);  // Padding zeros.
  }

  std::vector<TensorSpec> tensors_;
  Bytes packets_;
  std::vector<size_t> begins_;  // Of the frames, rank-major.
};

INSTANTIATE_TEST_SUITE_P(
    Device, SumGroups,
    testing::Values(
        "dense|raw|raw", "dense|raw|fp16", "dense|raw|qsgd", "dense|raw|block_int:bits=4",
        "dense|raw|block_int:bits=3,block=16,levels=square", "topk:ratio=0.1|delta_adaptive|fp16",
        "topk:ratio=0.1|delta_flag|qsgd", "topk:ratio=0.3|delta_binary|raw",
        "nonzero|delta_adaptive|sign", "topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64",
        "topk:ratio=0.1|raw|log", "topk:ratio=0.1|bitmap|dexp",
        "randomk:ratio=0.1|raw|quantile:buckets=20", "topk:ratio=0.1|bloom:policy=p0|raw",
        "topk:ratio=0.1|bloom:policy=p2|fp16", "topk:ratio=0.1|sketchml", "nonzero|skcompress"),
    [](const auto& info) { return TestName(info.param); });

TEST_P(SumGroups, AreAddedAsOnTheHost) {
  const Stream stream;
  // All ranks in a group; each in its own; some of them.
  for (uint64_t most_bytes : {SumDecoder::kMostGroupBytes, uint64_t{1}, uint64_t{200000}})
    ExpectSameSums(packets_, kRanks, 1.0f / kRanks, tensors_, stream, 1, most_bytes);
}

TEST_P(SumGroups, NameTheBrokenFrame) {
  const Stream stream;
  const size_t tensor = 4, rank = 3, frame = rank * tensors_.size() + tensor;
  const std::string name = "rank 3, tensor 4";
  Bytes changed = packets_;
  changed[begins_[frame] + frame_fields::kHeaderBytes + 9] ^= 0x20;
  const Status checksum = SumOnDevice(changed, kRanks, 1, tensors_, stream).status;
  ExpectDataLoss(checksum, "checksum");
  // The device names it if it is the only error, the host if the section is not valid either.
  EXPECT_EQ(checksum.message().find(name + ": "), 0u) << checksum.message();

  // Under a right checksum: the host decides whether the section is still valid.
  const auto at = changed.begin() + static_cast<int64_t>(begins_[frame]);
  Bytes repaired(at, changed.begin() + static_cast<int64_t>(begins_[frame + 1]));
  RepairChecksum(&repaired);
  std::copy(repaired.begin(), repaired.end(), at);
  const Sums expected = SumOnHost(changed, kRanks, 1, tensors_);
  const Sums actual = SumOnDevice(changed, kRanks, 1, tensors_, stream);
  EXPECT_EQ(actual.status.code(), expected.status.code()) << actual.status.message();
  if (expected.status.ok()) return;
  EXPECT_NE(actual.status.message().find(name), std::string::npos) << actual.status.message();
}

// A tile of the sum is decoded for each rank by the parameters of its own section.
TEST(DenseSums, OfRanksWithOtherBlocksAndWidthsAreThoseOfTheHost) {
  const Stream stream;
  const char* const specs[] = {"block_int", "block_int:bits=3,block=16",
                               "block_int:bits=5,block=1024,levels=square",
                               "block_int:bits=2,block=64", "block_int:bits=7,block=64"};
  const std::vector<TensorSpec> tensors = {{DType::kFloat32, 5003}, {DType::kFloat32, 1023}};
  Bytes packets;
  for (uint64_t rank = 0; rank < std::size(specs); ++rank) {
    for (const TensorSpec& tensor : tensors) {
      const HostGradient gradient(Gradient(tensor.n, 3 * rank), DType::kFloat32);
      Append(std::string("dense|raw|") + specs[rank], gradient, rank, &packets);
    }
  }
  ExpectSameSums(packets, std::size(specs), 0.3f, tensors, stream);
}

// Each run of ranks with the same kinds is a group; a tensor is decoded apart from others whose
// ranks have other kinds.
TEST(MixedSums, OfRanksWithOtherCodecsAreThoseOfTheHost) {
  const Stream stream;
  const char* const specs[] = {"topk:ratio=0.1|raw|raw",
                               "topk:ratio=0.2|raw|raw",
                               "dense|raw|fp16",
                               "topk:ratio=0.1|sketchml",
                               "topk:ratio=0.1|bloom|dexp",
                               "topk:ratio=0.1|bloom:policy=p1|raw",
                               "topk:ratio=0.1|delta_flag|log"};
  const std::vector<TensorSpec> tensors = {
      {DType::kFloat32, 5003}, {DType::kFloat16, 1023}, {DType::kFloat32, 700}};
  Bytes packets;
  for (uint64_t rank = 0; rank < std::size(specs); ++rank) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      const HostGradient gradient(Gradient(tensors[t].n, 3 * rank + t), tensors[t].dtype);
      Append(t == 2 ? "dense|raw|qsgd" : specs[rank], gradient, rank, &packets);
    }
  }
  ExpectSameSums(packets, std::size(specs), 0.3f, tensors, stream);
}

// The lanes of a warp find what 32 ranks have of a tile.
TEST(TileSums, OfMoreRanksThanLanesAreThoseOfTheHost) {
  const Stream stream;
  constexpr int kNumRanks = 40;
  const std::vector<TensorSpec> tensors = {{DType::kFloat32, 3000}, {DType::kFloat32, 33}};
  for (const char* spec : {"dense|raw|fp16", "dense|raw|block_int:bits=4",
                           "topk:ratio=0.1|delta_adaptive|fp16", "nonzero|delta_binary|raw"}) {
    Bytes packets;
    for (uint64_t rank = 0; rank < kNumRanks; ++rank) {
      for (const TensorSpec& tensor : tensors)
        Append(spec, HostGradient(Gradient(tensor.n, rank), DType::kFloat32), rank, &packets);
    }
    ExpectSameSums(packets, kNumRanks, 1.0f / kNumRanks, tensors, stream);
  }
}

// Bytes of a section that no frame may have, in a tile after the first, under a right checksum.
TEST(DenseSums, NameTheFrameWithValuesThatAreNotValid) {
  const Stream stream;
  const std::vector<TensorSpec> tensors = {{DType::kFloat32, 1500}, {DType::kFloat32, 3000}};
  constexpr size_t kBlock = 64, kElement = 2500, kScalesBegin = 2;
  const std::pair<std::string, size_t> broken[] = {
      {"dense|raw|raw", kElement * sizeof(float)},
      {"dense|raw|fp16", kElement * sizeof(uint16_t)},
      {"dense|raw|block_int:bits=5,block=64", kScalesBegin + kElement / kBlock * sizeof(uint16_t)}};
  for (const auto& [spec, begin] : broken) {
    Bytes packets;
    for (uint64_t rank = 0; rank < 3; ++rank) {
      for (const TensorSpec& tensor : tensors) {
        Bytes frame;
        Append(spec, HostGradient(Gradient(tensor.n, rank), DType::kFloat32), rank, &frame);
        if (rank == 1 && tensor.n == tensors[1].n) {
          const size_t width = spec == "dense|raw|raw" ? sizeof(float) : sizeof(uint16_t);
          std::fill_n(frame.begin() + frame_fields::kHeaderBytes + static_cast<int64_t>(begin),
                      width, static_cast<unsigned char>(0xFF));
          RepairChecksum(&frame);
        }
        packets.insert(packets.end(), frame.begin(), frame.end());
      }
    }
    const Status status = SumOnDevice(packets, 3, 1, tensors, stream).status;
    ExpectDataLoss(status, "value section");
    EXPECT_EQ(status.message().find("rank 1, tensor 1: "), 0u) << status.message();
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
