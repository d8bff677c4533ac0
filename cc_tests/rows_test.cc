// Rows of a table beyond what the contract suite asks of each codec.
#include "core/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/merge_rows.h"
#include "core/pipeline.h"
#include "fuzz/frame_fields.h"
#include "rows_inputs.h"

namespace tfcompress {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SparseRows Merge(const std::vector<uint32_t>& ids, const std::vector<float>& values, uint64_t width,
                 float scale = 1.0f, Executor* executor = SerialExecutor()) {
  SparseRows merged;
  AddRows(ids, values, width, /*num_rows=*/1000, scale, executor, &merged);
  return merged;
}

TEST(AddRows, SumsTheSlicesOfARow) {
  const SparseRows merged = Merge({7, 2, 7, 999}, {1, 2, 3, 4, 10, 20, 5, 6}, 2);
  EXPECT_EQ(merged.ids, (std::vector<uint32_t>{2, 7, 999}));
  EXPECT_EQ(merged.values, (std::vector<float>{3, 4, 11, 22, 5, 6}));
}

TEST(AddRows, SumsInTheOrderOfAppearance) {
  EXPECT_EQ(Merge({5, 5, 5}, {1e8f, 1, -1e8f}, 1).values, std::vector<float>{0});
  EXPECT_EQ(Merge({5, 5, 5}, {1e8f, -1e8f, 1}, 1).values, std::vector<float>{1});
}

TEST(AddRows, ScalesEachSliceAndStartsFromZero) {
  const SparseRows merged = Merge({0, 0, 1}, {1, 3, -0.0f}, 1, 0.5f);
  EXPECT_TRUE(SameBits(merged.values, {2.0f, 0.0f}));
}

TEST(AddRows, TakesNothing) {
  EXPECT_TRUE(Merge({}, {}, 3).ids.empty());
  EXPECT_TRUE(Merge({}, {}, 3).values.empty());
}

TEST(AddRows, DoesNotDependOnTheExecutor) {
  ThreadExecutor threads(3);
  for (uint64_t width : {1, 3, 16}) {
    const RowsInput input = RandomRows(1000, width, 2 * kBlockElements / width + 5, width);
    const std::vector<uint32_t> ids(input.ids.begin(), input.ids.end());
    const SparseRows serial = Merge(ids, input.values, width);
    const SparseRows parallel = Merge(ids, input.values, width, 1.0f, &threads);
    EXPECT_EQ(parallel.ids, serial.ids);
    EXPECT_TRUE(SameBits(parallel.values, serial.values));
    EXPECT_TRUE(SameBits(ToTable(serial, input.table()), MergedTable(input)));
  }
}

// Rank after rank: the bits of all rows together.
TEST(AddRows, InPartsGivesTheBitsOfAll) {
  ThreadExecutor threads(3);
  for (uint64_t width : {1, 3, 16}) {
    std::vector<uint32_t> all_ids;
    std::vector<float> all_values;
    SparseRows sum, parallel;
    for (uint64_t rank = 0; rank < 5; ++rank) {
      const RowsInput input = RandomRows(1000, width, rank == 2 ? 0 : 300 * rank + 1, 10 + rank);
      const std::vector<uint32_t> ids(input.ids.begin(), input.ids.end());
      AddRows(ids, input.values, width, 1000, 0.3f, SerialExecutor(), &sum);
      AddRows(ids, input.values, width, 1000, 0.3f, &threads, &parallel);
      all_ids.insert(all_ids.end(), ids.begin(), ids.end());
      all_values.insert(all_values.end(), input.values.begin(), input.values.end());
    }
    const SparseRows expected = Merge(all_ids, all_values, width, 0.3f);
    EXPECT_EQ(sum.ids, expected.ids);
    EXPECT_TRUE(SameBits(sum.values, expected.values));
    EXPECT_EQ(parallel.ids, expected.ids);
    EXPECT_TRUE(SameBits(parallel.values, expected.values));
  }
}

// FastSGD 3.2, phase 3: what the filter drops of a dense gradient it drops of rows.
TEST(EncodeRows, TheValueCodecFiltersRowsAsItFiltersElements) {
  RowsInput input = {1000, 1, {}, {}};
  std::vector<float> dense(1000);
  for (uint32_t row = 0; row < 1000; row += 2) {
    const float value = row % 100 == 0 ? 1.0f : 1e-6f;
    input.ids.push_back(row);
    input.values.push_back(value);
    dense[row] = value;
  }
  const std::string spec = "nonzero|raw|log:base=2,tau=10";
  const SparseRows rows = MustDecodeRows(MustEncodeRows(spec, input), input.table());
  const auto compressor = Compressor::FromSpec(spec).value();
  Bytes frame;
  ASSERT_TRUE(EncodeFrame(*compressor, {dense.data(), DType::kFloat32, 1000}, Span<float* const>(),
                          {1}, &frame)
                  .ok());
  SparseTensor elements;
  ByteReader reader(frame);
  Frame parsed;
  ASSERT_TRUE(ReadFrame(&reader, &parsed).ok());
  ASSERT_TRUE(DecodeFrame(parsed, SerialExecutor(), &elements).ok());
  EXPECT_EQ(rows.ids.size(), 10u);
  EXPECT_EQ(rows.ids, elements.indices);
  EXPECT_EQ(rows.values, elements.values);
}

TEST(EncodeRows, ARowGoesIfAllOfItIsFiltered) {
  const RowsInput input = {50, 2, {4, 9, 30}, {1e-6f, 1e-6f, 1e-6f, 1, -1, 1e-6f}};
  std::vector<float> residual(100);
  const SparseRows rows = MustDecodeRows(
      MustEncodeRows("nonzero|raw|log:base=2,tau=10", input, &residual), input.table());
  EXPECT_EQ(rows.ids, (std::vector<uint32_t>{9, 30}));
  EXPECT_EQ(residual[8], 1e-6f);  // Kept, where there is a residual.
}

TEST(EncodeRows, RoundTripsRowsOfEveryWidth) {
  for (uint64_t width : {1, 3, 16}) {
    const RowsInput input = RandomRows(5000, width, 200, width);
    const SparseRows decoded =
        MustDecodeRows(MustEncodeRows("dense|raw|raw", input), input.table());
    EXPECT_TRUE(SameBits(ToTable(decoded, input.table()), MergedTable(input)));
    EXPECT_TRUE(CheckIndices(decoded.ids, 5000).ok());
  }
}

// The worked example of FORMAT.md, "Rows".
TEST(EncodeRows, HasTheDocumentedLayout) {
  const RowsInput input = {10, 2, {8, 3}, {0.5f, 4, 1, -2}};
  const Bytes frame = MustEncodeRows("topk|raw|raw", input);
  const Bytes expected = {0x02, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x08, 0x00,
                          0x00, 0x00, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0,
                          0x00, 0x00, 0x00, 0x3f, 0x00, 0x00, 0x80, 0x40};
  EXPECT_EQ(Bytes(frame.begin() + kFrameHeaderBytes, frame.end()), expected);
  EXPECT_EQ(frame[frame_fields::kSupport], 4);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kN), 10u);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kK), 2u);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kNumIndexBytes), 12u);
}

