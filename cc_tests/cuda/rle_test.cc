// The index codec rle on the device: writes the core's bytes, and accepts what the core accepts.
#include "cuda/rle.h"

#include <gtest/gtest.h>

#include <numeric>

#include "contract_inputs.h"
#include "core/byte_io.h"
#include "core/codec.h"
#include "core/hash.h"
#include "device_memory.h"
#include "make_part.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kErrorBit = 4;
constexpr auto kBlock = static_cast<uint32_t>(kCodeBlock);

Bytes EncodeOnHost(const std::vector<uint32_t>& indices, uint32_t n) {
  Bytes section;
  ExpectOk(MakePart<IndexCodec>("rle")->Encode(indices, n, {}, &section).status());
  return section;
}

// Encodes with room for max_k indices.
Bytes EncodeOnDevice(const std::vector<uint32_t>& indices, uint32_t n, uint32_t max_k,
                     const Stream& stream) {
  const auto k = static_cast<uint32_t>(indices.size());
  RleWriteBuffers buffers;
  Workspace measure;
  ExpectOk(TakeRleWriteBuffers(n, max_k, &measure, &buffers));
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeRleWriteBuffers(n, max_k, &carve, &buffers));
  const DeviceVector<uint32_t> indices_dev(indices, stream), k_dev({k}, stream);
  const DeviceVector<unsigned char> section_dev(MaxRleBytes(n, max_k));
  ExpectOk(MeasureRuns(indices_dev.data_dev(), k_dev.data_dev(), buffers, stream.get()));
  ExpectOk(WriteRuns(indices_dev.data_dev(), k_dev.data_dev(), buffers, section_dev.data_dev(),
                     stream.get()));
  uint64_t num_bytes = 0;
  EXPECT_EQ(cudaMemcpyAsync(&num_bytes, buffers.num_bytes_dev(), sizeof(num_bytes),
                            cudaMemcpyDeviceToHost, stream.get()),
            cudaSuccess);
  Bytes section = section_dev.ToHost(stream);
  section.resize(num_bytes);
  return section;
}

// Expects core and device to decode the section to the same indices, or both to refuse it.
void ExpectSameVerdict(const Bytes& section, uint32_t k, uint32_t n, bool* is_valid,
                       const Stream& stream) {
  std::vector<uint32_t> expected;
  *is_valid = MakePart<IndexCodec>("rle")->Decode(section, n, k, {}, &expected).ok();
  RleReadBuffers buffers;
  Workspace measure;
  ExpectOk(TakeRleReadBuffers(RleExtentOf(k, section.size()), &measure, &buffers));
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  ExpectOk(TakeRleReadBuffers(RleExtentOf(k, section.size()), &carve, &buffers));
  const DeviceVector<unsigned char> section_dev(section, stream);
  const DeviceVector<uint32_t> indices_dev(k), error_dev({0}, stream);
  ExpectOk(ReadRuns({section_dev.data_dev(), section.size(), n, k}, buffers, kErrorBit,
                    error_dev.data_dev(), indices_dev.data_dev(), stream.get()));
  ASSERT_EQ(error_dev.ToHost(stream)[0], *is_valid ? 0 : kErrorBit);
  ASSERT_TRUE(!*is_valid || indices_dev.ToHost(stream) == expected);
}

void ExpectTaken(const Bytes& section, uint32_t k, uint32_t n, const Stream& stream) {
  bool is_valid = false;
  ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(section, k, n, &is_valid, stream));
  ASSERT_TRUE(is_valid);
}

void ExpectRefused(const Bytes& section, uint32_t k, uint32_t n, const Stream& stream) {
  bool is_valid = true;
  ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(section, k, n, &is_valid, stream));
  ASSERT_FALSE(is_valid);
}

