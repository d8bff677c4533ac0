// Sections of skcompress made by hand: the device refuses what the core refuses.
#include <gtest/gtest.h>

#include <functional>

#include "core/byte_io.h"
#include "core/entropy/adaptive_delta.h"
#include "core/entropy/huffman.h"
#include "device_sums.h"
#include "sketch_sections.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kSize = 40;
const std::vector<TensorSpec> kTensor = {{DType::kFloat32, kSize}};

Bytes KeysOf(const std::vector<uint32_t>& keys) {
  Bytes bytes;
  EncodeAdaptiveDeltas(keys, SerialExecutor(), &bytes);
  return bytes;
}

// Codes cells below `width` as Huffman words, after the byte for this format and the lengths.
Bytes WordsOf(const std::vector<uint16_t>& cells, uint32_t width) {
  std::vector<uint64_t> counts(width);
  for (const uint16_t cell : cells) ++counts[cell];
  const HuffmanCode code = HuffmanCode::FromCounts(counts);
  Bytes bytes = {1};
  code.WriteLengths(&bytes);
  const size_t begin = bytes.size();
  bytes.resize(begin + BytesOfBits(code.NumBits(counts)));
  BitWriter writer(bytes.data() + begin, bytes.data() + bytes.size());
  code.Encode(Span<const uint16_t>(cells), &writer);
  return bytes;
}

// Two groups of two buckets for nonnegative values, and one group of one bucket for negative ones.
struct Section {
  std::vector<float> means[2] = {{1.0f, 2.0f, 4.0f, 8.0f}, {3.0f}};
  SketchGroupBytes groups[3];
};

Section Valid() {
  Section section;
  section.groups[0] = {4, 3, KeysOf({1, 5, 9, 30}), WordsOf({0, 1, 0}, 2)};
  section.groups[1] = {3, 2, KeysOf({0, 2, 39}), Bytes{0, 1}};
  section.groups[2] = {1, 1, KeysOf({7}), Bytes{0}};
  return section;
}

constexpr uint32_t kNumKeys = 8;

Bytes FrameOf(const Section& section) {
  Bytes bytes;
  ByteWriter writer(&bytes);
  writer.Write(uint32_t{1});  // Rows.
  writer.Write(uint32_t{2});  // Groups of each sign.
  writer.Write(static_cast<uint32_t>(section.means[0].size()));
  writer.WriteArray<float>(section.means[0]);
  Append(section.groups[0], &writer);
  Append(section.groups[1], &writer);
  writer.Write(static_cast<uint32_t>(section.means[1].size()));
  writer.WriteArray<float>(section.means[1]);
  Append(section.groups[2], &writer);
  return FrameWithValues("dense|skcompress", kSize, kNumKeys, bytes);
}

TEST(CodedCells, AreAcceptedIfTheCoreAcceptsThem) {
  const Stream stream;
  ExpectSameSums(FrameOf(Valid()), 1, 0.5f, kTensor, stream);
  // The only word of a code may be either bit.
  Section alone = Valid();
  alone.groups[0].cells = WordsOf({1, 1, 1}, 2);
  ExpectSameSums(FrameOf(alone), 1, 0.5f, kTensor, stream);
  alone.groups[0].cells.back() = 5;
  ExpectSameSums(FrameOf(alone), 1, 0.5f, kTensor, stream);
  // One bucket needs no code, and may have one.
  Section one = Valid();
  one.groups[2].cells = WordsOf({0}, 1);
  ExpectSameSums(FrameOf(one), 1, 0.5f, kTensor, stream);
}

struct Broken {
  const char* name;
  std::function<void(Section*)> change;
};

std::vector<Broken> BrokenSections() {
  return {
      {"another coding of words", [](Section* s) { s->groups[0].cells[0] = 2; }},
      {"another coding of numbers", [](Section* s) { s->groups[1].cells[0] = 2; }},
      {"no coding", [](Section* s) { s->groups[2].cells.clear(); }},
      {"a byte too many after words", [](Section* s) { s->groups[0].cells.push_back(0); }},
      {"a byte too many after numbers", [](Section* s) { s->groups[1].cells.push_back(0); }},
      {"a byte too many after nothing", [](Section* s) { s->groups[2].cells.push_back(0); }},
      {"no words", [](Section* s) { s->groups[0].cells.pop_back(); }},
      {"no numbers", [](Section* s) { s->groups[1].cells.pop_back(); }},
      {"a bit after the last word", [](Section* s) { s->groups[0].cells.back() |= 0x80; }},
      {"lengths that leave words unused",
       [](Section* s) {
         s->means[0].resize(6, 16.0f);  // Makes groups of three buckets.
         s->groups[0].cells = WordsOf({0, 1, 2}, 3);
         s->groups[0].cells[1] = 0;
       }},
      {"lengths of another alphabet",
       [](Section* s) { s->groups[0].cells = WordsOf({0, 1, 2}, 3); }},
      {"lengths without an end", [](Section* s) { s->groups[0].cells.resize(2); }},
      {"a number above all buckets",
       [](Section* s) {
         s->means[0].resize(6, 16.0f);
         s->groups[0].cells = WordsOf({0, 1, 2}, 3);
         s->groups[1].cells = Bytes{0, 3};
       }},
      {"keys of no kind", [](Section* s) { s->groups[0].keys[0] = 8; }},
      {"a key fewer", [](Section* s) { s->groups[1].num_keys = 4; }},
      {"a key of two groups", [](Section* s) { s->groups[1].keys = KeysOf({0, 5, 39}); }},
      {"a key that is n", [](Section* s) { s->groups[1].keys = KeysOf({0, 2, kSize}); }},
      {"keys up to the end of the group", [](Section* s) { s->groups[2].keys.push_back(0); }},
      {"nothing in a group",
       [](Section* s) {
         s->groups[2].keys.clear();
         s->groups[2].cells.clear();
       }},
  };
}

TEST(CodedCells, AreRefusedIfTheCoreRefusesThem) {
  const Stream stream;
  for (const Broken& broken : BrokenSections()) {
    Section section = Valid();
    broken.change(&section);
    SCOPED_TRACE(broken.name);
    ExpectRefused(FrameOf(section), kTensor, stream);
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