TEST(EncodeRows, TakesIdsOfBothTypes) {
  const RowsInput input = RandomRows(300, 2, 50, 1);
  const std::vector<int32_t> narrow(input.ids.begin(), input.ids.end());
  RowsView view = input.view();
  view.ids = narrow.data();
  view.id_type = IdType::kInt32;
  Bytes frame;
  ASSERT_TRUE(EncodeRows("dense|raw|raw", "dense", view, nullptr, {1}, &frame).ok());
  EXPECT_EQ(frame, MustEncodeRows("dense|raw|raw", input));
}

TEST(EncodeRows, SumsHalvesAsFloats) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    RowsInput input = {9, 1, {4, 4, 4}, {}};
    std::vector<uint16_t> narrow(3);
    const std::vector<float> values = {256, 0.125f, 0.125f};  // 256.25 fits; 256.125 does not.
    NarrowFromFloat(values, dtype, SerialExecutor(), narrow.data());
    RowsView view = input.view();
    view.values = narrow.data();
    view.dtype = dtype;
    Bytes frame;
    ASSERT_TRUE(EncodeRows("dense|raw|raw", "dense", view, nullptr, {1}, &frame).ok());
    SparseRows decoded;
    ASSERT_TRUE(DecodeRows(frame, {9, 1, dtype}, &decoded).ok());
    EXPECT_EQ(decoded.values, std::vector<float>{256.25f});
  }
}

