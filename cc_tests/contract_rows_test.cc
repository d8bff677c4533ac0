// The contract of every codec of the registry for sparse rows of a table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/pipeline.h"
#include "fuzz/frame_fields.h"
#include "rows_inputs.h"

namespace tfcompress {
namespace {

struct RowsCase {
  std::string spec;
  bool exact_rows;                          // Exactly the chosen rows are sent.
  std::shared_ptr<const ValueCodec> value;  // Null for joint codecs.
};

void PrintTo(const RowsCase& rows, std::ostream* out) { *out << rows.spec; }

std::vector<RowsCase> RowsCases() {
  std::vector<RowsCase> cases;
  const std::shared_ptr<const ValueCodec> raw =
      FindByName<ValueCodec>("raw")->definition.make(Params());
  for (const auto& index : AllSettings<IndexCodec>()) {
    cases.push_back({"topk|" + index.part + "|raw", IsExact(*index.codec), raw});
    // Both parts lossy: values sent for rows that were not touched must be conserved, too.
    if (!IsExact(*index.codec)) {
      cases.push_back({"topk|" + index.part + "|sign", false,
                       FindByName<ValueCodec>("sign")->definition.make(Params())});
    }
  }
  for (const auto& value : AllSettings<ValueCodec>()) {
    if (value.part == "raw") continue;  // Stands beside each index codec.
    // One that filters leaves rows out.
    cases.push_back({"topk|delta_binary|" + value.part, !Narrows(*value.codec), value.codec});
  }
  for (const auto& joint : AllSettings<SparseCodec>()) {
    if (joint.codec->takes_rows()) cases.push_back({"dense|" + joint.part, false, nullptr});
  }
  return cases;
}

class RowsContract : public testing::TestWithParam<RowsCase> {
 protected:
  const std::string& spec() const { return GetParam().spec; }
};

TEST_P(RowsContract, DecodesTheChosenRowsWithinTheErrorOfTheValueCodec) {
  if (GetParam().value == nullptr || !GetParam().exact_rows) return;
  for (uint64_t width : {1, 3, 16}) {
    SCOPED_TRACE(width);
    const RowsInput input = RandomRows(3000, width, 150, width);
    const Bytes exact = MustEncodeRows("dense|raw|raw", input, nullptr, "topk:ratio=0.5");
    const Bytes frame = MustEncodeRows(spec(), input, nullptr, "topk:ratio=0.5");
    const SparseRows given = MustDecodeRows(exact, input.table());
    const SparseRows decoded = MustDecodeRows(frame, input.table());
    ASSERT_EQ(decoded.ids, given.ids);
    ASSERT_EQ(decoded.values.size(), given.values.size());
    std::vector<double> max_errors(given.values.size());
    GetParam().value->MaxErrors(given.values, Span<double>(max_errors));
    for (size_t i = 0; i < given.values.size(); ++i) {
      ASSERT_LE(std::fabs(static_cast<double>(decoded.values[i]) - given.values[i]), max_errors[i])
          << "value " << i;
    }
  }
}

TEST_P(RowsContract, ConservesWhatItDrops) {
  for (uint64_t width : {1, 3, 16}) {
    SCOPED_TRACE(width);
    std::vector<float> residual(700 * width);
    for (uint64_t step = 0; step < 4; ++step) {
      const RowsInput input = RandomRows(700, width, 100, 10 * width + step);
      std::vector<float> compensated = MergedTable(input);
      for (size_t i = 0; i < residual.size(); ++i) compensated[i] += residual[i];
      const Bytes frame = MustEncodeRows(spec(), input, &residual, "topk:ratio=0.4", {step});
      const std::vector<float> decoded =
          ToTable(MustDecodeRows(frame, input.table()), input.table());
      for (size_t i = 0; i < residual.size(); ++i) {
        ASSERT_EQ(residual[i], compensated[i] - decoded[i]) << "element " << i;
      }
    }
  }
}

TEST_P(RowsContract, DoesNotDependOnTheExecutor) {
  ThreadExecutor threads(3);
  const RowsInput input = RandomRows(100000, 3, 60000, 1);
  std::vector<float> serial(300000), parallel(300000);
  const Bytes frame = MustEncodeRows(spec(), input, &serial, "nonzero", {1});
  ASSERT_EQ(MustEncodeRows(spec(), input, &parallel, "nonzero", {1, &threads}), frame);
  EXPECT_TRUE(SameBits(serial, parallel));
  const SparseRows expected = MustDecodeRows(frame, input.table());
  SparseRows decoded;
  ASSERT_TRUE(DecodeRows(frame, input.table(), &decoded, &threads).ok());
  EXPECT_EQ(decoded.ids, expected.ids);
  EXPECT_EQ(decoded.values, expected.values);
}

TEST_P(RowsContract, AnyPrefixOrFlippedBitIsDataLoss) {
  const RowsInput input = RandomRows(90, 3, 12, 5);
  const Bytes frame = MustEncodeRows(spec(), input);
  const auto expect_data_loss = [&](const Bytes& bytes) {
    SparseRows rows;
    ASSERT_EQ(DecodeRows(bytes, input.table(), &rows).code(), StatusCode::kDataLoss);
  };
  ForEachPrefix(frame, expect_data_loss);
  ForEachBitFlip(frame, [&](const Bytes& bytes, size_t) { expect_data_loss(bytes); });
}

// With a correct checksum: sections that are cut short, or have a changed bit.
TEST_P(RowsContract, ChangedSectionsAreAnErrorOrInRange) {
  using namespace frame_fields;
  const RowsInput input = RandomRows(90, 3, 12, 5);
  const Bytes frame = MustEncodeRows(spec(), input);
  for (size_t size = kHeaderBytes; size < frame.size(); ++size) {
    Bytes cut(frame.begin(), frame.begin() + size);
    const auto num_index_bytes = std::min<uint32_t>(GetField<uint32_t>(frame, kNumIndexBytes),
                                                    static_cast<uint32_t>(size - kHeaderBytes));
    SetField(kNumBytes, static_cast<uint32_t>(size), &cut);
    SetField(kNumIndexBytes, num_index_bytes, &cut);
    SetField(kNumValueBytes, static_cast<uint32_t>(size - kHeaderBytes) - num_index_bytes, &cut);
    RepairChecksum(&cut);
    SparseRows rows;
    EXPECT_EQ(DecodeRows(cut, input.table(), &rows).code(), StatusCode::kDataLoss) << size;
  }
  ForEachBitFlip(frame, [&](const Bytes& flipped, size_t bit) {
    SCOPED_TRACE(bit);
    Bytes repaired = flipped;
    RepairChecksum(&repaired);
    SparseRows rows;
    const Status status = DecodeRows(repaired, input.table(), &rows);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.message();
      return;
    }
    EXPECT_TRUE(CheckIndices(rows.ids, 90).ok());
    EXPECT_EQ(rows.values.size(), 3 * rows.ids.size());
    // A frame without rows, where the filter left none, may become one that is not finite.
    if (flipped[kFlags] == 0) ExpectFinite(rows.values);
  });
}

INSTANTIATE_TEST_SUITE_P(Registry, RowsContract, testing::ValuesIn(RowsCases()),
                         [](const auto& info) { return TestName(info.param.spec); });

}  // namespace
}  // namespace tfcompress
