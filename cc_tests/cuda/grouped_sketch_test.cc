// Sections of sketchml made by hand: the device refuses what the core refuses.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/byte_io.h"
#include "device_sums.h"
#include "sketch_sections.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kSize = 20;
const std::vector<TensorSpec> kTensor = {{DType::kFloat32, kSize}};

// A section with one group for each sign that has buckets.
struct SketchSection {
  uint32_t rows;
  uint32_t groups;
  std::vector<float> means[2];
  SketchGroupBytes of_sign[2];  // Keys as delta bytes.
  Bytes behind;
};

// Keys 5 and 9; also 7 if there are negative means.
SketchSection Valid() {
  SketchSection section;
  section.rows = section.groups = 1;
  section.means[0] = {1.0f, 2.0f};
  section.of_sign[0] = {2, 1, Bytes{0, 5, 4}, Bytes{1}};
  section.of_sign[1] = {1, 1, Bytes{0, 7}, Bytes()};
  return section;
}

// A frame of k elements that has the section.
Bytes FrameOf(const SketchSection& section, uint32_t k) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Write(section.rows);
  writer.Write(section.groups);
  for (int sign = 0; sign < 2; ++sign) {
    writer.Write(static_cast<uint32_t>(section.means[sign].size()));
    writer.WriteArray<float>(section.means[sign]);
    if (!section.means[sign].empty()) Append(section.of_sign[sign], &writer);
  }
  writer.WriteArray<unsigned char>(section.behind);
  return FrameWithValues("dense|sketchml", kSize, k, bytes);
}

TEST(GroupedSketch, DecodesSectionsMadeByHand) {
  const Stream stream;
  ExpectSameSums(FrameOf(Valid(), 2), 1, 0.5f, kTensor, stream);
  SketchSection both = Valid();
  both.means[1] = {3.0f};
  ExpectSameSums(FrameOf(both, 3), 1, 0.5f, kTensor, stream);
  const Sums sums = SumOnDevice(FrameOf(both, 3), 1, 1, kTensor, stream);
  const auto value = [&](size_t i) {
    return LoadUnaligned<float>(sums.tensors[0].data() + sizeof(float) * i);
  };
  EXPECT_EQ(value(5), 2.0f);
  EXPECT_EQ(value(9), 2.0f);
  EXPECT_EQ(value(7), -3.0f);
}

struct Broken {
  const char* name;
  uint32_t k;
  std::function<void(SketchSection*)> change;
};

std::vector<Broken> BrokenSections() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {
      {"no rows", 2, [](SketchSection* s) { s->rows = 0; }},
      {"nine rows", 2,
       [](SketchSection* s) {
         s->rows = 9;
         s->of_sign[0].cells = {0xFF, 1};
       }},
      {"no groups", 2, [](SketchSection* s) { s->groups = 0; }},
      {"too many groups", 2, [](SketchSection* s) { s->groups = 257; }},
      {"another number of keys", 3, [](SketchSection*) {}},
      {"more buckets than elements", 2, [](SketchSection* s) { s->means[0] = {1.0f, 1.5f, 2.0f}; }},
      {"a mean that is infinite", 2, [](SketchSection* s) { s->means[0][1] = kInfinity; }},
      {"a mean with a sign", 2, [](SketchSection* s) { s->means[0][0] = -1.0f; }},
      {"a mean that nobody asks for", 2, [](SketchSection* s) { s->means[0][0] = kInfinity; }},
      {"no columns", 2, [](SketchSection* s) { s->of_sign[0].num_columns = 0; }},
      {"more columns than keys", 2, [](SketchSection* s) { s->of_sign[0].num_columns = 3; }},
      {"a key that is n", 2, [](SketchSection* s) { s->of_sign[0].keys = {0, 5, 15}; }},
      {"equal keys", 2, [](SketchSection* s) { s->of_sign[0].keys = {0, 5, 0}; }},
      {"keys that descend", 2,
       [](SketchSection* s) { s->of_sign[0].keys = {0x0C, 5, 0xFE, 0xFF, 0xFF, 0xFF}; }},
      {"flags after the last key", 2, [](SketchSection* s) { s->of_sign[0].keys = {0x10, 5, 4}; }},
      {"a key too many", 2, [](SketchSection* s) { s->of_sign[0].keys = {0, 5, 4, 1}; }},
      {"a cell above all buckets", 3,
       [](SketchSection* s) {
         s->means[0] = {1.0f, 1.5f, 2.0f};
         s->of_sign[0] = {3, 1, {0, 5, 4, 1}, {3}};
       }},
      {"a key of both signs", 3,
       [](SketchSection* s) {
         s->means[1] = {3.0f};
         s->of_sign[1].keys = {0, 9};
       }},
      {"bytes behind the groups", 2, [](SketchSection* s) { s->behind = {0}; }},
  };
}

TEST(GroupedSketch, RefusesWhatTheCoreRefuses) {
  const Stream stream;
  for (const Broken& broken : BrokenSections()) {
    SketchSection section = Valid();
    broken.change(&section);
    SCOPED_TRACE(broken.name);
    ExpectRefused(FrameOf(section, broken.k), kTensor, stream);
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