TEST(EncodeRows, RefusesRowsOutsideTheTable) {
  for (int64_t id : {int64_t{10}, int64_t{-1}, (int64_t{1} << 32) + 3}) {
    const RowsInput input = {10, 1, {3, id}, {1, 2}};
    std::vector<float> residual(10, 0.5f);
    Bytes frame = {42};
    ExpectError(EncodeRows("dense|raw|raw", "dense", input.view(), residual.data(), {}, &frame),
                StatusCode::kInvalidArgument,
                "slice 1 belongs to row " + std::to_string(id) + ", outside [0, 10)");
    EXPECT_EQ(frame, Bytes{42});
    EXPECT_EQ(residual, std::vector<float>(10, 0.5f));
  }
}

TEST(EncodeRows, RefusesSizesAboveTheLimits) {
  Bytes frame;
  const auto encode = [&](uint64_t num_rows, uint64_t width, uint64_t num_slices) {
    const RowsView view = {nullptr,    DType::kFloat32, nullptr, IdType::kInt64,
                           num_slices, width,           num_rows};
    return EncodeRows("dense|raw|raw", "dense", view, nullptr, {}, &frame);
  };
  ExpectError(encode(10, 0, 0), StatusCode::kInvalidArgument, "at least one element");
  ExpectError(encode(kMaxElements + 1, 1, 0), StatusCode::kInvalidArgument, "rows are above");
  ExpectError(encode(10, kMaxElements + 1, 0), StatusCode::kInvalidArgument, "of a row are above");
  ExpectError(encode(10, 1, kMaxElements + 1), StatusCode::kInvalidArgument, "slices are above");
  EXPECT_TRUE(frame.empty());
  EXPECT_TRUE(encode(kMaxElements, kMaxElements, 0).ok());
}

// With a filter that lets every 64th row pass, the rows that it adds take it above the limit.
TEST(EncodeRows, RefusesMoreValuesThanAFrameCanHold) {
  const uint64_t width = 1 << 20;
  const RowsInput input = {1 << 18, width, {0}, std::vector<float>(width, 1.0f)};
  Bytes frame;
  ExpectError(
      EncodeRows("topk|bloom:policy=p0,fpr=0.999|raw", "dense", input.view(), nullptr, {}, &frame),
      StatusCode::kInvalidArgument, "are above the limit");
  EXPECT_TRUE(frame.empty());
}

TEST(EncodeRows, ChoosesRowsByTheirNorms) {
  const RowsInput input = {100, 2, {50, 7, 20, 7}, {3, 4, 1, 0, 0, 0, 1, 0}};  // Norms 5, 2 and 0.
  const auto ids = [&](const std::string& row_sparsifier) {
    const Bytes frame = MustEncodeRows("dense|raw|raw", input, nullptr, row_sparsifier);
    return MustDecodeRows(frame, input.table()).ids;
  };
  EXPECT_EQ(ids("dense"), (std::vector<uint32_t>{7, 20, 50}));
  EXPECT_EQ(ids("nonzero"), (std::vector<uint32_t>{7, 50}));
  EXPECT_EQ(ids("topk:ratio=0.3"), (std::vector<uint32_t>{50}));
  EXPECT_EQ(ids("threshold:tau=2"), (std::vector<uint32_t>{7, 50}));
  EXPECT_EQ(ids("threshold:tau=5"), (std::vector<uint32_t>{50}));
  EXPECT_EQ(ids("threshold:tau=5.001"), (std::vector<uint32_t>{}));
  EXPECT_EQ(ids("randomk:ratio=0.7").size(), 2u);
}

