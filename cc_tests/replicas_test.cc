// Replicas stay equal without a network: 2 to 8 ranks encode gradients of their own over several
// steps, and each decodes what all of them sent with another number of threads, every second one in
// TensorFlow's floating-point mode. python_tests/single/test_presets.py holds that every preset is
// here.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/linear_compressor.h"
#include "core/pipeline.h"
#include "core/sparsify/select_largest.h"
#include "flushing_threads.h"
#include "rows_inputs.h"

namespace tfcompress {
namespace {

const std::vector<std::string>& Presets() {
  static const auto* specs = new std::vector<std::string>{
      "dense|raw|raw",
      "dense|raw|fp16",
      "dense|raw|bf16",
      "residual|topk:ratio=0.01|delta_binary|raw",
      "residual|threshold:tau=0.01|delta_binary|raw",
      "residual|topk:ratio=0.01|bloom:policy=p2,fpr=0.001|raw",
      "residual|randomk:ratio=0.01|raw|raw",
      "momentum:rate=0.9,nesterov=0|topk:ratio=0.001|delta_binary|raw",
      "nonzero|sketchml:buckets=256,groups=8,rows=2,columns=0.2",
      "nonzero|skcompress:buckets=256,groups=8,rows=2,columns=0.2",
      "nonzero|delta_flag:flag_bits=2|log:base=1.1,tau=0",
      "residual|dense|threelc:multiplier=1",
      "dense|raw|qsgd:bits=7,bucket=512",
      "dense|raw|ternary:clip=2.5",
      "residual|dense|raw|sign",
      "dense|raw|uniform:bits=16",
      "dense|raw|logquant:bits=8,rounding=nearest",
      "dense|raw|logquant:bits=8,rounding=random",
      "residual|dense|raw|block_int:bits=8,block=256,levels=even",
      "residual|dense|raw|block_int:bits=4,block=256,levels=square",
      "residual|topk:ratio=0.1|delta_adaptive|block_int:bits=3,block=64,levels=even",
      "residual|topk:ratio=0.01|rowcol|ecsq:snr=25",
  };
  return *specs;
}

const std::vector<std::string>& LinearPresets() {
  static const auto* specs = new std::vector<std::string>{
      "residual|shared_randomk:ratio=0.01",
      "momentum:rate=0.9,nesterov=0|"
      "count_sketch:rows=5,columns=1000000,k=100000,candidates=36,recovery=top",
      // The same with a sketch that is smaller than the vector, and the other recovery.
      "momentum:rate=0.9,nesterov=0|count_sketch:rows=5,columns=500,k=50,candidates=4,recovery=top",
      "residual|count_sketch:rows=5,columns=500,k=50,recovery=heavymix",
      // Of vectors; low_rank_test.cc has matrices.
      "residual|powersgd:rank=4,warm_start=1",
  };
  return *specs;
}

constexpr uint64_t kNumSteps = 3;
constexpr int kMaxRanks = 8;

struct TensorShape {
  size_t n;
  DType dtype;
};

// Tensors of one block and of several. More than three ranks get small ones only, for time.
std::vector<TensorShape> ShapesFor(int num_ranks) {
  std::vector<TensorShape> shapes = {{1, DType::kFloat32},
                                     {1000, DType::kFloat32},
                                     {777, DType::kFloat16},
                                     {0, DType::kFloat32},
                                     {513, DType::kBFloat16}};
  if (num_ranks > 3) return shapes;
  shapes.push_back({kBlockElements + 4001, DType::kFloat32});
  shapes.push_back({kBlockElements + 77, DType::kBFloat16});
  return shapes;
}

using Slots = std::vector<std::vector<float>>;

std::vector<float*> PointersTo(Slots* slots) {
  std::vector<float*> pointers;
  for (std::vector<float>& slot : *slots) pointers.push_back(slot.data());
  return pointers;
}

// What `memory` makes of a gradient, on slots of its own.
std::vector<float> Compensated(const Memory& memory, Slots slots,
                               const std::vector<float>& gradient) {
  const std::vector<float*> pointers = PointersTo(&slots);
  const std::vector<const float*> before(pointers.begin(), pointers.end());
  bool finite = true;
  const Span<const float> compensated =
      memory.Compensate(gradient, {before, pointers}, {}, &finite);
  EXPECT_TRUE(finite);
  return {compensated.begin(), compensated.end()};
}

bool SameBits(const void* a, const void* b, size_t num_bytes) {
  return num_bytes == 0 || std::memcmp(a, b, num_bytes) == 0;
}

// Calls body(executor) as a rank does: with a number of threads and a mode of its own.
template <typename Body>
void RunAsRank(int rank, const Body& body) {
  ThreadExecutor threads(rank + 1);
  std::optional<FlushSubnormals> mode;
  if (rank % 2 == 1) mode.emplace();
  body(static_cast<Executor*>(&threads));
}

// The ranks' packets of one step, and the vectors that receivers decode of each rank's frames.
struct Packets {
  Bytes bytes;
  std::vector<std::vector<std::vector<float>>> decoded;  // By rank and tensor.
};

class ReplicasTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr uint64_t kNumRows = 300;
  static constexpr uint64_t kWidth = 7;

