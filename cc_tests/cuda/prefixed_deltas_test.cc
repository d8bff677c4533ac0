// Prefixed deltas on the device: writes the core's bytes, and accepts what the core accepts.
#include "cuda/prefixed_deltas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "contract_inputs.h"
#include "core/entropy/adaptive_delta.h"
#include "core/entropy/bit_stream.h"
#include "core/hash.h"
#include "cuda/coded_values.h"
#include "cuda/index_sections.h"
#include "device_memory.h"
#include "make_part.h"
#include "section_frame.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kMaxN = 0xFFFFFFFFu;
constexpr uint32_t kErrorBit = 4;

const std::vector<DeltaCoding>& Codings() {
  static const auto* codings =
      new std::vector<DeltaCoding>{{true, 0}, {false, 1}, {false, 2}, {false, 5}};
  return *codings;
}

std::string NameOf(const DeltaCoding& coding) {
  return coding.is_adaptive ? "adaptive" : "flags of " + std::to_string(coding.flag_bits);
}

std::unique_ptr<const IndexCodec> CodecOf(const DeltaCoding& coding) {
  if (coding.is_adaptive) return MakePart<IndexCodec>("delta_adaptive");
  return MakePart<IndexCodec>("delta_flag", {{"flag_bits", std::to_string(coding.flag_bits)}});
}

Bytes EncodeOnHost(const DeltaCoding& coding, const std::vector<uint32_t>& keys) {
  Bytes section;
  ExpectOk(CodecOf(coding)->Encode(keys, kMaxN, {0, SerialExecutor()}, &section).status());
  return section;
}

Bytes EncodeOnDevice(const DeltaCoding& coding, const std::vector<uint32_t>& keys,
                     const Stream& stream) {
  const auto k = static_cast<uint32_t>(keys.size());
  DeltaWriteBuffers buffers;
  Workspace measure;
  TakeDeltaWriteBuffers(1, k, coding.MaxBytes(k), &measure, &buffers);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  TakeDeltaWriteBuffers(1, k, coding.MaxBytes(k), &carve, &buffers);
  const DeviceVector<uint32_t> keys_dev(keys, stream), k_dev({k}, stream);
  ExpectOk(MeasurePrefixedDeltas(coding, KeyLists::One(k_dev.data_dev(), k), keys_dev.data_dev(),
                                 buffers, stream.get()));
  uint64_t num_bytes = 0;
  const uint64_t* const num_bytes_dev = &buffers.codes.sizes_dev->num_bytes;
  EXPECT_EQ(cudaMemcpyAsync(&num_bytes, num_bytes_dev, sizeof(num_bytes), cudaMemcpyDeviceToHost,
                            stream.get()),
            cudaSuccess);
  stream.Synchronize();
  const SectionFrame frame(k, buffers.codes.words_dev, num_bytes_dev, num_bytes, stream);
  ExpectOk(ClearSections(frame.parts(), stream.get()));
  ExpectOk(WritePrefixedDeltas(KeyLists::One(k_dev.data_dev(), k), keys_dev.data_dev(), buffers,
                               nullptr, stream.get()));
  ExpectOk(StoreSections(frame.parts(), stream.get()));
  return frame.Section(stream);
}

struct Decoded {
  bool is_valid;
  uint64_t num_bytes;
  std::vector<uint32_t> keys;
};

// Decodes a code at the front of a section, or one that is the whole section.
Decoded DecodeOnDevice(const DeltaCoding& coding, const Bytes& section, uint32_t k, uint32_t n,
                       bool is_whole, const Stream& stream) {
  const KeyLists list = KeyLists::One(k);
  const CodeExtent extent = ExtentOf(1, k, section.size());
  DeltaReadBuffers buffers;
  Workspace measure;
  TakeDeltaReadBuffers(1, extent, &measure, &buffers);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  TakeDeltaReadBuffers(1, extent, &carve, &buffers);
  // Zeros would pass as the begin of a tile that was not noted.
  EXPECT_EQ(cudaMemsetAsync(memory.data_dev(), 0, memory.size(), stream.get()), cudaSuccess);
  const DeviceVector<unsigned char> section_dev(section, stream);
  const DeviceVector<uint32_t> keys_dev(k), error_dev({0}, stream), no_error_dev({0}, stream);
  uint32_t* error = error_dev.data_dev();
  const DeviceVector<uint64_t> source_dev({0}, stream);
  const CodeSections sections = {section_dev.data_dev(), section.size(), nullptr, nullptr,
                                 source_dev.data_dev(),  section.size()};
  ExpectOk(DecodePrefixedDeltas(coding.is_adaptive, list, sections, buffers, kErrorBit, error,
                                keys_dev.data_dev(), stream.get()));
  SupportSection keys{};
  keys.n = n;
  keys.k = k;
  keys.indices_dev = keys_dev.data_dev();
  keys.error_dev = error;
  const std::vector<SupportSection> supports = {keys};
  const DeviceVector<SupportSection> supports_dev(supports, stream);
  if (is_whole) {
    ExpectOk(CheckSectionEnds(list, sections, buffers.codes, kErrorBit, error, stream.get()));
    ExpectOk(CheckIndices({supports, supports_dev.data_dev()}, no_error_dev.data_dev(), kErrorBit,
                          stream.get()));
  }
  Decoded decoded;
  EXPECT_EQ(cudaMemcpyAsync(&decoded.num_bytes, buffers.codes.list_ends_dev,
                            sizeof(decoded.num_bytes), cudaMemcpyDeviceToHost, stream.get()),
            cudaSuccess);
  decoded.keys = keys_dev.ToHost(stream);
  const uint32_t found = error_dev.ToHost(stream)[0];
  EXPECT_TRUE(found == 0 || found == kErrorBit);
  decoded.is_valid = found == 0;
  return decoded;
}