TEST(EncodeRows, NormsOfTheLargestValuesAreFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const RowsInput input = {9, 2, {1, 2}, {kLargest, kLargest, 1, 1}};
  const Bytes frame = MustEncodeRows("dense|raw|raw", input, nullptr, "topk:ratio=0.5");
  EXPECT_EQ(MustDecodeRows(frame, input.table()).ids, std::vector<uint32_t>{1});
}

TEST(EncodeRows, SpecsWithoutIndicesCodeRowIdsByDeltaBinary) {
  const RowsInput input = RandomRows(1000, 2, 30, 2);
  const Bytes expected = MustEncodeRows("topk|delta_binary|raw", input);
  EXPECT_EQ(MustEncodeRows("dense|raw|raw", input), expected);
  EXPECT_EQ(MustEncodeRows("randomk|raw|raw", input), expected);
  EXPECT_EQ(expected[frame_fields::kSupport], 4);
  EXPECT_EQ(expected[frame_fields::kIndexId], FindByName<IndexCodec>("delta_binary")->id);
  EXPECT_EQ(GetField<uint32_t>(expected, frame_fields::kN), 1000u);
  EXPECT_EQ(GetField<uint32_t>(expected, frame_fields::kHeaderBytes), 2u);
}

TEST(EncodeRows, AnEmptyGradientIsAFrameWithoutSections) {
  for (const char* spec : {"dense|raw|raw", "topk|bloom|qsgd", "nonzero|sketchml"}) {
    const RowsInput input = {10, 4, {}, {}};
    const Bytes frame = MustEncodeRows(spec, input);
    EXPECT_EQ(frame.size(), kFrameHeaderBytes);
    const SparseRows decoded = MustDecodeRows(frame, input.table());
    EXPECT_TRUE(decoded.ids.empty());
    EXPECT_TRUE(decoded.values.empty());
  }
}

TEST(EncodeRows, JointCodecsCodeTheElementsThatAreNotZero) {
  const RowsInput input = {50, 3, {40, 8}, {0, 1, 0, -2, 0, 4}};
  const Bytes frame = MustEncodeRows("dense|sketchml:columns=1", input);
  EXPECT_EQ(frame[frame_fields::kSupport], 2);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kN), 150u);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kK), 3u);
  const SparseRows decoded = MustDecodeRows(frame, input.table());
  EXPECT_EQ(decoded.ids, (std::vector<uint32_t>{8, 40}));
  for (size_t i : {1, 3, 5}) EXPECT_EQ(decoded.values[i], 0);
  EXPECT_EQ(decoded.values[0], -2);
}

// A joint frame of rows is that of the whole table as a dense tensor.
TEST(EncodeRows, JointFramesAreThoseOfTheDenseTable) {
  const RowsInput input = RandomRows(400, 5, 60, 3);
  const std::vector<float> table = MergedTable(input);
  for (const auto& joint : AllSettings<SparseCodec>()) {
    if (!joint.codec->takes_rows()) continue;
    SCOPED_TRACE(joint.part);
    const auto compressor = Compressor::FromSpec("nonzero|" + joint.part);
    Bytes dense;
    ASSERT_TRUE(EncodeFrame(*compressor.value(), {table.data(), DType::kFloat32, table.size()},
                            MemorySlots{}, {1}, &dense)
                    .ok());
    EXPECT_EQ(MustEncodeRows("dense|" + joint.part, input), dense);
  }
}

TEST(EncodeRows, RefusesJointCodecsThatCannotTakeRows) {
  Bytes frame;
  const RowsInput input = {10, 1, {3}, {1}};
  ExpectError(EncodeRows("dense|threelc", "dense", input.view(), nullptr, {}, &frame),
              StatusCode::kInvalidArgument, "sparse_as_dense=True");
  const RowsInput large = {1 << 28, 8, {3}, std::vector<float>(8)};
  ExpectError(EncodeRows("dense|sketchml", "dense", large.view(), nullptr, {}, &frame),
              StatusCode::kInvalidArgument, "more than its limit");
  EXPECT_TRUE(frame.empty());
}