void ExpectTheCoresAndBack(const std::vector<uint32_t>& indices, uint32_t n, const Stream& stream) {
  const auto k = static_cast<uint32_t>(indices.size());
  const Bytes section = EncodeOnHost(indices, n);
  ASSERT_TRUE(EncodeOnDevice(indices, n, k, stream) == section);
  ASSERT_NO_FATAL_FAILURE(ExpectTaken(section, k, n, stream));
}

// A section of one block, made by hand, with any parameters and any runs.
class Section {
 public:
  Section(uint32_t num_runs, uint8_t zero_bits, uint8_t one_bits) {
    for (int byte = 0; byte < 4; ++byte)
      bytes_.push_back(static_cast<unsigned char>(num_runs >> (8 * byte)));
    bytes_.push_back(zero_bits);
    bytes_.push_back(one_bits);
  }
  // Adds a run length; zeros and ones alternate.
  Section& Add(uint64_t number) {
    const int r = bytes_[num_numbers_++ % 2 == 0 ? 4 : 5];
    for (uint64_t zeros = number >> r; zeros > 0; --zeros) AddBit(false);
    AddBit(true);
    for (int bit = 0; bit < r; ++bit) AddBit(number >> bit & 1);
    return *this;
  }
  Section& AddBit(bool bit) {
    if (num_bits_ % 8 == 0) bytes_.push_back(0);
    if (bit) bytes_.back() = static_cast<unsigned char>(bytes_.back() | 1 << (num_bits_ % 8));
    ++num_bits_;
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  size_t num_numbers_ = 0;
  size_t num_bits_ = 0;
};

std::vector<uint32_t> Range(uint32_t begin, uint32_t end, uint32_t step = 1) {
  std::vector<uint32_t> indices;
  for (uint32_t i = begin; i < end; i += step) indices.push_back(i);
  return indices;
}

// Runs of zeros and ones up to these lengths, with lengths of many orders of magnitude.
std::vector<uint32_t> RandomRuns(uint32_t n, uint32_t max_zeros, uint32_t max_ones, uint64_t seed) {
  Random random(seed);
  const auto length = [&](uint32_t max) { return 1 + random.Below(1 + random.Below(max)); };
  std::vector<uint32_t> indices;
  for (uint32_t i = length(max_zeros) - 1; i < n; i += length(max_zeros)) {
    for (uint32_t ones = length(max_ones); ones > 0 && i < n; --ones) indices.push_back(i++);
  }
  return indices;
}

// ---- Sections that the core writes --------------------------------------------------------------

TEST(RleIndex, EqualsTheCoresAndRoundTrips) {
  const Stream stream;
  for (const IndexCase& index_case : IndexCases()) {
    if (index_case.indices.empty()) continue;
    SCOPED_TRACE(index_case.name);
    ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(index_case.indices, index_case.n, stream));
  }
}

// Numbers of runs and of indices around tiles of both.
TEST(RleIndex, HasAnyNumberOfRuns) {
  const Stream stream;
  for (const uint32_t k : {1u, 31u, 32u, 33u, 1023u, 1024u, 1025u, 2048u, 2050u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(Range(0, k), k, stream)) << k;
    ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(Range(0, 2 * k, 2), 2 * k, stream)) << k;
    ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(Range(1, 2 * k, 2), 2 * k, stream)) << k;
    ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(Range(70, 100 * k, 99), 100 * k, stream)) << k;
  }
}

// Parameters of all sizes, and codes whose low bits are cut by tiles at any bit.
TEST(RleIndex, HasRunsOfAllSizes) {
  const Stream stream;
  for (const uint32_t max_zeros : {1u, 30u, 1000u, 100000u})
    for (const uint32_t max_ones : {1u, 30u, 1000u}) {
      const uint32_t n = 1000 * (max_zeros + max_ones);
      ASSERT_NO_FATAL_FAILURE(
          ExpectTheCoresAndBack(RandomRuns(n, max_zeros, max_ones, n), n, stream));
    }
}

