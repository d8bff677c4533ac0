// The sharded exchange without a network: every rank gets the same sums, and what is neither
// applied nor in a slot does not exist.
#include "core/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "flushing_threads.h"
#include "rows_inputs.h"

namespace tfcompress {
namespace {

using Vector = std::vector<float>;

// Cuts that Python's shard.py makes, for shards of whole units of 16 elements.
std::vector<std::vector<int64_t>> CutsOf(const std::vector<size_t>& sizes, int num_ranks) {
  constexpr int64_t kUnit = 16;
  int64_t total = 0;
  for (size_t n : sizes) total += static_cast<int64_t>(n);
  const int64_t shard = NumBlocks(total, kUnit * num_ranks) * kUnit;
  std::vector<std::vector<int64_t>> cuts;
  int64_t first = 0;
  for (size_t n : sizes) {
    cuts.emplace_back();
    for (int rank = 0; rank <= num_ranks; ++rank) {
      cuts.back().push_back(std::clamp<int64_t>(shard * rank - first, 0, static_cast<int64_t>(n)));
    }
    first += static_cast<int64_t>(n);
  }
  return cuts;
}

// Pieces begin within rows.
constexpr Grid kGrid = {37, 0};

class Ranks {
 public:
  Ranks(const std::string& spec, std::vector<size_t> sizes, int num_ranks)
      : compressor_(Compressor::FromSpec(spec).value()),
        sizes_(std::move(sizes)),
        cuts_(CutsOf(sizes_, num_ranks)),
        slots_(num_ranks) {
    if (compressor_->memory().num_slots() == 0) return;
    for (auto& of_rank : slots_) {
      for (size_t n : sizes_) of_rank.emplace_back(n);
    }
  }

  int size() const { return static_cast<int>(slots_.size()); }
  const std::vector<std::vector<int64_t>>& cuts() const { return cuts_; }
  // By rank and tensor; none without a memory.
  const std::vector<std::vector<Vector>>& slots() const { return slots_; }

  // Returns what every rank decodes, by tensor; all are checked to be the same.
  std::vector<Vector> Step(const std::vector<std::vector<Vector>>& gradients, uint64_t step) {
    // parts[owner]: the packets for this rank, in rank order.
    std::vector<Bytes> parts(size());
    for (int rank = 0; rank < size(); ++rank) EncodeHop(rank, gradients[rank], step, &parts);
    Bytes sums;
    for (int rank = 0; rank < size(); ++rank)
      SumHop(rank, gradients[rank], step, parts[rank], &sums);
    std::vector<Vector> first;
    for (int rank = 0; rank < size(); ++rank) {
      std::vector<Vector> decoded = Decode(rank, sums);
      if (rank == 0) first = decoded;
      for (size_t i = 0; i < sizes_.size(); ++i) {
        if (sizes_[i] == 0) continue;
        EXPECT_EQ(std::memcmp(first[i].data(), decoded[i].data(), 4 * sizes_[i]), 0)
            << "tensor " << i << " of rank " << rank;
      }
    }
    return first;
  }

  // What rank 0 makes of other ranks' bytes.
  Status Sum(ByteSpan packets, std::vector<Vector>* pieces) const {
    std::vector<SumTarget> targets;
    std::vector<int64_t> positions;
    pieces->clear();
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const auto n = static_cast<size_t>(cuts_[i][1]);
      pieces->emplace_back(n);
      if (n == 0) continue;
      positions.push_back(static_cast<int64_t>(targets.size()));
      targets.push_back({pieces->back().data(), DType::kFloat32, n});
    }
    return DecodeSum({packets, size(), static_cast<int64_t>(targets.size()), 0}, positions, 1.0f,
                     targets, SerialExecutor(), {});
  }

