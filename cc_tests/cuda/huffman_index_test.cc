// The index codec huffman on the device: writes the core's bytes, and accepts what the core
// accepts.
#include "cuda/huffman_index.h"

#include <gtest/gtest.h>

#include <numeric>

#include "contract_inputs.h"
#include "core/hash.h"
#include "cuda/index_sections.h"
#include "device_memory.h"
#include "make_part.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kErrorBit = 4;

Bytes EncodeOnHost(const std::vector<uint32_t>& indices, uint32_t n) {
  Bytes section;
  ExpectOk(MakePart<IndexCodec>("huffman")->Encode(indices, n, {}, &section).status());
  return section;
}

Bytes EncodeOnDevice(const std::vector<uint32_t>& indices, uint32_t n, size_t num_bytes,
                     const Stream& stream) {
  const ByteCode code = ByteCode::For(n);
  const auto k = static_cast<uint32_t>(indices.size());
  HuffmanWriteBuffers buffers;
  Workspace measure;
  ExpectOk(TakeHuffmanWriteBuffers(code, k, &measure, &buffers));
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeHuffmanWriteBuffers(code, k, &carve, &buffers));
  const DeviceVector<uint32_t> indices_dev(indices, stream), k_dev({k}, stream);
  const DeviceVector<unsigned char> section_dev(num_bytes);
  ExpectOk(
      MeasureHuffmanIndices(code, indices_dev.data_dev(), k_dev.data_dev(), buffers, stream.get()));
  ExpectOk(WriteHuffmanIndices(indices_dev.data_dev(), k_dev.data_dev(), buffers,
                               section_dev.data_dev(), stream.get()));
  return section_dev.ToHost(stream);
}

// Expects core and device to decode the section to the same indices, or both to refuse it.
void ExpectSameVerdict(const Bytes& section, uint32_t k, uint32_t n, bool is_valid,
                       const Stream& stream) {
  std::vector<uint32_t> expected;
  const Status status = MakePart<IndexCodec>("huffman")->Decode(section, n, k, {}, &expected);
  ASSERT_EQ(status.ok(), is_valid) << status.message();
  const CodeExtent extent = ExtentOf(1, k, section.size());
  HuffmanReadBuffers buffers;
  Workspace measure;
  ExpectOk(TakeHuffmanReadBuffers(extent, &measure, &buffers));
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeHuffmanReadBuffers(extent, &carve, &buffers));
  const DeviceVector<unsigned char> section_dev(section, stream);
  const DeviceVector<uint32_t> indices_dev(k), error_dev({0}, stream);
  uint32_t* error = error_dev.data_dev();
  ExpectOk(ReadHuffmanIndices(ByteCode::For(n), section_dev.data_dev(), section.size(), k, buffers,
                              kErrorBit, error, indices_dev.data_dev(), stream.get()));
  ExpectOk(CheckIndices(indices_dev.data_dev(), k, n, kErrorBit, error, stream.get()));
  ASSERT_EQ(error_dev.ToHost(stream)[0], is_valid ? 0 : kErrorBit);
  ASSERT_TRUE(!is_valid || indices_dev.ToHost(stream) == expected);
}

TEST(HuffmanIndex, EqualsTheCoresAndRoundTrips) {
  const Stream stream;
  for (const IndexCase& index_case : IndexCases()) {
    const auto k = static_cast<uint32_t>(index_case.indices.size());
    if (k == 0) continue;
    SCOPED_TRACE(index_case.name);
    const Bytes section = EncodeOnHost(index_case.indices, index_case.n);
    ASSERT_TRUE(EncodeOnDevice(index_case.indices, index_case.n, section.size(), stream) ==
                section);
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(section, k, index_case.n, true, stream));
  }
}

// Bytes of all values in all places.
TEST(HuffmanIndex, TakesTheLargestIndices) {
  const Stream stream;
  for (const uint32_t n : {1u << 17, (1u << 24) + 77, 1u << 31, 0xFFFFFFFFu}) {
    Random random(n);
    std::vector<uint32_t> indices;
    for (uint64_t i = 0; i < n - n / 1000; i += 1 + random.Below(n / 1500))
      indices.push_back(static_cast<uint32_t>(i));
    indices.push_back(n - 1);
    const auto k = static_cast<uint32_t>(indices.size());
    const Bytes section = EncodeOnHost(indices, n);
    ASSERT_TRUE(EncodeOnDevice(indices, n, section.size(), stream) == section) << n;
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(section, k, n, true, stream));
  }
}

// The only index below 1 is four words of one-word codes: any four bits.
TEST(HuffmanIndex, ReadsBothWordsOfAByteThatIsAlone) {
  const Stream stream;
  for (const unsigned char byte : {0x00, 0x0F, 0x05})
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict({byte}, 1, 1, true, stream));
  for (const unsigned char byte : {0x10, 0xFF})
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict({byte}, 1, 1, false, stream));
}

// A block with a byte after its codes, and wrong lengths.
TEST(HuffmanIndex, BlocksEndWithTheirLastCodes) {
  const Stream stream;
  constexpr uint32_t kN = 70000;
  const auto k = static_cast<uint32_t>(kCodeBlock + 10);
  std::vector<uint32_t> indices(k);
  std::iota(indices.begin(), indices.end(), 0u);
  const Bytes section = EncodeOnHost(indices, kN);
  const auto num_bytes = LoadUnaligned<uint32_t>(section.data());
  Bytes longer = section;
  StoreUnaligned(longer.data(), num_bytes + 1);
  longer.insert(longer.begin() + 4 + num_bytes, 0);
  ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(section, k, kN, true, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(longer, k, kN, false, stream));
  for (const uint32_t changed : {0u, num_bytes - 1, num_bytes + 1, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    StoreUnaligned(longer.data(), changed);
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(longer, k, kN, false, stream));
  }
}

TEST(HuffmanIndex, EndsWithItsLastCode) {
  const Stream stream;
  constexpr uint32_t kN = 300;
  int num_padded = 0;
  for (uint32_t k = 1; k < 20; ++k) {
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < k; ++i) indices.push_back(13 * i);
    const Bytes section = EncodeOnHost(indices, kN);
    Bytes longer = section, shorter = section, padded = section;
    longer.push_back(0);
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(longer, k, kN, false, stream));
    shorter.pop_back();
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(shorter, k, kN, false, stream));
    const HuffmanCode code = ByteCodeFor(kN);
    uint64_t num_bits = 0;
    for (const uint32_t index : indices)
      for (int byte = 0; byte < kBytesPerIndex; ++byte)
        num_bits += code.lengths()[index >> (8 * byte) & 0xFF];
    if (num_bits % 8 == 0) continue;
    ++num_padded;
    padded.back() |= 0x80;
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(padded, k, kN, false, stream));
  }
  EXPECT_GT(num_padded, 0);
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