void ExpectSameVerdict(const DeltaCoding& coding, const Bytes& section, uint32_t k, uint32_t n,
                       const Stream& stream) {
  std::vector<uint32_t> keys;
  const Status status = CodecOf(coding)->Decode(section, n, k, {0, SerialExecutor()}, &keys);
  const Decoded decoded = DecodeOnDevice(coding, section, k, n, true, stream);
  ASSERT_EQ(decoded.is_valid, status.ok()) << status.message();
  ASSERT_TRUE(!status.ok() || decoded.keys == keys);
}

TEST(PrefixedDeltas, EqualTheCoresAndRoundTrip) {
  const Stream stream;
  for (const IndexCase& index_case : IndexCases()) {
    const std::vector<uint32_t>& keys = index_case.indices;
    const auto k = static_cast<uint32_t>(keys.size());
    if (k == 0) continue;
    for (const DeltaCoding& coding : Codings()) {
      if (k > kCodeBlock && !coding.is_adaptive && coding.flag_bits != 2) continue;  // Too slow.
      SCOPED_TRACE(testing::Message() << index_case.name << ", " << NameOf(coding));
      Bytes section = EncodeOnHost(coding, keys);
      ASSERT_TRUE(EncodeOnDevice(coding, keys, stream) == section);
      ASSERT_TRUE(DecodeOnDevice(coding, section, k, index_case.n, true, stream).is_valid);
      const size_t num_bytes = section.size();
      section.resize(num_bytes + 300, 0xFF);  // Unrelated bytes.
      const Decoded decoded = DecodeOnDevice(coding, section, k, index_case.n, false, stream);
      ASSERT_TRUE(decoded.is_valid);
      ASSERT_EQ(decoded.num_bytes, num_bytes);
      ASSERT_TRUE(decoded.keys == keys);
      ASSERT_FALSE(DecodeOnDevice(coding, section, k, index_case.n, true, stream).is_valid);
    }
  }
}

// Keys with deltas of all sizes, so that each candidate is the cheapest for some keys.
std::vector<uint32_t> RandomKeys(size_t count, uint32_t max_bits, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> keys(count);
  uint32_t key = 0;
  for (uint32_t& element : keys)
    element = key += 1 + random.Below(uint32_t{1} << random.Below(1 + random.Below(max_bits)));
  return keys;
}

TEST(PrefixedDeltas, ChooseTheSchemesOfTheCore) {
  const Stream stream;
  std::vector<int> num_kinds(kNumDeltaPrefixes);
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::vector<uint32_t> keys = RandomKeys(seed % 4 == 0 ? 3 : 400, 1 + seed % 20, seed);
    if (seed % 5 == 0)  // Equal deltas.
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<uint32_t>((i + 1) << seed / 8);
    const Bytes section = EncodeOnHost({true, 0}, keys);
    ++num_kinds[section[0]];
    ASSERT_TRUE(EncodeOnDevice({true, 0}, keys, stream) == section) << seed;
    const auto k = static_cast<uint32_t>(keys.size());
    ASSERT_TRUE(DecodeOnDevice({true, 0}, section, k, kMaxN, true, stream).keys == keys) << seed;
  }
  EXPECT_GE(std::count_if(num_kinds.begin(), num_kinds.end(), [](int n) { return n > 0; }), 5);
}