  Status DecodeAll(ByteSpan packets, Executor* executor, std::vector<Vector>* sums,
                   std::vector<DecodeStats>* stats) const {
    sums->clear();
    std::vector<CutTensor> tensors;
    for (size_t n : sizes_) sums->emplace_back(n, 77.0f);
    for (size_t i = 0; i < sizes_.size(); ++i) tensors.push_back({(*sums)[i].data(), cuts_[i]});
    stats->assign(sizes_.size(), {});
    return DecodePieces(packets, 1.0f, tensors, executor, Span<DecodeStats>(*stats));
  }

  std::vector<DecodeStats> last_stats;
  Bytes last_sums;

 private:
  void EncodeHop(int rank, const std::vector<Vector>& gradients, uint64_t step,
                 std::vector<Bytes>* parts) {
    ThreadExecutor threads(1 + rank % 3);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      Bytes frames;
      std::vector<int64_t> num_bytes(size());
      PieceCounts counts{Span<int64_t>(num_bytes)};
      Vector after(sizes_[i]);
      const float* const before = slots_[rank].empty() ? nullptr : slots_[rank][i].data();
      float* const written = after.data();
      const size_t num_slots = slots_[rank].empty() ? 0 : 1;
      const MemorySlots slots = {Span<const float* const>(&before, num_slots),
                                 Span<float* const>(&written, num_slots)};
      const Status status = EncodePieces(*compressor_, gradients[i], cuts_[i], rank, slots,
                                         {step, &threads, kGrid}, &frames, &counts);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(num_bytes[rank], 0);
      size_t begin = 0;
      for (int owner = 0; owner < size(); ++owner) {
        const auto count = static_cast<size_t>(num_bytes[owner]);
        (*parts)[owner].insert((*parts)[owner].end(), frames.begin() + begin,
                               frames.begin() + begin + count);
        begin += count;
      }
      EXPECT_EQ(begin, frames.size());
      if (num_slots > 0) slots_[rank][i] = after;
    }
  }

  void SumHop(int rank, const std::vector<Vector>& gradients, uint64_t step, const Bytes& packets,
              Bytes* sums) {
    std::optional<FlushSubnormals> mode;
    if (rank % 2 == 1) mode.emplace();
    std::vector<Vector> pieces;
    std::vector<SumTarget> targets;
    std::vector<int64_t> positions;
    for (const auto& cuts : cuts_)
      pieces.emplace_back(static_cast<size_t>(cuts[rank + 1] - cuts[rank]));
    for (Vector& piece : pieces) {
      if (piece.empty()) continue;
      positions.push_back(static_cast<int64_t>(targets.size()));
      targets.push_back({piece.data(), DType::kFloat32, piece.size()});
    }
    const Status status = DecodeSum({packets, size(), static_cast<int64_t>(targets.size()), rank},
                                    positions, 1.0f, targets, SerialExecutor(), {});
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].empty()) continue;
      const int64_t begin = cuts_[i][rank];
      float* slot = slots_[rank].empty() ? nullptr : slots_[rank][i].data() + begin;
      int64_t num_sent = 0;
      const Status encoded =
          EncodeSum(*compressor_, gradients[i].data() + begin, slot, Span<float>(pieces[i]),
                    {~step, SerialExecutor()}, sums, &num_sent);
      ASSERT_TRUE(encoded.ok()) << encoded.message();
    }
    last_sums = *sums;
  }

  std::vector<Vector> Decode(int rank, const Bytes& packets) {
    ThreadExecutor threads(1 + rank % 3);
    std::vector<Vector> sums;
    const Status status = DecodeAll(packets, &threads, &sums, &last_stats);
    EXPECT_TRUE(status.ok()) << status.message();
    return sums;
  }

  std::shared_ptr<const Compressor> compressor_;
  std::vector<size_t> sizes_;
  std::vector<std::vector<int64_t>> cuts_;
  std::vector<std::vector<Vector>> slots_;
};

std::vector<std::vector<Vector>> Gradients(const std::vector<size_t>& sizes, int num_ranks,
                                           uint64_t step) {
  std::vector<std::vector<Vector>> gradients(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (size_t i = 0; i < sizes.size(); ++i)
      gradients[rank].push_back(Gradient(sizes[i], 1000 * step + 50 * i + rank));
  }
  return gradients;
}