TEST(RleIndex, HasLargestNumbers) {
  const Stream stream;
  constexpr auto kN = static_cast<uint32_t>(kMaxElements);
  ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack({kN - 1}, kN, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack({0, kN - 1}, kN, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(Range(kN - 3000, kN), kN, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(Range(1000, kN, kN / 3000), kN, stream));
}

// Unary parts that span several tiles, of zeros and of ones, also as the first and the last code.
TEST(RleIndex, HasUnaryPartsLongerThanTiles) {
  const Stream stream;
  for (const uint32_t length : {900u, 1024u, 2047u, 5000u, 40000u}) {
    std::vector<uint32_t> zeros, ones;
    uint32_t n = 0;
    for (const uint32_t num_short : {0u, 1u, 400u, 511u, 3000u}) {
      for (uint32_t i = 0; i < num_short; ++i) zeros.push_back(n + 2 * i);
      n += 2 * num_short + length;
    }
    zeros.push_back(n);
    ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(zeros, n + 1, stream)) << length;
    for (uint32_t i = 0, next = 0; i < n; ++i) {
      if (next < zeros.size() && zeros[next] == i) {
        ++next;
      } else {
        ones.push_back(i);
      }
    }
    ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(ones, n + 1, stream)) << length;
  }
}

TEST(RleIndex, HasSeveralBlocks) {
  const Stream stream;
  for (const uint32_t num_runs : {kBlock - 1, kBlock, kBlock + 1, 2 * kBlock + 5}) {
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < num_runs; ++i) indices.push_back(3 * i + i % 2);
    ASSERT_NO_FATAL_FAILURE(ExpectTheCoresAndBack(indices, 3 * num_runs, stream)) << num_runs;
  }
}

TEST(RleIndex, MayHaveFewerIndicesThanThereIsRoomFor) {
  const Stream stream;
  for (const uint32_t n : {3000u, 200000u}) {
    for (const uint32_t step : {1u, 2u, 7u, 1000u}) {
      const std::vector<uint32_t> indices = Range(5, n, step);
      ASSERT_TRUE(EncodeOnDevice(indices, n, n, stream) == EncodeOnHost(indices, n)) << step;
    }
  }
}

// ---- Sections that nobody writes ----------------------------------------------------------------

// All parameters, including those that no encoder chooses: all states in which a tile may begin.
TEST(RleIndex, TakesAnyParameters) {
  const Stream stream;
  for (const auto& [zero_bits, one_bits] : {std::pair<int, int>{0, 0},
                                            {31, 31},
                                            {31, 0},
                                            {0, 31},
                                            {1, 2},
                                            {31, 30},
                                            {29, 31},
                                            {17, 30}}) {
    SCOPED_TRACE(testing::Message() << zero_bits << " and " << one_bits);
    Random random(static_cast<uint64_t>(32 * zero_bits + one_bits));
    Section section(4000, static_cast<uint8_t>(zero_bits), static_cast<uint8_t>(one_bits));
    uint32_t k = 0, n = 0;
    for (uint32_t i = 0; i < 4000; ++i) {
      const uint32_t zeros = random.Below(3), ones = random.Below(9);
      section.Add(zeros).Add(ones);
      k += ones + 1;
      n += zeros + ones + (i == 0 ? 1 : 2);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectTaken(section.bytes(), k, n, stream));
    ASSERT_NO_FATAL_FAILURE(ExpectTaken(section.bytes(), k, n + 1, stream));
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(section.bytes(), k, n - 1, stream));
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(section.bytes(), k + 1, n + 1, stream));
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(section.bytes(), k - 1, n, stream));
  }
}