// Codes that span three words, from any bit on.
TEST(PrefixedDeltas, WriteWideCodesAtAnyBit) {
  const Stream stream;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<uint32_t> keys = RandomKeys(1 + seed, 3, seed);
    for (const uint32_t delta : {3u << 28, 5u << 27, 0x80000001u, 0x0FFFFFFFu})
      keys.push_back(keys.back() + delta);
    for (const DeltaCoding& coding : {DeltaCoding{true, 0}, DeltaCoding{false, 5}})
      ASSERT_TRUE(EncodeOnDevice(coding, keys, stream) == EncodeOnHost(coding, keys)) << seed;
  }
}

// Block by block longer than what is followed at a time, 16384 bits for each of 64 segments.
TEST(PrefixedDeltas, HaveLongBlocks) {
  const Stream stream;
  Random random(4);
  std::vector<uint32_t> keys(kCodeBlock + 1000);
  uint32_t key = 0;
  for (uint32_t& element : keys) element = key += 16000 + random.Below(28000);
  const auto k = static_cast<uint32_t>(keys.size());
  const Bytes section = EncodeOnHost({true, 0}, keys);
  ASSERT_GT(8 * section.size(), 16384 * 64 + 1000 * 32);
  EXPECT_TRUE(DecodeOnDevice({true, 0}, section, k, kMaxN, true, stream).keys == keys);
}

// The header of so many blocks is longer than a tile of bits.
TEST(PrefixedDeltas, HaveManyBlocks) {
  const Stream stream;
  std::vector<uint32_t> keys(18 * kCodeBlock + 5);
  std::iota(keys.begin(), keys.end(), 7);
  const auto k = static_cast<uint32_t>(keys.size());
  const DeltaCoding coding = {false, 1};
  const Decoded decoded =
      DecodeOnDevice(coding, EncodeOnHost(coding, keys), k, kMaxN, true, stream);
  EXPECT_TRUE(decoded.is_valid);
  EXPECT_TRUE(decoded.keys == keys);
}

// Encodes with prefixes that the encoders do not choose: class c has a prefix of lengths[c] bits.
Bytes EncodeWithLengths(const std::vector<uint8_t>& lengths, const std::vector<uint32_t>& keys) {
  AdaptiveSpace space;
  std::copy(lengths.begin(), lengths.end(), space.lengths);
  DeltaScheme scheme;
  SetAdaptiveScheme(static_cast<uint32_t>(lengths.size()), &space, &scheme);
  Bytes section = {4 + 3};  // Huffman words for 16 intervals.
  const size_t num_bytes = BytesOfBits(NumLengthBits(lengths.data(), scheme.num_classes));
  section.resize(1 + num_bytes);
  BitWriter writer(section.data() + 1, section.data() + 1 + num_bytes);
  WriteLengthRuns(lengths.data(), scheme.num_classes, &writer);
  EncodePrefixedDeltas(keys, CountDeltaBits(keys, SerialExecutor()), scheme, SerialExecutor(),
                       &section);
  return section;
}

// Prefixes of 1 to 15 bits, and codes of 47.
TEST(PrefixedDeltas, HaveTheLongestCodes) {
  const Stream stream;
  std::vector<uint8_t> lengths(16, 15);
  std::iota(lengths.begin(), lengths.end() - 1, uint8_t{1});
  std::vector<uint32_t> keys = RandomKeys(3000, 10, 1);
  for (uint32_t bits = 10; bits < 32; ++bits) keys.push_back(keys.back() + (63u << (bits - 6)));
  const auto k = static_cast<uint32_t>(keys.size());
  for (const bool is_reversed : {false, true}) {
    if (is_reversed) std::reverse(lengths.begin(), lengths.end());
    const Bytes section = EncodeWithLengths(lengths, keys);
    const Decoded decoded = DecodeOnDevice({true, 0}, section, k, kMaxN, true, stream);
    EXPECT_TRUE(decoded.is_valid);
    EXPECT_TRUE(decoded.keys == keys);
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict({true, 0}, section, k, kMaxN, stream));
    // The last code begins before the end and extends past it.
    const Bytes cut(section.begin(), section.end() - 1);
    EXPECT_FALSE(DecodeOnDevice({true, 0}, cut, k, kMaxN, false, stream).is_valid);
  }
}

TEST(PrefixedDeltas, RefusePrefixesThatLeaveWordsUnused) {
  const Stream stream;
  std::vector<uint8_t> lengths(16, 0);
  lengths[0] = lengths[1] = 2;
  const std::vector<uint32_t> keys = RandomKeys(300, 3, 1);
  const Bytes section = EncodeWithLengths(lengths, keys);
  EXPECT_FALSE(DecodeOnDevice({true, 0}, section, 300, kMaxN, true, stream).is_valid);
  ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict({true, 0}, section, 300, kMaxN, stream));
}

