// Adaptive deltas of several lists at once: each list gets the core's bytes, at any position.
#include <gtest/gtest.h>

#include <numeric>

#include "core/entropy/adaptive_delta.h"
#include "core/hash.h"
#include "cuda/prefixed_deltas.h"
#include "device_memory.h"
#include "section_frame.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kListErrorBit = 4;
constexpr size_t kGap = 37;  // Unrelated bytes before each list.

// Lists without keys, of one block, of whole blocks, and of more.
const std::vector<uint32_t> kSizes = {0, 70000, 0, 65536, 5, 0, 0, 131073, 1, 1500, 0};

struct Lists {
  std::vector<uint32_t> keys;  // Keys of all lists, end to end.
  std::vector<uint32_t> begins;
  std::vector<Bytes> codes;  // Encoded by the core.
};

Lists MakeLists() {
  Lists lists;
  for (size_t list = 0; list < kSizes.size(); ++list) {
    lists.begins.push_back(static_cast<uint32_t>(lists.keys.size()));
    uint32_t key = 0;
    // Each list has deltas of another size.
    for (uint32_t i = 0; i < kSizes[list]; ++i)
      lists.keys.push_back(key += 1 + Mix64(i + 1000 * list) % (uint64_t{2} << list));
    Bytes code;
    EncodeAdaptiveDeltas(Span<const uint32_t>(lists.keys).subspan(lists.begins[list], kSizes[list]),
                         SerialExecutor(), &code);
    lists.codes.push_back(code);
  }
  return lists;
}

// The lists on the device.
class DeviceLists {
 public:
  DeviceLists(const Lists& lists, const Stream& stream)
      : keys_(lists.keys, stream),
        begins_(lists.begins, stream),
        sizes_(kSizes, stream),
        first_tiles_(FirstTiles(), stream) {}

  const uint32_t* keys_dev() const { return keys_.data_dev(); }
  KeyLists view() const {
    return {begins_.data_dev(), sizes_.data_dev(), first_tiles_.data_dev(),
            static_cast<uint32_t>(kSizes.size()), static_cast<uint32_t>(keys_.size())};
  }

 private:
  static std::vector<uint32_t> FirstTiles() {
    std::vector<uint32_t> first_tiles = {0};
    for (const uint32_t size : kSizes)
      first_tiles.push_back(first_tiles.back() +
                            static_cast<uint32_t>(CeilDiv(size, KeyLists::kKeysPerTile)));
    return first_tiles;
  }

  DeviceVector<uint32_t> keys_, begins_, sizes_, first_tiles_;
};

// All codes, each after a gap.
struct Section {
  explicit Section(const Lists& lists) {
    for (const Bytes& code : lists.codes) {
      bytes.insert(bytes.end(), kGap, 0);
      begins.push_back(bytes.size());
      lengths.push_back(code.size());
      bytes.insert(bytes.end(), code.begin(), code.end());
    }
  }

  Bytes bytes;
  std::vector<uint64_t> begins;
  std::vector<uint64_t> lengths;
};

TEST(DeltaLists, EqualTheCores) {
  const Stream stream;
  const Lists lists = MakeLists();
  const Section section(lists);
  const DeviceLists device(lists, stream);
  const KeyLists view = device.view();
  DeltaWriteBuffers buffers;
  Workspace measure;
  const auto take = [&](Workspace* workspace) {
    TakeDeltaWriteBuffers(view.num_lists, view.max_keys, section.bytes.size(), workspace, &buffers);
  };
  take(&measure);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  take(&carve);
  ExpectOk(MeasurePrefixedDeltas({true, 0}, view, device.keys_dev(), buffers, stream.get()));
  std::vector<CodeListSize> sizes(kSizes.size());
  ASSERT_EQ(
      cudaMemcpyAsync(sizes.data(), buffers.codes.sizes_dev, sizes.size() * sizeof(CodeListSize),
                      cudaMemcpyDeviceToHost, stream.get()),
      cudaSuccess);
  stream.Synchronize();
  for (size_t list = 0; list < kSizes.size(); ++list) {
    if (kSizes[list] == 0) continue;
    EXPECT_EQ(sizes[list].num_bytes, lists.codes[list].size()) << list;
  }

  const DeviceVector<uint64_t> begins_dev(section.begins, stream);
  const DeviceVector<uint64_t> num_bytes_dev({section.bytes.size()}, stream);
  const SectionFrame frame(view.max_keys, buffers.codes.words_dev, num_bytes_dev.data_dev(),
                           section.bytes.size(), stream);
  ExpectOk(ClearSections(frame.parts(), stream.get()));
  ExpectOk(
      WritePrefixedDeltas(view, device.keys_dev(), buffers, begins_dev.data_dev(), stream.get()));
  ExpectOk(StoreSections(frame.parts(), stream.get()));
  EXPECT_TRUE(frame.Section(stream) == section.bytes);
}