TEST(EncodeRows, LeavesUntouchedRowsOfTheResidualAlone) {
  const RowsInput input = {4, 2, {2}, {1, 1}};
  std::vector<float> residual = {1, 2, 3, 4, 5, 6, 7, 8};
  const Bytes frame = MustEncodeRows("dense|raw|raw", input, &residual);
  EXPECT_EQ(MustDecodeRows(frame, input.table()).values, (std::vector<float>{6, 7}));
  EXPECT_EQ(residual, (std::vector<float>{1, 2, 3, 4, 0, 0, 7, 8}));
}

TEST(EncodeRows, ANonFiniteRowLeavesTheResidualAlone) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (float bad : {kNaN, -kInfinity, kLargest}) {  // The largest one overflows the residual.
    for (const char* spec : {"dense|raw|raw", "dense|sketchml"}) {
      const RowsInput input = {4, 2, {2, 1}, {1, 1, 0, bad}};
      const std::vector<float> before(8, kLargest);
      std::vector<float> residual = before;
      const Bytes frame = MustEncodeRows(spec, input, &residual);
      EXPECT_EQ(frame.size(), kFrameHeaderBytes);
      EXPECT_EQ(frame[frame_fields::kFlags], 1);
      EXPECT_EQ(residual, before);
      const SparseRows decoded = MustDecodeRows(frame, input.table());
      EXPECT_EQ(decoded.ids, std::vector<uint32_t>{0});
      ASSERT_EQ(decoded.values.size(), 2u);
      for (float value : decoded.values) EXPECT_TRUE(std::isnan(value));
    }
  }
}

// The frame of each owner.
std::vector<Bytes> EncodeForOwners(const std::string& spec, const std::string& row_sparsifier,
                                   const RowsInput& input, size_t num_owners,
                                   std::vector<float>* residual, int64_t* num_sent) {
  const auto compressor = Compressor::FromSpec(spec);
  const auto part = ParsePart<Sparsifier>("row sparsifier", row_sparsifier);
  std::vector<int64_t> num_bytes(num_owners);
  RowCounts counts{Span<int64_t>(num_bytes)};
  Bytes frames;
  const Status status = EncodeRowsFrames(*compressor.value(), *part.value().object, input.view(),
                                         residual->data(), {1}, &frames, &counts);
  EXPECT_TRUE(status.ok()) << status.message();
  *num_sent = counts.num_sent;
  std::vector<Bytes> of_owners;
  auto begin = frames.begin();
  for (int64_t size : num_bytes) {
    of_owners.emplace_back(begin, begin + size);
    begin += size;
  }
  EXPECT_EQ(begin, frames.end());
  return of_owners;
}

TEST(EncodeRows, OwnersGetTheirRowsOfThoseChosenAmongAll) {
  constexpr uint32_t kOwners = 3;
  const RowsInput input = RandomRows(100, 3, 60, 5);
  std::vector<float> residual(300), alone(300);
  int64_t num_sent = 0;
  const std::vector<Bytes> frames =
      EncodeForOwners("dense|raw|raw", "topk:ratio=0.5", input, kOwners, &residual, &num_sent);
  const SparseRows expected = MustDecodeRows(
      MustEncodeRows("dense|raw|raw", input, &alone, "topk:ratio=0.5"), input.table());
  std::vector<float> sum(300);
  for (uint32_t owner = 0; owner < kOwners; ++owner) {
    const SparseRows rows = MustDecodeRows(frames[owner], input.table());
    EXPECT_FALSE(rows.ids.empty());
    for (uint32_t id : rows.ids) EXPECT_EQ(id % kOwners, owner);
    const std::vector<float> table = ToTable(rows, input.table());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += table[i];
  }
  EXPECT_EQ(sum, ToTable(expected, input.table()));
  EXPECT_EQ(num_sent, static_cast<int64_t>(expected.values.size()));
  EXPECT_EQ(residual, alone);
}

