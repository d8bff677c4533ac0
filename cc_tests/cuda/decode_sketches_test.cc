// Sections of the joint codecs, decoded side by side as the core decodes each.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "cuda/grouped_sketch.h"
#include "device_memory.h"
#include "joint_round_trip.h"
#include "make_part.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kJointErrorBit = 8;

struct Case {
  const char* name;
  JointKind kind;
};
constexpr Case kCases[] = {{"sketchml", JointKind::kSketchml},
                           {"skcompress", JointKind::kSkcompress}};

// What is decoded side by side.
struct Sections {
  std::vector<JointSection> encoded;
  std::vector<uint32_t> sizes;  // Of the vectors.
};

// Sections of very different sizes, with different parameters; the fourth has no elements.
Sections SomeSections(const Case& codec) {
  using Given = std::vector<std::pair<std::string, std::string>>;
  const std::pair<uint32_t, double> shapes[] = {{3000, 0.1}, {20000, 0.4}, {1, 1},   {500, 0},
                                                {5000, 1},   {1024, 0.5},  {40, 0.2}};
  const Given settings[] = {{}, {{"buckets", "10"}, {"groups", "3"}, {"rows", "3"}}};
  Sections sections;
  for (const auto& [n, ratio] : shapes) {
    const uint64_t seed = sections.sizes.size();
    const auto part = MakePart<SparseCodec>(codec.name, settings[seed % 2]);
    const std::vector<uint32_t> indices = RandomSubset(n, ratio, seed);
    const std::vector<float> dense = NormalValues(n, seed);
    sections.encoded.push_back(MustEncode(*part, dense, Support(n, indices), {seed}));
    sections.sizes.push_back(n);
  }
  return sections;
}

struct Decoded {
  std::vector<uint32_t> errors;  // Of each section; then that of all.
  std::vector<std::vector<uint32_t>> indices;
  std::vector<std::vector<float>> values;
};

// Memory of a decoding.
class Memory {
 public:
  Memory(const Case& codec, const Sections& sections, const Stream& stream)
      : count_(sections.sizes.size()), errors_(std::vector<uint32_t>(count_ + 1), stream) {
    for (size_t i = 0; i < count_; ++i) {
      const JointSection& encoded = sections.encoded[i];
      extent_.Add(encoded.k, encoded.section.size());
      num_tiles_ += encoded.k == 0 ? 0 : NumTiles(sections.sizes[i]);
    }
    Workspace measure;
    Take(codec.kind, &measure);
    memory_ = std::make_unique<DeviceVector<unsigned char>>(measure.num_bytes());
    Workspace carve(memory_->data_dev());
    Take(codec.kind, &carve);
  }

  // Those of packets_dev, which hold the sections end to end from byte 1 on.
  std::vector<SupportSection> TableOf(const Sections& sections,
                                      const unsigned char* packets_dev) const {
    std::vector<SupportSection> table;
    SketchExtent before{};
    uint64_t position = 1, first_tile = 0;
    for (size_t i = 0; i < count_; ++i) {
      const auto& [bytes, k, ignored] = sections.encoded[i];
      SupportSection section{};
      section.k = k;
      section.before = before;
      before.Add(k, bytes.size());
      if (k > 0) {
        section = {packets_dev + position,
                   bytes.size(),
                   i,
                   sections.sizes[i],
                   k,
                   marks_.Slice(first_tile, sections.sizes[i]),
                   indices_dev_ + section.before.num_keys,
                   values_dev_ + section.before.num_keys,
                   errors_.data_dev() + i,
                   section.before};
        first_tile += NumTiles(sections.sizes[i]);
      }
      position += bytes.size();
      table.push_back(section);
    }
    return table;
  }

  Decoded Read(const std::vector<SupportSection>& table, const Stream& stream) const {
    Decoded decoded;
    decoded.errors = errors_.ToHost(stream);
    for (const SupportSection& section : table) {
      decoded.indices.push_back(device::Read(section.indices_dev, section.k, stream));
      decoded.values.push_back(device::Read(section.values_dev, section.k, stream));
    }
    return decoded;
  }

  const Marks& marks() const { return marks_; }
  const SketchDecodeBuffers& buffers() const { return buffers_; }
  uint32_t* common_error_dev() const { return errors_.data_dev() + count_; }