// Adds up in double precision.
std::vector<std::vector<double>> SumOf(const std::vector<std::vector<Vector>>& of_ranks,
                                       const std::vector<size_t>& sizes) {
  std::vector<std::vector<double>> sums;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sums.emplace_back(sizes[i]);
    for (const auto& of_rank : of_ranks) {
      for (size_t j = 0; !of_rank.empty() && j < sizes[i]; ++j) sums[i][j] += of_rank[i][j];
    }
  }
  return sums;
}

std::vector<size_t> SizesFor(int num_ranks) {
  if (num_ranks > 3) return {1, 1000, 0, 37, 513};
  return {1, 1000, 0, 37, static_cast<size_t>(kBlockElements) + 4001};
}

class PiecesTest : public testing::TestWithParam<std::string> {};

TEST_P(PiecesTest, ReplicasAreEqualAndNothingIsLost) {
  for (int num_ranks = 2; num_ranks <= 8; ++num_ranks) {
    SCOPED_TRACE(std::to_string(num_ranks) + " ranks");
    const std::vector<size_t> sizes = SizesFor(num_ranks);
    Ranks ranks(GetParam(), sizes, num_ranks);
    for (uint64_t step = 1; step <= 3; ++step) {
      const auto gradients = Gradients(sizes, num_ranks, step);
      const auto before = SumOf(ranks.slots(), sizes);
      const std::vector<Vector> applied = ranks.Step(gradients, step);
      const auto given = SumOf(gradients, sizes);
      const auto after = SumOf(ranks.slots(), sizes);
      if (ranks.slots()[0].empty()) continue;
      for (size_t i = 0; i < sizes.size(); ++i) {
        for (size_t j = 0; j < sizes[i]; ++j) {
          const double expected = given[i][j] + before[i][j];
          const double size = std::fabs(expected) + std::fabs(after[i][j]) + num_ranks;
          ASSERT_NEAR(applied[i][j] + after[i][j], expected, 1e-5 * size)
              << "step " << step << ", tensor " << i << ", element " << j;
        }
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, PiecesTest,
    testing::Values("residual|dense|raw|block_int:bits=8,block=256",
                    "residual|dense|raw|block_int:bits=2,block=64",
                    "residual|topk:ratio=0.01|delta_binary|raw",
                    "residual|topk:ratio=0.05|bloom:policy=p2,fpr=0.01|raw",
                    "residual|randomk:ratio=0.1|raw|raw", "residual|dense|raw|raw",
                    "dense|raw|qsgd:bits=7,bucket=512", "nonzero|delta_binary|fp16",
                    "residual|dense|threelc:multiplier=1", "residual|nonzero|sketchml",
                    "residual|topk:ratio=0.05|rowcol|ecsq:snr=20"),
    [](const auto& info) { return TestName(info.param); });

TEST(PiecesTest, SumsOfRawValuesAreThoseOfTheGradients) {
  const std::vector<size_t> sizes = SizesFor(3);
  Ranks ranks("dense|raw|raw", sizes, 3);
  const auto gradients = Gradients(sizes, 3, 1);
  const auto expected = SumOf(gradients, sizes);
  const auto sums = ranks.Step(gradients, 1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t j = 0; j < sizes[i]; ++j)
      ASSERT_NEAR(sums[i][j], expected[i][j], 1e-6 * (3 + std::fabs(expected[i][j])));
  }
}

// Wherever the element lies: in the rank's own piece, or in that of another one.
TEST(PiecesTest, ATensorThatIsNotFiniteOnOneRankIsNaNOnAll) {
  const std::vector<size_t> sizes = {300, 5000};
  for (const char* spec : {"residual|dense|raw|block_int", "dense|raw|raw"}) {
    for (size_t element : {size_t{0}, size_t{2600}, size_t{4999}}) {
      Ranks ranks(spec, sizes, 3);
      auto gradients = Gradients(sizes, 3, 1);
      gradients[1][1][element] = std::numeric_limits<float>::infinity();
      const auto sums = ranks.Step(gradients, 1);
      EXPECT_TRUE(ranks.last_stats[0].finite);
      EXPECT_FALSE(ranks.last_stats[1].finite) << spec << " " << element;
      EXPECT_TRUE(std::isfinite(sums[0][7]));
      for (float value : sums[1]) ASSERT_TRUE(std::isnan(value));
    }
  }
}

TEST(PiecesTest, BrokenPacketsAreRefusedByName) {
  const std::vector<size_t> sizes = {300, 5000};
  Ranks ranks("residual|dense|raw|block_int", sizes, 3);
  ranks.Step(Gradients(sizes, 3, 1), 1);
  const Bytes good = ranks.last_sums;
  std::vector<Vector> sums;
  std::vector<DecodeStats> stats;
  ASSERT_TRUE(ranks.DecodeAll(good, SerialExecutor(), &sums, &stats).ok());
  for (size_t size = 0; size < good.size(); size += 97) {
    const Status status = ranks.DecodeAll({good.data(), size}, SerialExecutor(), &sums, &stats);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << size;
  }
  Bytes broken = good;
  broken.back() ^= 1;  // In the last rank's piece of the last tensor.
  const Status status = ranks.DecodeAll(broken, SerialExecutor(), &sums, &stats);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("rank 2, tensor 1"), std::string::npos) << status.message();
  broken = good;
  broken.push_back(0);
  EXPECT_EQ(ranks.DecodeAll(broken, SerialExecutor(), &sums, &stats).code(), StatusCode::kDataLoss);
  std::vector<Vector> pieces;
  EXPECT_EQ(ranks.Sum({}, &pieces).code(), StatusCode::kDataLoss);
  const Status of_others = ranks.Sum({good.data(), 10}, &pieces);
  EXPECT_NE(of_others.message().find("rank 1, tensor 0"), std::string::npos) << of_others.message();
}

TEST(PiecesTest, AnErrorReachesAllRanks) {
  const std::vector<size_t> sizes = {300, 5000};
  Ranks ranks("residual|dense|raw|block_int", sizes, 3);
  std::vector<Vector> sums;
  std::vector<DecodeStats> stats;
  Bytes packet;
  AppendError(DataLoss("rank 1, tensor 0: \x1b[31m"), &packet);
  const Status status = ranks.DecodeAll(packet, SerialExecutor(), &sums, &stats);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("rank 0 could not sum its shard: rank 1, tensor 0: ?[31m"),
            std::string::npos)
      << status.message();
  for (size_t size = 0; size < packet.size(); ++size)
    EXPECT_FALSE(ranks.DecodeAll({packet.data(), size}, SerialExecutor(), &sums, &stats).ok());
  AppendError(DataLoss(std::string(10000, 'x')), &packet);
  EXPECT_LT(packet.size(), 5000u);
}

TEST(PiecesTest, RefusesWhatCannotBeSharded) {
  const Vector gradient(10);
  std::vector<int64_t> num_bytes(2);
  PieceCounts counts{Span<int64_t>(num_bytes)};
  Bytes frames;
  const auto encode = [&](const std::string& spec, std::vector<int64_t> cuts) {
    return EncodePieces(*Compressor::FromSpec(spec).value(), gradient, cuts, 0, {}, {}, &frames,
                        &counts);
  };
  for (const std::vector<int64_t>& cuts :
       {std::vector<int64_t>{0, 5}, {1, 5, 10}, {0, 11, 10}, {0, 5, 11}, {0, -1, 10}, {}}) {
    EXPECT_EQ(encode("dense|raw|raw", cuts).code(), StatusCode::kInvalidArgument);
  }
  const Status status = encode("momentum|topk|raw|raw", {0, 5, 10});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("memory of 2 vectors"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace tfcompress