TEST(EncodeRows, NothingIsLostBetweenOwners) {
  const RowsInput input = RandomRows(200, 4, 150, 6);
  const std::vector<float> merged = MergedTable(input);
  for (const char* spec : {"dense|raw|uniform", "nonzero|sketchml", "nonzero|bloom:fpr=0.3|qsgd"}) {
    SCOPED_TRACE(spec);
    const std::vector<float> before = Gradient(merged.size(), 8);
    std::vector<float> after = before, decoded(merged.size());
    int64_t num_sent = 0;
    for (const Bytes& frame : EncodeForOwners(spec, "dense", input, 4, &after, &num_sent)) {
      const std::vector<float> table = ToTable(MustDecodeRows(frame, input.table()), input.table());
      for (size_t i = 0; i < table.size(); ++i) decoded[i] += table[i];
    }
    EXPECT_GT(num_sent, 0);
    for (size_t i = 0; i < merged.size(); ++i) {
      const float tolerance = 1e-5f * (std::fabs(merged[i]) + std::fabs(decoded[i]) + 1);
      ASSERT_NEAR(merged[i] + before[i], decoded[i] + after[i], tolerance) << i;
    }
  }
}

TEST(EncodeRows, ANonFiniteRowIsToldToAllOwners) {
  const RowsInput input = {4, 2, {2, 1}, {1, 1, 0, kNaN}};
  std::vector<float> residual(8, 1.0f);
  int64_t num_sent = 0;
  for (const Bytes& frame :
       EncodeForOwners("dense|raw|raw", "dense", input, 3, &residual, &num_sent)) {
    EXPECT_EQ(frame.size(), kFrameHeaderBytes);
    EXPECT_EQ(frame[frame_fields::kFlags], 1);
  }
  EXPECT_EQ(residual, std::vector<float>(8, 1.0f));
}

TEST(EncodeRows, RefusesToEncodeForNobody) {
  const RowsInput input = {4, 2, {2}, {1, 1}};
  const auto compressor = Compressor::FromSpec("dense|raw|raw");
  const auto part = ParsePart<Sparsifier>("row sparsifier", "dense");
  RowCounts counts{Span<int64_t>()};
  Bytes frames;
  ExpectError(EncodeRowsFrames(*compressor.value(), *part.value().object, input.view(), nullptr, {},
                               &frames, &counts),
              StatusCode::kInvalidArgument, "need an owner");
}

void Append(const Bytes& bytes, Bytes* packets) {
  packets->insert(packets->end(), bytes.begin(), bytes.end());
}

Bytes DenseFrame(const std::vector<float>& values) {
  Bytes frame;
  const auto compressor = Compressor::FromSpec("dense|raw|raw");
  EXPECT_TRUE(EncodeFrame(*compressor.value(), {values.data(), DType::kFloat32, values.size()},
                          MemorySlots{}, {}, &frame)
                  .ok());
  return frame;
}

// Three ranks, each with a dense tensor, a table's rows and another dense tensor.
constexpr int64_t kRanks = 3;
RowsInput OfRank(int64_t rank) { return RandomRows(100, 3, 20, 50 + rank); }
Bytes ThreePackets() {
  Bytes packets;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    Append(DenseFrame({1, 2}), &packets);
    Append(MustEncodeRows("dense|raw|raw", OfRank(rank)), &packets);
    Append(DenseFrame({static_cast<float>(rank), 4, 5}), &packets);
  }
  return packets;
}

TEST(DecodeRowsSum, SumsInRankOrder) {
  constexpr float kScale = 1.0f / kRanks;
  const Bytes packets = ThreePackets();
  const Table table = OfRank(0).table();
  std::vector<float> expected(300);
  std::vector<bool> is_sent(100);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    const RowsInput input = OfRank(rank);
    const std::vector<float> merged = MergedTable(input);
    for (size_t i = 0; i < merged.size(); ++i) expected[i] += kScale * merged[i];
    for (int64_t id : input.ids) is_sent[id] = true;
  }
  SparseRows sum;
  DecodeStats stats;
  const Status status =
      DecodeRowsSum({packets, kRanks, 3}, 1, table, kScale, SerialExecutor(), &sum, &stats);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(ToTable(sum, table), expected);
  EXPECT_EQ(sum.ids.size(), static_cast<size_t>(std::count(is_sent.begin(), is_sent.end(), true)));
  EXPECT_EQ(stats.num_bytes,
            static_cast<int64_t>(packets.size()) - kRanks * (2 * kFrameHeaderBytes + 5 * 4));
}