// One unary part of many tiles without any code, enough of them to compose maps twice.
TEST(RleIndex, TakesUnaryPartsOfManyTiles) {
  const Stream stream;
  constexpr uint32_t kLength = 33 * 32 * 1024;
  const Bytes zeros = Section(1, 0, 3).Add(kLength).Add(4).bytes();
  ASSERT_NO_FATAL_FAILURE(ExpectTaken(zeros, 5, kLength + 5, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectRefused(zeros, 5, kLength + 4, stream));
  const Bytes ones = Section(1, 20, 0).Add(7).Add(kLength).bytes();
  ASSERT_NO_FATAL_FAILURE(ExpectTaken(ones, kLength + 1, kLength + 8, stream));
  ASSERT_NO_FATAL_FAILURE(ExpectRefused(ones, kLength, kLength + 8, stream));
}

TEST(RleIndex, RefusesHeadersOfNoSection) {
  const Stream stream;
  const Bytes section = Section(2, 1, 0).Add(4).Add(0).Add(2).Add(0).bytes();
  ASSERT_NO_FATAL_FAILURE(ExpectTaken(section, 2, 300, stream));
  for (size_t size = 0; size < section.size(); ++size) {
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(
        Bytes(section.begin(), section.begin() + static_cast<ptrdiff_t>(size)), 2, 300, stream));
  }
  for (const uint32_t num_runs : {0u, 1u, 3u, 0xFFFFu, 0x10001u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    Bytes changed = section;
    StoreUnaligned(changed.data(), num_runs);
    for (const uint32_t k : {1u, 2u, 3u, 200000u})
      ASSERT_NO_FATAL_FAILURE(ExpectRefused(changed, k, 300000, stream));
  }
  for (const unsigned char num_bits : {32, 33, 63, 64, 128, 255})
    for (const size_t at : {size_t{4}, size_t{5}}) {
      Bytes changed = section;
      changed[at] = num_bits;
      ASSERT_NO_FATAL_FAILURE(ExpectRefused(changed, 2, 300, stream));
    }
}

TEST(RleIndex, EndsWithItsLastCode) {
  const Stream stream;
  for (uint32_t number = 0; number < 17; ++number) {
    Section section(1, 0, 0);
    section.Add(number).Add(0);
    ASSERT_NO_FATAL_FAILURE(ExpectTaken(section.bytes(), 1, 20, stream));
    Bytes longer = section.bytes(), shorter = section.bytes();
    longer.push_back(0);
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(longer, 1, 20, stream));
    shorter.pop_back();
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(shorter, 1, 20, stream));
    if ((number + 2) % 8 == 0) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(section.AddBit(true).bytes(), 1, 20, stream));
  }
}

// Low bits that the end of the section cuts, at the end of a tile and elsewhere.
TEST(RleIndex, RefusesCodesThatAreCut) {
  const Stream stream;
  for (const uint32_t unary : {3u, 1024u - 20, 1024u - 17, 1024u - 9, 2048u - 17}) {
    Section section(1, 0, 16);
    section.Add(unary).Add(0);
    const Bytes& bytes = section.bytes();
    ASSERT_NO_FATAL_FAILURE(ExpectTaken(bytes, 1, unary + 1, stream)) << unary;
    for (size_t num_cut = 1; num_cut <= 3; ++num_cut) {
      const Bytes cut(bytes.begin(), bytes.end() - static_cast<ptrdiff_t>(num_cut));
      ASSERT_NO_FATAL_FAILURE(ExpectRefused(cut, 1, unary + 1, stream)) << unary;
    }
  }
}