struct ListsRead {
  bool is_valid;
  std::vector<uint32_t> keys;
  std::vector<uint64_t> ends;
};

ListsRead ReadLists(const DeviceLists& device, const Section& section, const Stream& stream) {
  const KeyLists view = device.view();
  const CodeExtent extent = ExtentOf(view.num_lists, view.max_keys, section.bytes.size());
  DeltaReadBuffers buffers;
  Workspace measure;
  TakeDeltaReadBuffers(view.num_lists, extent, &measure, &buffers);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  TakeDeltaReadBuffers(view.num_lists, extent, &carve, &buffers);
  // The codes are in the words before.
  EXPECT_EQ(cudaMemsetAsync(memory.data_dev(), 0, memory.size(), stream.get()), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(buffers.codes.words_dev, section.bytes.data(), section.bytes.size(),
                            cudaMemcpyHostToDevice, stream.get()),
            cudaSuccess);
  const DeviceVector<uint64_t> begins_dev(section.begins, stream);
  const DeviceVector<uint64_t> lengths_dev(section.lengths, stream);
  const DeviceVector<uint32_t> keys_dev(view.max_keys), error_dev({0}, stream);
  const CodeSections sections = {nullptr, section.bytes.size(), begins_dev.data_dev(),
                                 lengths_dev.data_dev()};
  ExpectOk(DecodePrefixedDeltas(true, view, sections, buffers, kListErrorBit, error_dev.data_dev(),
                                keys_dev.data_dev(), stream.get()));
  ListsRead read;
  read.ends.resize(view.num_lists);
  EXPECT_EQ(
      cudaMemcpyAsync(read.ends.data(), buffers.codes.list_ends_dev,
                      read.ends.size() * sizeof(uint64_t), cudaMemcpyDeviceToHost, stream.get()),
      cudaSuccess);
  read.is_valid = error_dev.ToHost(stream)[0] == 0;
  read.keys = keys_dev.ToHost(stream);
  return read;
}

TEST(DeltaLists, RoundTrip) {
  const Stream stream;
  const Lists lists = MakeLists();
  const DeviceLists device(lists, stream);
  Section section(lists);
  // The part of a list may have other bytes after the code.
  for (uint64_t& length : section.lengths) length += kGap;
  section.lengths.back() = 0;
  const ListsRead read = ReadLists(device, section, stream);
  ASSERT_TRUE(read.is_valid);
  EXPECT_TRUE(read.keys == lists.keys);
  for (size_t list = 0; list < kSizes.size(); ++list) {
    if (kSizes[list] == 0) continue;
    EXPECT_EQ(read.ends[list], section.begins[list] + lists.codes[list].size());
  }
}

TEST(DeltaLists, AreRefusedIfTheirPartIsTooShort) {
  const Stream stream;
  const Lists lists = MakeLists();
  const DeviceLists device(lists, stream);
  for (size_t list = 0; list < kSizes.size(); ++list) {
    if (kSizes[list] == 0) continue;
    Section section(lists);
    --section.lengths[list];
    EXPECT_FALSE(ReadLists(device, section, stream).is_valid) << list;
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