  const Compressor& compressor() const { return *compressor_; }
  bool takes_rows() const {
    return compressor().joint() == nullptr || compressor().joint()->takes_rows();
  }

  void Start(int num_ranks) {
    shapes_ = ShapesFor(num_ranks);
    slots_.assign(num_ranks, {});
    residuals_.assign(num_ranks, std::vector<float>(kNumRows * kWidth));
    for (auto& of_rank : slots_) {
      for (const TensorShape& shape : shapes_) {
        of_rank.emplace_back(compressor().memory().num_slots(), std::vector<float>(shape.n));
      }
    }
  }

  // One tensor of one rank; returns what receivers decode of it.
  std::vector<float> EncodeTensor(int rank, size_t tensor, uint64_t step, Bytes* packet) {
    const auto [n, dtype] = shapes_[tensor];
    std::vector<unsigned char> gradient(n * DTypeBytes(dtype));
    NarrowFromFloat(Gradient(n, SeedOf(rank, tensor, step)), dtype, SerialExecutor(),
                    gradient.data());
    std::vector<float> wide(n);
    WidenToFloat(gradient.data(), dtype, SerialExecutor(), Span<float>(wide));
    Slots& slots = slots_[rank][tensor];
    const std::vector<float> compensated = Compensated(compressor().memory(), slots, wide);

    Bytes frame_bytes;
    RunAsRank(rank, [&](Executor* executor) {
      const Status status = EncodeFrame(compressor(), {gradient.data(), dtype, n},
                                        PointersTo(&slots), {step, executor}, &frame_bytes);
      ASSERT_TRUE(status.ok()) << status.message();
    });
    packet->insert(packet->end(), frame_bytes.begin(), frame_bytes.end());

    ByteReader reader(frame_bytes);
    Frame frame;
    SparseTensor sent;
    EXPECT_TRUE(ReadFrame(&reader, &frame).ok());
    EXPECT_TRUE(DecodeFrame(frame, SerialExecutor(), &sent).ok());
    std::vector<float> decoded(n);
    const Support support = sent.support();
    for (size_t i = 0; i < support.size(); ++i) decoded[support[i]] = sent.values[i];
    if (!slots.empty()) ExpectConserved(compensated, decoded, slots[0]);
    return decoded;
  }

  std::vector<float> EncodeTable(int rank, uint64_t step, Bytes* packet) {
    const RowsInput input = RandomRows(kNumRows, kWidth, 120, SeedOf(rank, 99, step));
    std::vector<float> compensated = MergedTable(input);
    std::vector<float>& residual = residuals_[rank];
    for (size_t i = 0; i < residual.size(); ++i) compensated[i] += residual[i];
    Bytes frame;
    RunAsRank(rank, [&](Executor* executor) {
      frame =
          MustEncodeRows(compressor().spec(), input, &residual, "topk:ratio=0.4", {step, executor});
    });
    packet->insert(packet->end(), frame.begin(), frame.end());
    const std::vector<float> decoded = ToTable(MustDecodeRows(frame, input.table()), input.table());
    ExpectConserved(compensated, decoded, residual);
    return decoded;
  }

  Packets EncodeStep(int num_ranks, uint64_t step) {
    Packets packets;
    for (int rank = 0; rank < num_ranks; ++rank) {
      packets.decoded.emplace_back();
      for (size_t tensor = 0; tensor < shapes_.size(); ++tensor) {
        packets.decoded[rank].push_back(EncodeTensor(rank, tensor, step, &packets.bytes));
      }
      if (takes_rows()) packets.decoded[rank].push_back(EncodeTable(rank, step, &packets.bytes));
    }
    return packets;
  }

