// The memory for a few rows of a huge table is proportional to the rows.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "fuzz/allocation_meter.h"
#include "rows_inputs.h"

namespace tfcompress {
namespace {

// 2^31 - 16 elements: 8 GiB as a dense tensor.
constexpr uint64_t kRows = (uint64_t{1} << 27) - 1;
constexpr uint64_t kWidth = 16;
constexpr size_t kSlices = 1000;

void ExpectCostOfRows(const std::string& spec) {
  SCOPED_TRACE(spec);
  const RowsInput input = RandomRows(kRows, kWidth, kSlices, 1);
  MustDecodeRows(MustEncodeRows(spec, input), input.table());  // Builds static tables first.
  const uint64_t before = AllocationMeter::Total();
  const Bytes frame = MustEncodeRows(spec, input, nullptr, "topk:ratio=0.5");
  const SparseRows decoded = MustDecodeRows(frame, input.table());
  const uint64_t num_bytes = AllocationMeter::Total() - before;
  EXPECT_GT(decoded.ids.size(), 300u);
  EXPECT_LT(num_bytes, 40 * 4 * kSlices * kWidth);  // All allocations together.
}

TEST(RowsMemory, IsOfTheOrderOfTheRows) {
  for (const auto& index : AllSettings<IndexCodec>()) {
    // Bitmaps and filters visit the whole universe.
    if (!IsExact(*index.codec) || index.codec->MaxEncodedBytes(kMaxElements, 1) > 1000) continue;
    ExpectCostOfRows("topk|" + index.part + "|raw");
  }
  for (const auto& row : Registry<ValueCodec>()) ExpectCostOfRows("dense|raw|" + row.name);
  for (const auto& joint : AllSettings<SparseCodec>()) {
    if (joint.is_default && joint.codec->takes_rows()) ExpectCostOfRows("dense|" + joint.part);
  }
}

TEST(RowsMemory, OfATableOfTenMillionRows) {
  const RowsInput input = RandomRows(10000000, kWidth, kSlices, 2);
  // The system allocates only pages that are written.
  const std::unique_ptr<float, void (*)(void*)> residual(
      static_cast<float*>(std::calloc(input.num_rows * kWidth, sizeof(float))), &std::free);
  const uint64_t before = AllocationMeter::Total();
  Bytes frame;
  ASSERT_TRUE(EncodeRows("dense|raw|raw", "dense", input.view(), residual.get(), {1}, &frame).ok());
  MustDecodeRows(frame, input.table());
  EXPECT_LT(AllocationMeter::Total() - before, 40 * 4 * kSlices * kWidth);
}

}  // namespace
}  // namespace tfcompress