 private:
  void Take(JointKind kind, Workspace* workspace) {
    TakeMarks(num_tiles_ * kTileElements, workspace, &marks_);
    indices_dev_ = workspace->Take<uint32_t>(extent_.num_keys);
    values_dev_ = workspace->Take<float>(extent_.num_keys);
    TakeSketchDecodeBuffers(kind, extent_, workspace, &buffers_);
  }

  size_t count_;
  DeviceVector<uint32_t> errors_;
  SketchExtent extent_{};
  uint64_t num_tiles_ = 0;
  std::unique_ptr<DeviceVector<unsigned char>> memory_;
  Marks marks_{};
  uint32_t* indices_dev_ = nullptr;
  float* values_dev_ = nullptr;
  SketchDecodeBuffers buffers_{};
};

Decoded DecodeOnDevice(const Case& codec, const Sections& sections, const Stream& stream) {
  Bytes packets(1);
  for (const JointSection& encoded : sections.encoded)
    packets.insert(packets.end(), encoded.section.begin(), encoded.section.end());
  const DeviceVector<unsigned char> packets_dev(packets, stream);
  const Memory memory(codec, sections, stream);
  const std::vector<SupportSection> table = memory.TableOf(sections, packets_dev.data_dev());
  const DeviceVector<SupportSection> table_dev(table, stream);
  ExpectOk(DecodeSketches(codec.kind, {table, table_dev.data_dev()}, memory.marks(),
                          memory.buffers(), kJointErrorBit, memory.common_error_dev(),
                          stream.get()));
  return memory.Read(table, stream);
}

// Expects what the core decoded, and an error of the section `broken` if there is one of that
// number.
void ExpectDecoded(const Decoded& decoded, const Sections& sections, size_t broken) {
  const size_t count = sections.encoded.size();
  EXPECT_EQ(decoded.errors[count], 0u);
  for (size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(testing::Message() << "section " << i);
    EXPECT_EQ(decoded.errors[i], i == broken ? kJointErrorBit : 0);
    if (i == broken) continue;
    EXPECT_EQ(decoded.indices[i], sections.encoded[i].decoded.indices);
    EXPECT_TRUE(SameBits(decoded.values[i], sections.encoded[i].decoded.values));
  }
}

TEST(DecodeSketches, DecodesSectionsSideBySide) {
  const Stream stream;
  for (const Case& codec : kCases) {
    SCOPED_TRACE(codec.name);
    const Sections sections = SomeSections(codec);
    ExpectDecoded(DecodeOnDevice(codec, sections, stream), sections, sections.sizes.size());
  }
}

// One section with another number of rows than there may be, a mean that is not finite, or keys of
// a smaller vector: the others do not suffer.
TEST(DecodeSketches, DecodesWhatIsNotBroken) {
  const Stream stream;
  for (const Case& codec : kCases) {
    SCOPED_TRACE(codec.name);
    const Sections sections = SomeSections(codec);
    for (size_t broken : {0, 1, 4, 6}) {
      Sections changed = sections;
      changed.encoded[broken].section[0] = 9;
      ExpectDecoded(DecodeOnDevice(codec, changed, stream), sections, broken);
      changed = sections;
      changed.encoded[broken].section[15] = 0xFF;
      ExpectDecoded(DecodeOnDevice(codec, changed, stream), sections, broken);
      changed = sections;
      changed.sizes[broken] = sections.encoded[broken].decoded.indices.back();
      ExpectDecoded(DecodeOnDevice(codec, changed, stream), sections, broken);
    }
  }
}

// Keys that cannot be read are an error of all.
TEST(DecodeSketches, TellsThatKeysAreBroken) {
  const Stream stream;
  for (const Case& codec : kCases) {
    SCOPED_TRACE(codec.name);
    Sections sections = SomeSections(codec);
    Bytes& section = sections.encoded[1].section;
    const auto num_means = LoadUnaligned<uint32_t>(&section[kSketchHeaderBytes]);
    section[kSketchHeaderBytes + sizeof(num_means) + sizeof(float) * num_means +
            kGroupHeaderBytes] ^= 0xFF;
    const Decoded decoded = DecodeOnDevice(codec, sections, stream);
    EXPECT_EQ(decoded.errors.back(), kJointErrorBit);
    for (size_t i = 0; i < sections.sizes.size(); ++i)
      EXPECT_EQ(decoded.errors[i], sections.encoded[i].k > 0 ? kJointErrorBit : 0) << i;
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