  // Every rank sums the tensors; all expect what a loop over the ranks makes of what they sent.
  void ExpectSameSums(const Packets& packets, int num_ranks) const {
    const auto num_frames = static_cast<int64_t>(packets.decoded[0].size());
    const float scale = 1.0f / static_cast<float>(num_ranks);
    const PacketsView view = {packets.bytes, num_ranks, num_frames};
    std::vector<int64_t> positions;
    for (size_t tensor = 0; tensor < shapes_.size(); ++tensor) positions.push_back(tensor);
    for (int rank = 0; rank < num_ranks; ++rank) {
      SCOPED_TRACE("decoded by rank " + std::to_string(rank));
      std::vector<std::vector<unsigned char>> sums;
      std::vector<SumTarget> targets;
      for (const auto& [n, dtype] : shapes_) sums.emplace_back(n * DTypeBytes(dtype), 0xAB);
      for (size_t tensor = 0; tensor < shapes_.size(); ++tensor) {
        targets.push_back({sums[tensor].data(), shapes_[tensor].dtype, shapes_[tensor].n});
      }
      SparseRows rows;
      RunAsRank(rank, [&](Executor* executor) {
        const Status status = DecodeSum(view, positions, scale, targets, executor, {});
        ASSERT_TRUE(status.ok()) << status.message();
        if (!takes_rows()) return;
        const Status rows_status =
            DecodeRowsSum(view, num_frames - 1, {kNumRows, kWidth, DType::kFloat32}, scale,
                          executor, &rows, nullptr);
        ASSERT_TRUE(rows_status.ok()) << rows_status.message();
      });
      for (size_t tensor = 0; tensor < shapes_.size(); ++tensor) {
        const auto [n, dtype] = shapes_[tensor];
        std::vector<unsigned char> expected(sums[tensor].size());
        NarrowFromFloat(SumOverRanks(packets, tensor, scale), dtype, SerialExecutor(),
                        expected.data());
        EXPECT_TRUE(SameBits(sums[tensor].data(), expected.data(), expected.size()))
            << "tensor " << tensor << " of " << n << " elements of " << DTypeName(dtype);
      }
      if (!takes_rows()) continue;
      const std::vector<float> expected = SumOverRanks(packets, shapes_.size(), scale);
      const std::vector<float> table = ToTable(rows, {kNumRows, kWidth, DType::kFloat32});
      EXPECT_TRUE(SameBits(table.data(), expected.data(), 4 * expected.size())) << "rows";
    }
  }

 private:
  static uint64_t SeedOf(int rank, size_t tensor, uint64_t step) {
    return 10000 * step + 100 * tensor + static_cast<uint64_t>(rank);
  }

  static void ExpectConserved(const std::vector<float>& compensated,
                              const std::vector<float>& decoded,
                              const std::vector<float>& residual) {
    for (size_t i = 0; i < residual.size(); ++i)
      ASSERT_EQ(residual[i], compensated[i] - decoded[i]) << "element " << i;
  }

  static std::vector<float> SumOverRanks(const Packets& packets, size_t tensor, float scale) {
    std::vector<float> sum(packets.decoded[0][tensor].size());
    for (const auto& of_rank : packets.decoded) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += scale * of_rank[tensor][i];
    }
    return sum;
  }

  std::shared_ptr<const Compressor> compressor_ = Compressor::FromSpec(GetParam()).value();
  std::vector<TensorShape> shapes_;
  std::vector<std::vector<Slots>> slots_;  // By rank and tensor.
  std::vector<std::vector<float>> residuals_;
};

