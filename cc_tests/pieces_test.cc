// The sharded exchange without a network: every rank gets the same sums, and what is neither
// applied nor in a slot does not exist.
#include "core/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
        slots_(compressor_->memory().num_slots(), std::vector<std::vector<Vector>>(num_ranks)),
        num_ranks_(num_ranks) {
    for (auto& slot : slots_) {
      for (auto& of_rank : slot) {
        for (size_t n : sizes_) of_rank.emplace_back(n);
      }
    }
  }

  int size() const { return num_ranks_; }
  const std::vector<std::vector<int64_t>>& cuts() const { return cuts_; }
  // By slot, rank and tensor.
  const std::vector<std::vector<std::vector<Vector>>>& slots() const { return slots_; }

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
        EXPECT_TRUE(SameBits(first[i], decoded[i])) << "tensor " << i << " of rank " << rank;
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
      std::vector<Vector> vectors(slots_.size(), Vector(sizes_[i]));
      std::vector<const float*> before;
      std::vector<float*> after;
      for (size_t slot = 0; slot < slots_.size(); ++slot) {
        before.push_back(slots_[slot][rank][i].data());
        after.push_back(vectors[slot].data());
      }
      const MemorySlots slots = {before, after};
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
      for (size_t slot = 0; slot < slots_.size(); ++slot) slots_[slot][rank][i] = vectors[slot];
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
      std::vector<float*> slots;
      for (auto& slot : slots_) slots.push_back(slot[rank][i].data() + begin);
      int64_t num_sent = 0;
      const Status encoded =
          EncodeSum(*compressor_, gradients[i].data() + begin, slots, Span<float>(pieces[i]),
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
  std::vector<std::vector<std::vector<Vector>>> slots_;
  int num_ranks_;
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

constexpr double kRate = 0.5;
const char* const kMomentum = "momentum:rate=0.5|";

// What all ranks add to what is pending: gradients, or with a momentum in the memory velocities.
std::vector<std::vector<double>> AddedTo(const Ranks& ranks,
                                         const std::vector<std::vector<Vector>>& gradients,
                                         const std::vector<size_t>& sizes) {
  auto added = SumOf(gradients, sizes);
  if (ranks.slots().size() < 2) return added;
  const auto velocities = SumOf(ranks.slots()[1], sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t j = 0; j < sizes[i]; ++j) added[i][j] += kRate * velocities[i][j];
  }
  return added;
}

class PiecesTest : public testing::TestWithParam<std::string> {};

TEST_P(PiecesTest, ReplicasAreEqualAndNothingIsLost) {
  for (int num_ranks = 2; num_ranks <= 8; ++num_ranks) {
    SCOPED_TRACE(std::to_string(num_ranks) + " ranks");
    const std::vector<size_t> sizes = SizesFor(num_ranks);
    Ranks ranks(GetParam(), sizes, num_ranks);
    for (uint64_t step = 1; step <= 3; ++step) {
      const auto gradients = Gradients(sizes, num_ranks, step);
      if (ranks.slots().empty()) {
        ranks.Step(gradients, step);
        continue;
      }
      const auto before = SumOf(ranks.slots()[0], sizes);
      const auto given = AddedTo(ranks, gradients, sizes);
      const std::vector<Vector> applied = ranks.Step(gradients, step);
      const auto after = SumOf(ranks.slots()[0], sizes);
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
                    "residual|topk:ratio=0.05|rowcol|ecsq:snr=20",
                    "residual|topk:ratio=0.05|rowcol|lossless", "dense|raw|lossless",
                    "residual|dense|raw|ecsq:snr=10",
                    "momentum:rate=0.5|topk:ratio=0.05|delta_binary|raw",
                    "momentum:rate=0.5|dense|raw|block_int:bits=4,levels=square"),
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

// Of a rank's own piece, elements of the sum; of others' pieces, those that it sends.
TEST(PiecesTest, VelocitiesAreMaskedWhereAnElementIsSent) {
  const std::vector<size_t> sizes = {4096};
  Ranks ranks(std::string(kMomentum) + "topk:ratio=0.01|raw|raw", sizes, 2);
  const auto gradients = Gradients(sizes, 2, 1);
  const Vector applied = ranks.Step(gradients, 1)[0];
  const int64_t cut = ranks.cuts()[0][1];
  for (int rank = 0; rank < 2; ++rank) {
    int num_sent = 0;
    const Vector& velocity = ranks.slots()[1][rank][0];
    for (int64_t i = 0; i < 4096; ++i) {
      const float gradient = gradients[rank][0][i];
      if (gradient == 0) continue;
      const bool is_masked = velocity[i] == 0;
      EXPECT_TRUE(is_masked || velocity[i] == gradient);
      if ((i < cut) == (rank == 0)) {
        EXPECT_EQ(is_masked, applied[i] != 0) << i;
      } else {
        num_sent += is_masked;
      }
    }
    EXPECT_EQ(num_sent, 2048 / 100);
  }
}

TEST(PiecesTest, WithEverythingSentAMomentumIsThatOfTheSum) {
  const std::vector<size_t> sizes = SizesFor(3);
  Ranks ranks(std::string(kMomentum) + "dense|raw|raw", sizes, 3);
  std::vector<std::vector<double>> velocities;
  for (size_t n : sizes) velocities.emplace_back(n);
  for (uint64_t step = 1; step <= 4; ++step) {
    const auto gradients = Gradients(sizes, 3, step);
    const auto given = SumOf(gradients, sizes);
    const auto sums = ranks.Step(gradients, step);
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (size_t j = 0; j < sizes[i]; ++j) {
        velocities[i][j] = kRate * velocities[i][j] + given[i][j];
        ASSERT_NEAR(sums[i][j], velocities[i][j], 1e-5 * (3 + std::fabs(velocities[i][j])));
      }
    }
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
  ExpectDataLoss(ranks.DecodeAll(broken, SerialExecutor(), &sums, &stats), "rank 2, tensor 1");
  broken = good;
  broken.push_back(0);
  EXPECT_EQ(ranks.DecodeAll(broken, SerialExecutor(), &sums, &stats).code(), StatusCode::kDataLoss);
  std::vector<Vector> pieces;
  EXPECT_EQ(ranks.Sum({}, &pieces).code(), StatusCode::kDataLoss);
  ExpectDataLoss(ranks.Sum({good.data(), 10}, &pieces), "rank 1, tensor 0");
}

TEST(PiecesTest, AnErrorReachesAllRanks) {
  const std::vector<size_t> sizes = {300, 5000};
  Ranks ranks("residual|dense|raw|block_int", sizes, 3);
  std::vector<Vector> sums;
  std::vector<DecodeStats> stats;
  Bytes packet;
  AppendError(DataLoss("rank 1, tensor 0: \x1b[31m"), &packet);
  ExpectDataLoss(ranks.DecodeAll(packet, SerialExecutor(), &sums, &stats),
                 "rank 0 could not sum its shard: rank 1, tensor 0: ?[31m");
  for (size_t size = 0; size < packet.size(); ++size)
    EXPECT_FALSE(ranks.DecodeAll({packet.data(), size}, SerialExecutor(), &sums, &stats).ok());
  AppendError(DataLoss(std::string(10000, 'x')), &packet);
  EXPECT_LT(packet.size(), 5000u);
}

TEST(PiecesTest, RefusesCutsThatDoNotAscend) {
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
}

}  // namespace
}  // namespace tfcompress
