// The device fits the core's curves, and decodes their values, to the last bit.
#include "cuda/dexp_curves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "device_inputs.h"
#include "device_memory.h"
#include "make_part.h"
#include "round_trip.h"

namespace tfcompress {
namespace device {
namespace {

// Serializes the curves as the core's section begins.
Bytes Serialize(const std::vector<CurvePart>& parts) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  for (const CurvePart& part : parts) {
    writer.Write(part.count);
    if (part.count == 0) continue;
    writer.Write(part.curve);
    writer.Write(part.range);
  }
  return bytes;
}

// Room for more values than there are.
constexpr uint32_t kSpare = 37;

struct Evaluated {
  std::vector<CurvePart> parts;
  std::vector<float> values;  // Value of each rank.
  std::vector<uint32_t> ranks;
};

Evaluated FitOnDevice(const std::vector<float>& values, const Stream& stream) {
  const auto count = static_cast<uint32_t>(values.size());
  const uint32_t max_count = count + kSpare;
  const DeviceVector<float> values_dev(values, stream), table_dev(max_count);
  const DeviceVector<uint32_t> count_dev({count}, stream);
  const DeviceVector<CurvePart> parts_dev(2);
  SortedBuffers sorted;
  CurveBuffers curves;
  Workspace measure;
  ExpectOk(TakeSortedBuffers(max_count, &measure, &sorted));
  TakeCurveBuffers(max_count, &measure, &curves);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeSortedBuffers(max_count, &carve, &sorted));
  TakeCurveBuffers(max_count, &carve, &curves);
  const SelectedValues selected = {{values_dev.data_dev(), DType::kFloat32, count}, nullptr};
  ExpectOk(SortValues(selected, count_dev.data_dev(), sorted, stream.get()));
  ExpectOk(FitCurves(sorted, count_dev.data_dev(), curves, parts_dev.data_dev(), stream.get()));
  ExpectOk(
      EvaluateCurves(parts_dev.data_dev(), max_count, nullptr, table_dev.data_dev(), stream.get()));
  return {parts_dev.ToHost(stream), Read(table_dev.data_dev(), count, stream),
          Read(sorted.ranks_dev(), count, stream)};
}

void ExpectSameCurves(const std::vector<float>& values, const Stream& stream) {
  const auto codec = MakePart<ValueCodec>("dexp");
  const Bytes section = MustEncode(*codec, values);
  const std::vector<float> expected = MustDecode(*codec, section, values.size());
  const Evaluated actual = FitOnDevice(values, stream);
  const Bytes begin = Serialize(actual.parts);
  ASSERT_LE(begin.size(), section.size());
  ASSERT_EQ(std::memcmp(begin.data(), section.data(), begin.size()), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_LT(actual.ranks[i], values.size());
    ASSERT_EQ(FloatBits(actual.values[actual.ranks[i]]), FloatBits(expected[i])) << i;
  }
}

// Sizes around the ends of cells and strides.
TEST(DexpCurves, FitsEveryInput) {
  const Stream stream;
  uint64_t seed = 1;
  for (const Input& input : Inputs()) {
    for (size_t n : {1, 2, 3, 63, 65, 129, 2000}) {
      SCOPED_TRACE(testing::Message() << input.name << ", " << n << " values");
      ASSERT_NO_FATAL_FAILURE(ExpectSameCurves(input.make(n, ++seed), stream));
    }
  }
}

// Cells of several parts, in one sign or in both.
TEST(DexpCurves, FitsManyValues) {
  const Stream stream;
  for (const float bias : {-100.0f, 0.3f, 100.0f}) {
    std::vector<float> values = NormalValues(150000, 1);
    for (float& value : values) value = value * value * value * value * value + bias;
    ASSERT_NO_FATAL_FAILURE(ExpectSameCurves(values, stream));
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