TEST_P(ReplicasTest, DecodeTheSameBitsAndLoseNothing) {
  for (int num_ranks = 2; num_ranks <= kMaxRanks; ++num_ranks) {
    SCOPED_TRACE(std::to_string(num_ranks) + " ranks");
    Start(num_ranks);
    for (uint64_t step = 0; step < kNumSteps; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      ExpectSameSums(EncodeStep(num_ranks, step), num_ranks);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, ReplicasTest, testing::ValuesIn(Presets()),
                         [](const auto& info) { return TestName(info.param); });

// The ranks of a linear codec: an all-reduce sums payloads, each rank recovers.
class LinearReplicasTest : public testing::TestWithParam<std::string> {
 protected:
  const Memory& memory() const { return compressor_->memory(); }
  const LinearCodec& codec() const { return compressor_->codec(); }

  // One step of all ranks for one tensor of their vectors.
  void Step(const std::vector<std::vector<float>>& gradients, uint64_t step,
            std::vector<Slots>* slots) const {
    const auto num_ranks = static_cast<int>(gradients.size());
    const auto n = static_cast<int64_t>(gradients[0].size());
    std::vector<std::vector<float>> compensated;
    std::vector<float> summed(codec().PayloadSize(n));
    for (int rank = 0; rank < num_ranks; ++rank) {
      std::vector<float> payload(summed.size());
      Slots& own = (*slots)[rank];
      compensated.push_back(Compensated(memory(), own, gradients[rank]));
      RunAsRank(rank, [&](Executor* executor) {
        const std::vector<float*> pointers = PointersTo(&own);
        const std::vector<const float*> before(pointers.begin(), pointers.end());
        bool finite = true;
        const CodecContext context = {step, executor};
        const auto dense =
            memory().Compensate(gradients[rank], {before, pointers}, context, &finite);
        const Status status = codec().Encode(dense, context, Span<float>(payload));
        ASSERT_TRUE(status.ok()) << status.message();
      });
      for (size_t i = 0; i < summed.size(); ++i) summed[i] += payload[i];
    }

    std::vector<uint32_t> first_kept;
    std::vector<float> first_values;
    for (int rank = 0; rank < num_ranks; ++rank) {
      SCOPED_TRACE("recovered by rank " + std::to_string(rank));
      SparseTensor sent;
      sent.n = static_cast<uint32_t>(n);
      std::vector<float> values;
      RunAsRank(rank, [&](Executor* executor) {
        Recover(summed, compensated, step, executor, &sent.indices, &values);
        for (uint32_t i : sent.indices) sent.values.push_back(compensated[rank][i]);
        const std::vector<float*> pointers = PointersTo(&(*slots)[rank]);
        const std::vector<const float*> before(pointers.begin(), pointers.end());
        memory().Update(sent.support(), sent.values, {before, pointers}, {step, executor});
      });
      if (rank == 0) {
        first_kept = sent.indices;
        first_values = values;
      }
      EXPECT_EQ(sent.indices, first_kept);
      ASSERT_EQ(values.size(), first_values.size());
      EXPECT_TRUE(SameBits(values.data(), first_values.data(), 4 * values.size()));

      std::vector<float> left = compensated[rank];
      for (uint32_t i : sent.indices) left[i] = 0;
      const std::vector<float>& residual = (*slots)[rank][0];
      EXPECT_TRUE(SameBits(residual.data(), left.data(), 4 * left.size()))
          << "what is left is not what was not sent";
    }
  }

 private:
  // What is applied of the sum: after a second round of exact sums where there is one.
  void Recover(const std::vector<float>& summed, const std::vector<std::vector<float>>& compensated,
               uint64_t step, Executor* executor, std::vector<uint32_t>* kept,
               std::vector<float>* values) const {
    const auto n = static_cast<int64_t>(compensated[0].size());
    const Status status = codec().Recover(summed, n, {step, executor}, kept, values);
    ASSERT_TRUE(status.ok()) << status.message();
    ExpectSubset(*kept, static_cast<uint32_t>(n), static_cast<uint32_t>(codec().NumCandidates(n)));
    if (codec().exact()) return;
    std::vector<float> sums(kept->size());
    for (const std::vector<float>& of_rank : compensated) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[(*kept)[i]];
    }
    std::vector<uint32_t> positions;
    SelectLargest(sums, codec().NumKept(n), executor, &positions);
    values->clear();
    for (uint32_t& position : positions) {
      values->push_back(sums[position]);
      position = (*kept)[position];
    }
    *kept = positions;
  }

  std::shared_ptr<const LinearCompressor> compressor_ =
      LinearCompressor::FromSpec(GetParam()).value();
};

TEST_P(LinearReplicasTest, RecoverTheSameBitsAndLoseNothing) {
  for (int num_ranks = 2; num_ranks <= kMaxRanks; ++num_ranks) {
    SCOPED_TRACE(std::to_string(num_ranks) + " ranks");
    // A payload of five million floats takes its time whatever the vector's size.
    if (codec().PayloadSize(1) > 1000000 && num_ranks > 2) break;
    for (size_t n : {size_t{1}, size_t{1000}, size_t{kBlockElements} + 4001}) {
      if (n > 1000 && num_ranks > 3) continue;
      SCOPED_TRACE(std::to_string(n) + " elements");
      std::vector<Slots> slots(num_ranks, Slots(memory().num_slots(), std::vector<float>(n)));
      for (uint64_t step = 0; step < kNumSteps; ++step) {
        std::vector<std::vector<float>> gradients;
        for (int rank = 0; rank < num_ranks; ++rank)
          gradients.push_back(Gradient(n, 100 * step + static_cast<uint64_t>(rank)));
        Step(gradients, step, &slots);
        if (HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, LinearReplicasTest, testing::ValuesIn(LinearPresets()),
                         [](const auto& info) { return TestName(info.param); });

}  // namespace
}  // namespace tfcompress