TEST(PrefixedDeltas, ReadBothWordsOfAnOnlyClass) {
  const Stream stream;
  std::vector<uint8_t> lengths(16, 0);
  lengths[0] = 1;
  std::vector<uint32_t> keys(5000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<uint32_t>(2 * i + 1);
  Bytes section = EncodeWithLengths(lengths, keys);
  const auto k = static_cast<uint32_t>(keys.size());
  const size_t codes_begin = section.size() - BytesOfBits(uint64_t{3} * k);
  for (size_t i = 0; i < k; i += 7) {
    const size_t bit = 3 * i;
    section[codes_begin + bit / 8] |= static_cast<unsigned char>(1 << bit % 8);
  }
  EXPECT_TRUE(DecodeOnDevice({true, 0}, section, k, kMaxN, true, stream).is_valid);
  ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict({true, 0}, section, k, kMaxN, stream));
}

TEST(PrefixedDeltas, HeadersOfHuffmanWordsGetTheSameVerdict) {
  const Stream stream;
  int num_tried = 0;
  for (uint64_t seed = 0; num_tried < 4; ++seed) {
    const std::vector<uint32_t> keys = RandomKeys(300, 1 + seed % 20, seed);
    const Bytes section = EncodeOnHost({true, 0}, keys);
    if (!DeltaPrefix::OfKind(section[0]).is_huffman) continue;
    ++num_tried;
    for (size_t bit = 0; bit < 8 * 10; ++bit) {
      Bytes changed = section;
      changed[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", bit " << bit);
      ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict({true, 0}, changed, 300, kMaxN, stream));
    }
  }
}

TEST(PrefixedDeltas, HeadersOfFlagsGetTheSameVerdict) {
  const Stream stream;
  const std::pair<int, int> headers[] = {{0, 0},  {0, 8},     {1, 0}, {6, 8},
                                         {5, 33}, {255, 255}, {1, 1}};
  for (const auto& [flag_bits, largest_bits] : headers) {
    const Bytes section = {static_cast<unsigned char>(flag_bits),
                           static_cast<unsigned char>(largest_bits), 0};
    SCOPED_TRACE(testing::Message() << flag_bits << ", " << largest_bits);
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict({false, 2}, section, 1, kMaxN, stream));
  }
}

// Two blocks: changes the last key of the first one, its length, and codes.
TEST(PrefixedDeltas, ChangedBytesOfSeveralBlocksGetTheSameVerdict) {
  const Stream stream;
  const std::vector<uint32_t> keys = RandomKeys(kCodeBlock + 300, 3, 9);
  const auto k = static_cast<uint32_t>(keys.size());
  for (const DeltaCoding& coding : {Codings()[0], Codings()[2]}) {
    const Bytes section = EncodeOnHost(coding, keys);
    Random random(1);
    for (size_t i = 0; i < 24; ++i) {
      Bytes changed = section;
      const size_t at = i < 16 ? i : random.Below(static_cast<uint32_t>(section.size()));
      changed[at] ^= static_cast<unsigned char>(i % 3 == 0 ? 0x80 : 1 + random.Below(255));
      SCOPED_TRACE(testing::Message() << NameOf(coding) << ", byte " << at);
      ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(coding, changed, k, kMaxN, stream));
    }
    for (const size_t size : {size_t{0}, size_t{1}, size_t{5}, size_t{10}, section.size() - 1}) {
      const Bytes cut(section.begin(), section.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_FALSE(DecodeOnDevice(coding, cut, k, kMaxN, false, stream).is_valid) << size;
    }
  }
}

// Errors that the sums of the deltas do not show: a block whose keys continue from a wrong last
// key, and a block with bytes after its codes.
TEST(PrefixedDeltas, BlocksEndWhereTheSectionSays) {
  const Stream stream;
  const DeltaCoding coding = {false, 2};
  const std::vector<uint32_t> keys = RandomKeys(kCodeBlock + 300, 3, 9);
  const auto k = static_cast<uint32_t>(keys.size());
  const Bytes section = EncodeOnHost(coding, keys);
  Bytes later = section;
  StoreUnaligned(&later[2], keys[kCodeBlock - 1] + 1);
  EXPECT_FALSE(DecodeOnDevice(coding, later, k, kMaxN, true, stream).is_valid);
  Bytes longer = section;
  const auto num_bytes = LoadUnaligned<uint32_t>(&section[6]);
  StoreUnaligned(&longer[6], num_bytes + 1);
  longer.insert(longer.begin() + 10 + num_bytes, 0);
  EXPECT_FALSE(DecodeOnDevice(coding, longer, k, kMaxN, true, stream).is_valid);
  for (const Bytes& changed : {section, later, longer})
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(coding, changed, k, kMaxN, stream));
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