// As many frames as ranks of a large job have: bits do not depend on how their rows are added.
TEST(DecodeRowsSum, ManyRanksGiveTheBitsOfOneAfterTheOther) {
  constexpr int64_t kMany = 40;
  Bytes packets;
  std::vector<float> expected(300);
  for (int64_t rank = 0; rank < kMany; ++rank) {
    const RowsInput input = RandomRows(100, 3, rank % 7 * 5, 70 + rank);
    Append(MustEncodeRows("dense|raw|raw", input), &packets);
    const std::vector<float> merged = MergedTable(input);
    for (size_t i = 0; i < merged.size(); ++i) expected[i] += 0.3f * merged[i];
  }
  const Table table = {100, 3, DType::kFloat32};
  SparseRows sum;
  ASSERT_TRUE(
      DecodeRowsSum({packets, kMany, 1}, 0, table, 0.3f, SerialExecutor(), &sum, nullptr).ok());
  EXPECT_TRUE(SameBits(ToTable(sum, table), expected));
}

TEST(DecodeRowsSum, FailsWithTheErrorOfARank) {
  const RowsInput input = RandomRows(100, 3, 20, 1);
  Bytes packets = MustEncodeRows("dense|raw|raw", input);
  AppendError(DataLoss("rank 2, tensor 0: broken"), &packets);
  SparseRows sum;
  ExpectDataLoss(
      DecodeRowsSum({packets, 2, 1}, 0, input.table(), 1.0f, SerialExecutor(), &sum, nullptr),
      "rank 1 could not sum its shard: rank 2, tensor 0: broken");
}

TEST(DecodeSum, WalksOverTheFramesOfOthers) {
  const Bytes packets = ThreePackets();
  std::vector<float> sum(3);
  const std::vector<SumTarget> targets = {{sum.data(), DType::kFloat32, 3}};
  const auto decode = [&](std::vector<int64_t> positions, int64_t num_frames) {
    return DecodeSum(PacketsView{packets, kRanks, num_frames}, positions, 1.0f, targets,
                     SerialExecutor(), {});
  };
  ASSERT_TRUE(decode({2}, 3).ok());
  EXPECT_EQ(sum, (std::vector<float>{3, 12, 15}));
  ExpectDataLoss(decode({1}, 3), "rank 0, tensor 1: frame of 100 rows");
  ExpectDataLoss(decode({0}, 3), "rank 0, tensor 0: frame of 2 elements");
  ExpectDataLoss(decode({2}, 4), "rank 1, tensor 2: frame of");
  ExpectError(decode({3}, 3), StatusCode::kInvalidArgument, "positions must ascend in [0, 3)");
  ExpectError(decode({-1}, 3), StatusCode::kInvalidArgument, "positions must ascend");
  ExpectError(decode({0, 1}, 3), StatusCode::kInvalidArgument, "2 positions for 1 tensors");
}

TEST(DecodeRowsSum, ANonFiniteRankMakesEveryRowOfTheUnionNaN) {
  const RowsInput good = {10, 2, {7, 3}, {1, 2, 3, 4}};
  const RowsInput bad = {10, 2, {5}, {1, kInfinity}};
  Bytes packets = MustEncodeRows("dense|raw|raw", good);
  Append(MustEncodeRows("dense|raw|raw", bad), &packets);
  SparseRows sum;
  ASSERT_TRUE(
      DecodeRowsSum({packets, 2, 1}, 0, good.table(), 1.0f, SerialExecutor(), &sum, nullptr).ok());
  EXPECT_EQ(sum.ids, (std::vector<uint32_t>{3, 7}));
  ASSERT_EQ(sum.values.size(), 4u);
  for (float value : sum.values) EXPECT_TRUE(std::isnan(value));
}