// Endless zeros, and lengths above the largest index, alone and as sums.
TEST(RleIndex, RefusesRunsThatAreTooLong) {
  const Stream stream;
  constexpr auto kN = static_cast<uint32_t>(kMaxElements);
  for (const size_t num_bytes : {size_t{1}, size_t{20}, size_t{128}, size_t{5000}}) {
    for (const uint8_t r : {0, 31}) {
      Bytes section = Section(1, r, r).bytes();
      section.resize(section.size() + num_bytes, 0);
      ASSERT_NO_FATAL_FAILURE(ExpectRefused(section, 1, kN, stream));
      section.back() = 0xC0;  // Two ones at the end.
      bool is_valid = false;
      ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(section, 1, kN, &is_valid, stream));
      ASSERT_EQ(is_valid, r == 0);
    }
  }
  // 2^31 + 1, and numbers whose sum is 1 modulo 2^32 and modulo 2^33.
  const uint64_t two_31 = uint64_t{1} << 31;
  ASSERT_NO_FATAL_FAILURE(
      ExpectRefused(Section(1, 31, 0).Add(two_31).Add(0).bytes(), 1, kN, stream));
  ASSERT_NO_FATAL_FAILURE(
      ExpectRefused(Section(1, 0, 31).Add(0).Add(two_31).bytes(), 1, kN, stream));
  ASSERT_NO_FATAL_FAILURE(
      ExpectRefused(Section(1, 0, 31).Add(0).Add(2 * two_31).bytes(), 1, kN, stream));
  for (const uint32_t num_runs : {2u, 4u, 64u}) {
    Section zeros(num_runs, 31, 31), ones(num_runs, 31, 31);
    for (uint32_t i = 0; i < num_runs; ++i) {
      zeros.Add(two_31 - (i > 0)).Add(0);
      ones.Add(0).Add(two_31 - (i > 0));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(zeros.bytes(), num_runs, kN, stream));
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(ones.bytes(), num_runs, kN, stream));
  }
}

// Wrong lengths of blocks, and blocks with too many or too few codes.
TEST(RleIndex, BlocksEndWithTheirLastCodes) {
  const Stream stream;
  const std::vector<uint32_t> indices = Range(1, 2 * (kBlock + 10), 2);
  const auto k = static_cast<uint32_t>(indices.size());
  const uint32_t n = 2 * k;
  const Bytes section = EncodeOnHost(indices, n);
  const auto num_bytes = LoadUnaligned<uint32_t>(section.data() + kRleHeaderBytes);
  ASSERT_NO_FATAL_FAILURE(ExpectTaken(section, k, n, stream));
  Bytes longer = section;
  StoreUnaligned(longer.data() + kRleHeaderBytes, num_bytes + 1);
  ASSERT_NO_FATAL_FAILURE(ExpectRefused(longer, k, n, stream));
  longer.insert(longer.begin() + kRleHeaderBytes + 4 + num_bytes, 0);
  ASSERT_NO_FATAL_FAILURE(ExpectRefused(longer, k, n, stream));
  for (const uint32_t changed : {0u, 1u, num_bytes - 1, num_bytes + 3, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    longer = section;
    StoreUnaligned(longer.data() + kRleHeaderBytes, changed);
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(longer, k, n, stream));
  }
}

TEST(RleIndex, TakesTheBytesThatTheCoreTakes) {
  const Stream stream;
  Random random(1);
  int num_valid = 0;
  for (int i = 0; i < 300; ++i) {
    const uint32_t num_runs = 1 + random.Below(20);
    Section section(num_runs, static_cast<uint8_t>(random.Below(5)),
                    static_cast<uint8_t>(random.Below(5)));
    uint32_t k = num_runs;
    for (uint32_t run = 0; run < num_runs; ++run) {
      const uint32_t ones = random.Below(300);
      section.Add(random.Below(300)).Add(ones);
      k += ones;
    }
    Bytes bytes = section.bytes();
    for (uint32_t flips = random.Below(3); flips > 0; --flips) {
      const uint32_t at = random.Below(static_cast<uint32_t>(bytes.size()));
      bytes[at] = static_cast<unsigned char>(bytes[at] ^ 1u << random.Below(8));
    }
    bool is_valid = false;
    ASSERT_NO_FATAL_FAILURE(ExpectSameVerdict(bytes, k, 20000, &is_valid, stream)) << i;
    num_valid += is_valid;
  }
  EXPECT_GT(num_valid, 50);
  EXPECT_LT(num_valid, 250);
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
