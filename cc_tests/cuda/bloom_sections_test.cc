// Sections of Bloom filters of all policies, decoded side by side: what the core decodes, and
// errors of those that it refuses and of no others.
#include <gtest/gtest.h>

#include "core/hash.h"
#include "cuda/bloom.h"
#include "device_memory.h"
#include "make_part.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kBloomErrorBit = 8;

struct BloomSection {
  Bytes bytes;
  uint32_t n;
  uint32_t k;
  uint64_t seed;
};

BloomSection SectionOf(const std::string& policy, const std::string& fpr, uint32_t n,
                       uint64_t seed) {
  BloomSection section = {{}, n, 0, seed};
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < n; ++i)
    if (HashKey(i, seed) % 20 == 0 || i == n / 2) indices.push_back(i);
  const auto codec = MakePart<IndexCodec>("bloom", {{"policy", policy}, {"fpr", fpr}});
  const DecodedIndices decoded =
      codec->Encode(indices, n, {seed, SerialExecutor()}, &section.bytes).value();
  section.k = static_cast<uint32_t>(decoded.changed->size());
  return section;
}

// With a byte of another value, or cut to a length.
BloomSection Changed(BloomSection section, size_t i, unsigned char byte) {
  section.bytes[i] = byte;
  return section;
}
BloomSection Cut(BloomSection section, size_t num_bytes) {
  section.bytes.resize(num_bytes, 0);
  return section;
}

std::vector<BloomSection> Sections(Span<const char* const> policies) {
  std::vector<BloomSection> sections;
  uint64_t seed = 0;
  for (const uint32_t n : {1u, 45u, 1000u, 30000u}) {
    for (const char* policy : policies) {
      for (const char* fpr : {"0.3", "0.01"}) {
        sections.push_back(SectionOf(policy, fpr, n, ++seed));
        if (seed % 5 == 0) sections.push_back({{}, n, 0, seed});  // Has no elements.
      }
    }
  }
  return sections;
}

// What hosts and devices have to refuse, or to decode to the same.
std::vector<BloomSection> HostileSections() {
  std::vector<BloomSection> sections;
  for (const char* policy : kBloomPolicyNames) {
    const BloomSection healthy = SectionOf(policy, "0.2", 2000, 7);
    sections.push_back(healthy);
    for (int byte : {0, 1, 2, 3, 4, 5, 6, 7, 255}) {
      for (size_t i = 0; i < kBloomHeaderBytes; ++i)
        sections.push_back(Changed(healthy, i, static_cast<unsigned char>(byte)));
    }
    for (size_t size : {size_t{0}, size_t{1}, size_t{5}, size_t{6}, healthy.bytes.size() - 1,
                        healthy.bytes.size() + 1})
      sections.push_back(Cut(healthy, size));
    BloomSection full = healthy;
    std::fill(full.bytes.begin() + kBloomHeaderBytes, full.bytes.end() - 1, 0xFF);
    sections.push_back(full);
    BloomSection empty = healthy;
    std::fill(empty.bytes.begin() + kBloomHeaderBytes, empty.bytes.end(), 0);
    sections.push_back(empty);
    for (const uint32_t k : {1u, healthy.k - 1, healthy.k + 1, 2000u}) {
      sections.push_back(healthy);
      sections.back().k = k;
    }
  }
  return sections;
}

// Tables of sections in a workspace of their own, and what is decoded of them.
void ExpectAsTheCore(const std::vector<BloomSection>& inputs, const Stream& stream) {
  const auto num_sections = inputs.size();
  Bytes packets;
  uint64_t num_tiles = 0, num_indices = 0;
  BloomExtent extent;
  std::vector<BloomPlace> places;
  for (const BloomSection& input : inputs) {
    packets.push_back(0x5A);  // Sections begin anywhere.
    packets.insert(packets.end(), input.bytes.begin(), input.bytes.end());
    if (input.k > 0) num_tiles += NumTiles(input.n);
    num_indices += input.k;
    places.push_back(extent.Place(input.bytes, input.n, input.k));
  }
  const auto take = [&](Workspace* workspace, Marks* marks) {
    TakeMarks(num_tiles * kTileElements, workspace, marks);
    return TakeBloomReadBuffers(extent, *marks, workspace);
  };
  Marks marks;
  Workspace measure;
  take(&measure, &marks);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  EXPECT_EQ(cudaMemsetAsync(memory.data_dev(), 0xA5, memory.size(), stream.get()), cudaSuccess);
  Workspace carve(memory.data_dev());
  const BloomReadBuffers buffers = take(&carve, &marks);

  const DeviceVector<unsigned char> packets_dev(packets, stream);
  const DeviceVector<uint32_t> indices_dev(num_indices);
  const DeviceVector<uint32_t> errors_dev(std::vector<uint32_t>(num_sections), stream);
  std::vector<SupportSection> sections(num_sections);
  uint64_t offset = 0;
  num_tiles = num_indices = 0;
  for (size_t i = 0; i < num_sections; ++i) {
    const BloomSection& input = inputs[i];
    ++offset;
    if (input.k > 0) {
      sections[i] = {packets_dev.data_dev() + offset,
                     input.bytes.size(),
                     input.seed,
                     input.n,
                     input.k,
                     marks.Slice(num_tiles, input.n),
                     indices_dev.data_dev() + num_indices,
                     nullptr,
                     errors_dev.data_dev() + i};
      num_tiles += NumTiles(input.n);
    }
    offset += input.bytes.size();
    num_indices += input.k;
  }
  const DeviceVector<SupportSection> sections_dev(sections, stream);
  const DeviceVector<BloomPlace> places_dev(places, stream);
  ExpectOk(ReadBlooms({sections, sections_dev.data_dev()}, {places, places_dev.data_dev()}, marks,
                      buffers, kBloomErrorBit, stream.get()));
  const std::vector<uint32_t> errors = errors_dev.ToHost(stream);
  const std::vector<uint32_t> indices = indices_dev.ToHost(stream);
  auto own = indices.begin();
  for (size_t i = 0; i < num_sections; ++i) {
    const BloomSection& input = inputs[i];
    const std::vector<uint32_t> actual(own, own + input.k);
    own += input.k;
    std::vector<uint32_t> expected;
    const Status status = input.k == 0 ? OkStatus()
                                       : MakePart<IndexCodec>("bloom")->Decode(
                                             input.bytes, input.n, input.k,
                                             {input.seed, SerialExecutor()}, &expected);
    SCOPED_TRACE(testing::Message() << "section " << i << ": " << status.message());
    ASSERT_EQ(errors[i], status.ok() ? 0 : kBloomErrorBit);
    ASSERT_TRUE(!status.ok() || actual == expected);
  }
}

TEST(BloomSections, OfAllPoliciesSideBySide) {
  ExpectAsTheCore(Sections({kBloomPolicyNames, kNumBloomPolicies}), Stream());
}

TEST(BloomSections, OfOnePolicy) {
  const Stream stream;
  for (const char* const& policy : kBloomPolicyNames) {
    SCOPED_TRACE(policy);
    ExpectAsTheCore(Sections({&policy, 1}), stream);
    ExpectAsTheCore({SectionOf(policy, "0.1", 20000, 3)}, stream);
  }
}

TEST(BloomSections, ThatAreHostile) { ExpectAsTheCore(HostileSections(), Stream()); }

TEST(BloomSections, WithoutElements) {
  ExpectAsTheCore({{{}, 0, 0, 1}, {{}, 5000, 0, 1}}, Stream());
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
