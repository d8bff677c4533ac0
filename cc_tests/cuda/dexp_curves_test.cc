// The device fits the core's curves, and decodes their values, to the last bit.
#include "cuda/dexp_curves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "cuda/coded_values.h"
#include "device_encode.h"
#include "device_inputs.h"
#include "device_memory.h"
#include "given_values.h"
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

std::vector<Evaluated> FitOnDevice(const std::vector<std::vector<float>>& lists,
                                   const Stream& stream) {
  GivenFrames given(lists, kSpare, stream);
  SortedBuffers sorted;
  CurveBuffers curves;
  Workspace measure;
  ExpectOk(TakeSortedBuffers(given.on_host(), &measure, &sorted));
  TakeCurveBuffers(given.on_host(), &measure, &curves);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeSortedBuffers(given.on_host(), &carve, &sorted));
  TakeCurveBuffers(given.on_host(), &carve, &curves);
  const DeviceVector<ValueParams> params(lists.size());
  for (size_t i = 0; i < lists.size(); ++i) given.on_host()[i].params_dev = params.data_dev() + i;
  const Parts<EncodedFrame> frames = given.Table(stream);
  ExpectOk(SortValues(frames, sorted, stream.get()));
  ExpectOk(FitCurves(frames, sorted, curves, stream.get()));
  ExpectOk(EvaluateCurves(frames, sorted, stream.get()));
  const std::vector<uint64_t> begins = Read(sorted.begins_dev, lists.size(), stream);
  std::vector<Evaluated> evaluated;
  for (size_t i = 0; i < lists.size(); ++i) {
    evaluated.push_back({Read(params.data_dev()[i].curves, 2, stream),
                         Read(sorted.table_dev() + begins[i], lists[i].size(), stream),
                         Read(sorted.ranks_dev() + begins[i], lists[i].size(), stream)});
  }
  return evaluated;
}

// Decodes the values of sections that have these curves, with an error before if `is_broken`.
std::vector<float> EvaluateOnDevice(const std::vector<CurvePart>& parts, bool is_broken,
                                    const Stream& stream) {
  ValueParams params{};
  std::copy_n(parts.begin(), 2, params.curves);
  const uint32_t k = parts[0].count + parts[1].count;
  const DeviceVector<ValueParams> params_dev({params}, stream);
  const DeviceVector<uint32_t> error_dev({is_broken ? 1u : 0u}, stream);
  const DeviceVector<float> table_dev(std::vector<float>(k, -7), stream);
  AddedValues empty{}, added{};
  added.section.k = k;
  added.params_dev = params_dev.data_dev();
  added.table_dev = table_dev.data_dev();
  added.error_dev = error_dev.data_dev();
  const std::vector<AddedValues> sections = {empty, added};
  const DeviceVector<AddedValues> sections_dev(sections, stream);
  ExpectOk(EvaluateCurves({sections, sections_dev.data_dev()}, stream.get()));
  return table_dev.ToHost(stream);
}

void ExpectSameCurves(const std::vector<std::vector<float>>& lists, const Stream& stream) {
  const auto codec = MakePart<ValueCodec>("dexp");
  const std::vector<Evaluated> all = FitOnDevice(lists, stream);
  for (size_t list = 0; list < lists.size(); ++list) {
    const std::vector<float>& values = lists[list];
    const Evaluated& actual = all[list];
    SCOPED_TRACE(testing::Message() << values.size() << " values");
    if (values.empty()) continue;
    const Bytes section = MustEncode(*codec, values);
    const std::vector<float> expected = MustDecode(*codec, section, values.size());
    const Bytes begin = Serialize(actual.parts);
    ASSERT_LE(begin.size(), section.size());
    ASSERT_EQ(std::memcmp(begin.data(), section.data(), begin.size()), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LT(actual.ranks[i], values.size());
      ASSERT_EQ(FloatBits(actual.values[actual.ranks[i]]), FloatBits(expected[i])) << i;
    }
    ASSERT_TRUE(SameBits(EvaluateOnDevice(actual.parts, false, stream), actual.values));
    ASSERT_EQ(EvaluateOnDevice(actual.parts, true, stream), std::vector<float>(values.size(), -7));
  }
}

// Sizes around the ends of cells and strides.
TEST(DexpCurves, FitsEveryInput) {
  const Stream stream;
  uint64_t seed = 1;
  for (const Input& input : Inputs()) {
    SCOPED_TRACE(input.name);
    std::vector<std::vector<float>> lists;
    for (size_t n : {0, 1, 2, 3, 63, 65, 129, 2000}) lists.push_back(input.make(n, ++seed));
    ASSERT_NO_FATAL_FAILURE(ExpectSameCurves(lists, stream));
    ASSERT_NO_FATAL_FAILURE(ExpectSameCurves({lists.back()}, stream));
  }
}

// Cells of several parts, in one sign or in both.
TEST(DexpCurves, FitsManyValues) {
  const Stream stream;
  std::vector<std::vector<float>> lists;
  for (const float bias : {-100.0f, 0.3f, 100.0f}) {
    lists.push_back(NormalValues(150000, 1));
    for (float& value : lists.back()) value = value * value * value * value * value + bias;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSameCurves(lists, stream));
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