TEST(DecodeRowsSum, RefusesFramesOfSomethingElse) {
  const RowsInput input = RandomRows(100, 3, 20, 1);
  const Bytes rows = MustEncodeRows("dense|raw|raw", input);
  const Bytes joint = MustEncodeRows("dense|sketchml", input);
  SparseRows sum;
  const auto expect = [&](const Bytes& frame, const Table& table, const std::string& message) {
    ExpectDataLoss(DecodeRows(frame, table, &sum), "rank 0, tensor 0: " + message);
  };
  expect(rows, {101, 3, DType::kFloat32}, "frame of a table of 100 rows, expected 101");
  expect(rows, {100, 4, DType::kFloat32}, "rows of 3 elements, expected 4");
  expect(rows, {100, 3, DType::kFloat16}, "frame of float32, expected float16");
  expect(joint, {100, 4, DType::kFloat32}, "frame of 300 elements, expected 100 rows of 4");
  expect(DenseFrame({1, 2, 3}), {1, 3, DType::kFloat32}, "a frame of a dense tensor");
  ExpectError(DecodeRows(rows, {100, 0, DType::kFloat32}, &sum), StatusCode::kInvalidArgument,
              "rows of 0");
  EXPECT_EQ(
      DecodeRowsSum({rows, 0, 1}, 0, input.table(), 1, SerialExecutor(), &sum, nullptr).code(),
      StatusCode::kInvalidArgument);
}

TEST(DecodeRowsSum, NamesTheRankAndThePositionOfABrokenFrame) {
  Bytes packets = ThreePackets();
  const size_t in_the_last_table = packets.size() - DenseFrame({1, 2, 3}).size() - 1;
  packets[in_the_last_table] ^= 1;
  SparseRows sum;
  const auto decode = [&](ByteSpan bytes) {
    return DecodeRowsSum({bytes, kRanks, 3}, 1, OfRank(0).table(), 1, SerialExecutor(), &sum,
                         nullptr);
  };
  ExpectDataLoss(decode(packets), "rank 2, tensor 1: checksum");
  packets[in_the_last_table] ^= 1;
  ASSERT_TRUE(decode(packets).ok());
  ForEachPrefix(packets, [&](const Bytes& prefix) {
    ASSERT_EQ(decode(prefix).code(), StatusCode::kDataLoss) << prefix.size();
  });
  packets.push_back(1);
  ExpectDataLoss(decode(packets), "packets: 1 bytes too many");
}

TEST(DecodeRowsSum, SkipsZerosAfterEachPacket) {
  const Bytes table = MustEncodeRows("dense|raw|raw", OfRank(0)), dense = DenseFrame({1, 2});
  const auto decode = [&](const Bytes& padding, SparseRows* sum) {
    Bytes packets;
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      for (const Bytes& part : {table, dense, padding}) Append(part, &packets);
    }
    DecodeStats stats;
    const Status status =
        DecodeRowsSum({packets, kRanks, 2}, 0, OfRank(0).table(), 1, SerialExecutor(), sum, &stats);
    EXPECT_EQ(stats.num_bytes, status.ok() ? static_cast<int64_t>(kRanks * table.size()) : 0);
    return status;
  };
  SparseRows expected, sum;
  ASSERT_TRUE(decode({}, &expected).ok());
  ASSERT_TRUE(decode(Bytes(100, 0), &sum).ok());
  EXPECT_EQ(sum.ids, expected.ids);
  EXPECT_EQ(sum.values, expected.values);
  ExpectDataLoss(decode({0, 1}, &sum), "rank 1, tensor 0: not a ");
}

TEST(DecodeRowsFrame, RefusesWidthsThatLie) {
  const RowsInput input = RandomRows(100, 3, 20, 1);
  for (uint32_t width : {0u, 2u, 4u, 0xFFFFFFFFu}) {
    Bytes frame = MustEncodeRows("dense|raw|raw", input);
    SetField<uint32_t>(frame_fields::kHeaderBytes, width, &frame);
    RepairChecksum(&frame);
    SparseRows rows;
    ExpectDataLoss(DecodeRows(frame, input.table(), &rows),
                   "rows of " + std::to_string(width) + " elements, expected 3");
    if (width == 0) continue;
    // What the receiver expects may be wrong too.
    EXPECT_EQ(DecodeRows(frame, {100, width, DType::kFloat32}, &rows).ok(), false);
  }
}

}  // namespace
}  // namespace tfcompress
