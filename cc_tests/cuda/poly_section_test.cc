// Sections of poly made by hand: the device decodes what the core decodes, and refuses what it
// refuses.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/value/polynomial_basis.h"
#include "device_sums.h"

namespace tfcompress {
namespace device {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Segment {
  uint32_t length;
  float least;
  float largest;
  std::vector<float> coefficients;
};

struct Section {
  uint32_t degree;
  std::vector<Segment> of_sign[2];
  Bytes behind;
};

// A frame of k values that has the bytes as its section.
Bytes FrameOf(const Bytes& section, uint32_t k) {
  return FrameWithValues("dense|raw|poly", k, k, section);
}

// Serializes a section of k values whose ranks are their positions.
Bytes BytesOf(const Section& section, uint32_t k) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Write(section.degree);
  for (const std::vector<Segment>& segments : section.of_sign) {
    writer.Write(static_cast<uint32_t>(segments.size()));
    for (const Segment& segment : segments) {
      writer.Write(segment.length);
      writer.Write(segment.least);
      writer.Write(segment.largest);
      writer.WriteArray<float>(segment.coefficients);
    }
  }
  std::vector<uint32_t> ranks(k);
  for (uint32_t i = 0; i < k; ++i) ranks[i] = i;
  const int num_bits = BitsFor(k);
  PackBits(ranks, num_bits, SerialExecutor(), writer.Extend(PackedBytes(k, num_bits)));
  writer.WriteArray<unsigned char>(section.behind);
  return bytes;
}
Bytes FrameOf(const Section& section, uint32_t k) { return FrameOf(BytesOf(section, k), k); }

void ExpectRefused(const Bytes& frame, uint32_t k, const Stream& stream) {
  ExpectRefused(frame, {{DType::kFloat32, k}}, stream);
}

// A section of six values; the last segment is shorter than the degree.
Section Valid() {
  return {2,
          {{{3, 1.0f, 2.0f, {0.5f, -0.5f, 0.1f}}},
           {{1, 7.0f, 7.0f, {0.25f}}, {2, 1e-40f, 3.0f, {0.5f, -0.5f}}}},
          {}};
}

TEST(PolySection, DecodesSectionsMadeByHand) {
  const Stream stream;
  ExpectSameSums(FrameOf(Valid(), 6), 1, 0.5f, {{DType::kFloat32, 6}}, stream);
  Section one_sign = Valid();
  one_sign.of_sign[0].clear();
  ExpectSameSums(FrameOf(one_sign, 3), 1, 0.5f, {{DType::kFloat32, 3}}, stream);
  one_sign = Valid();
  one_sign.of_sign[1].clear();
  ExpectSameSums(FrameOf(one_sign, 3), 1, 0.5f, {{DType::kFloat32, 3}}, stream);
}

// Each segment has another length.
TEST(PolySection, DecodesTheMaximumOfSegments) {
  const Stream stream;
  Section section = {3, {}, {}};
  uint32_t k = 0;
  for (std::vector<Segment>& segments : section.of_sign) {
    for (uint32_t i = 0; i < kMaxSegments; ++i) {
      const uint32_t length = 1 + i % 7;
      const auto largest = static_cast<float>(i + 1);
      segments.push_back(
          {length, 0.5f, largest, std::vector<float>(length < 4 ? length : 4, 0.3f)});
      k += length;
    }
  }
  ExpectSameSums(FrameOf(section, k), 1, 0.5f, {{DType::kFloat32, k}}, stream);
  for (std::vector<Segment>& segments : section.of_sign) {
    segments.push_back({1, 0.5f, 1.0f, {0.0f}});
    ExpectRefused(FrameOf(section, k + 1), k + 1, stream);
    segments.pop_back();
  }
}

TEST(PolySection, RefusesWhatTheCoreRefuses) {
  const std::pair<const char*, std::function<void(Section*)>> cases[] = {
      {"a degree above the largest", [](Section* s) { s->degree = 9; }},
      {"another degree", [](Section* s) { s->degree = 1; }},
      {"an empty segment", [](Section* s) { s->of_sign[0][0].length = 0; }},
      {"a segment too long", [](Section* s) { s->of_sign[0][0].length = 0xFFFFFFFF; }},
      {"values in no segment", [](Section* s) { s->of_sign[0][0].length = 2; }},
      {"a segment past the last value",
       [](Section* s) { s->of_sign[1].push_back({1, 0, 1, {0}}); }},
      {"a least magnitude above the largest", [](Section* s) { s->of_sign[0][0].least = 3; }},
      {"a magnitude with a sign", [](Section* s) { s->of_sign[0][0].least = -1; }},
      {"an infinite magnitude", [](Section* s) { s->of_sign[1][1].largest = kInfinity; }},
      {"an infinite coefficient",
       [](Section* s) { s->of_sign[1][1].coefficients[1] = -kInfinity; }},
      {"bytes behind the ranks", [](Section* s) { s->behind = {0}; }},
  };
  const Stream stream;
  for (const auto& [name, change] : cases) {
    SCOPED_TRACE(name);
    Section section = Valid();
    change(&section);
    ExpectRefused(FrameOf(section, 6), 6, stream);
  }
  ExpectRefused(FrameOf(Valid(), 7), 7, stream);  // One value is in no segment.
}

TEST(PolySection, RefusesSectionsThatEndEarly) {
  const Stream stream;
  Bytes section = BytesOf(Valid(), 6);
  while (!section.empty()) {
    section.pop_back();
    SCOPED_TRACE(section.size());
    ExpectRefused(FrameOf(section, 6), 6, stream);
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
