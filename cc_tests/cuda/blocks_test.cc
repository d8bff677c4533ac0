// The building blocks of the device variants, each against the core or a plain loop.
#include <gtest/gtest.h>

#include <algorithm>

#include "contract_inputs.h"
#include "core/crc32c.h"
#include "core/entropy/delta_bytes.h"
#include "core/hash.h"
#include "core/seeded_support.h"
#include "core/value/block_statistics.h"
#include "cuda/compensate.h"
#include "cuda/crc32c.h"
#include "cuda/cuda_status.h"
#include "cuda/delta_bytes.h"
#include "cuda/marks.h"
#include "cuda/sampled_bound.h"
#include "cuda/scan.h"
#include "cuda/select_counts.h"
#include "cuda/value_statistics.h"
#include "device_inputs.h"
#include "device_memory.h"
#include "fuzz/frame_fields.h"
#include "given_values.h"

namespace tfcompress {
namespace device {
namespace {

TEST(FromCuda, NamesTheOperationAndTheError) {
  EXPECT_TRUE(FromCuda(cudaSuccess, "something").ok());
  ExpectError(FromCuda(cudaErrorInvalidValue, "something"), StatusCode::kInternal,
              "something: cudaErrorInvalidValue");
}

TEST(FromCuda, LetsTheHostGoOnWhereTheBuildHasNoCodeForTheGpu) {
  for (cudaError_t error : {cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion})
    ExpectError(FromCuda(error, "something"), StatusCode::kInvalidArgument, "for other GPUs");
}

TEST(FromCuda, ReportsAnErrorOnce) {
  EXPECT_FALSE(FromCuda(cudaSetDevice(-1), "making the device current").ok());
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST(Workspace, TakesWhatItMeasured) {
  const auto take = [](Workspace* workspace) {
    workspace->Take<unsigned char>(3);
    workspace->Take<uint64_t>(0);
    return workspace->Take<uint64_t>(100);
  };
  Workspace measure;
  EXPECT_EQ(take(&measure), nullptr);
  EXPECT_EQ(measure.num_bytes(), 256u + 1024u);
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  EXPECT_EQ(static_cast<void*>(take(&carve)), memory.data_dev() + 256);
  EXPECT_EQ(carve.num_bytes(), measure.num_bytes());
}

TEST(ScanCounts, SumsWhatIsBefore) {
  const Stream stream;
  for (size_t size : {0, 1, 255, 256, 1000, 8191, 8192, 70000}) {
    std::vector<uint64_t> counts(size + 1), expected(size + 1);
    for (size_t i = 0; i < size; ++i) {
      counts[i] = HashKey(i, 1) >> 24;
      expected[i + 1] = expected[i] + counts[i];
    }
    const DeviceVector<uint64_t> counts_dev(counts, stream);
    ExpectOk(ScanCounts(counts_dev.data_dev(), size, stream.get()));
    EXPECT_TRUE(counts_dev.ToHost(stream) == expected) << size;
  }
}

// Where the largest elements can be told from the others, the candidates are all of them, and no
// more than there is room for.
TEST(FindBounds, IsMetByTheLargestAndFewOthers) {
  const Stream stream;
  constexpr uint32_t kSize = 150000;
  std::vector<float> long_tail = Gradient(kSize, 2);
  for (float& value : long_tail) value = value * value * value;
  for (const std::vector<float>& values : {Gradient(kSize, 1), long_tail}) {
    std::vector<uint32_t> magnitudes;
    for (float value : values) magnitudes.push_back(MagnitudeBits(value));
    std::sort(magnitudes.rbegin(), magnitudes.rend());
    const DeviceVector<float> values_dev(values, stream);
    for (uint32_t k : {15u, 150u, 1500u, 15000u, 75000u, kSize}) {
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const DeviceVector<EncodeState> state(1);
        const DeviceVector<SelectCounts> counts(1);
        EncodedFrame vector = AsTheyAre(values_dev.data_dev(), kSize, state.data_dev());
        vector.select.sample = SampleSizeOf(kSize, k);
        vector.select.counts_dev = counts.data_dev();
        vector.header.seed = seed;
        ExpectOk(FindBounds(Alone(vector), stream.get()));
        const uint32_t bound = state.ToHost(stream)[0].min_magnitude;
        EXPECT_LE(bound, std::max(magnitudes[k - 1], 1u)) << k;
        const auto others = std::partition_point(magnitudes.begin(), magnitudes.end(),
                                                 [&](uint32_t other) { return other >= bound; });
        EXPECT_LE(others - magnitudes.begin(), vector.select.sample.capacity) << k;
      }
    }
  }
}

// Marks in memory of their own.
struct OwnMarks {
  Marks marks;
  std::unique_ptr<DeviceVector<unsigned char>> memory;

  explicit OwnMarks(uint32_t n) {
    Workspace measure;
    TakeMarks(n, &measure, &marks);
    memory = std::make_unique<DeviceVector<unsigned char>>(measure.num_bytes());
    Workspace carve(memory->data_dev());
    TakeMarks(n, &carve, &marks);
  }

  void Set(const std::vector<uint32_t>& indices, const Stream& stream) const {
    std::vector<uint32_t> words(marks.num_tiles() * kTileWords);
    for (uint32_t index : indices) words[index / 32] |= 1u << (index % 32);
    EXPECT_EQ(cudaMemcpyAsync(marks.words_dev, words.data(), words.size() * sizeof(uint32_t),
                              cudaMemcpyHostToDevice, stream.get()),
              cudaSuccess);
    ExpectOk(CountMarks(marks, stream.get()));
    stream.Synchronize();
  }
};

TEST(Marks, ListWhatIsMarkedInOrder) {
  const Stream stream;
  for (const IndexCase& index_case : IndexCases()) {
    OwnMarks own(index_case.n);
    const auto k = static_cast<uint32_t>(index_case.indices.size());
    const DeviceVector<uint32_t> listed_dev(k);
    own.Set(index_case.indices, stream);
    ExpectOk(ScanMarks(own.marks, stream.get()));
    ExpectOk(ListMarks(own.marks, k, listed_dev.data_dev(), stream.get()));
    EXPECT_TRUE(listed_dev.ToHost(stream) == index_case.indices) << index_case.name;
  }
}

TEST(Marks, AreNotListedBeyondTheCapacity) {
  const Stream stream;
  OwnMarks own(100);
  const std::vector<uint32_t> before = {7, 7};
  const DeviceVector<uint32_t> listed_dev(before, stream);
  own.Set({1, 50, 99}, stream);
  ExpectOk(ScanMarks(own.marks, stream.get()));
  ExpectOk(ListMarks(own.marks, 2, listed_dev.data_dev(), stream.get()));
  EXPECT_EQ(listed_dev.ToHost(stream), before);
}

TEST(Marks, OfVectorsSideBySideAreScannedTogether) {
  const Stream stream;
  OwnMarks own(3 * kTileElements);
  const Marks first = own.marks.Slice(0, 1500), second = own.marks.Slice(2, 700);
  own.Set({0, 1023, 1024, 1499, 2048 + 5, 2048 + 699}, stream);
  ExpectOk(ScanMarks(own.marks, stream.get()));
  const DeviceVector<uint32_t> of_first(4), of_second(2);
  ExpectOk(ListMarks(first, 4, of_first.data_dev(), stream.get()));
  ExpectOk(ListMarks(second, 2, of_second.data_dev(), stream.get()));
  EXPECT_EQ(of_first.ToHost(stream), (std::vector<uint32_t>{0, 1023, 1024, 1499}));
  EXPECT_EQ(of_second.ToHost(stream), (std::vector<uint32_t>{5, 699}));
}

TEST(Marks, OfASeedAreItsSupport) {
  const Stream stream;
  for (const auto& [n, k] : std::vector<std::pair<uint32_t, uint32_t>>{
           {1, 1}, {10, 3}, {1024, 1024}, {5000, 70}, {70000, 20000}}) {
    OwnMarks own(n);
    const DeviceVector<uint32_t> listed_dev(k);
    ExpectOk(ClearMarks(own.marks, stream.get()));
    ExpectOk(MarkSeeded(SeededPermutation(n, 5), k, own.marks, stream.get()));
    ExpectOk(CountMarks(own.marks, stream.get()));
    ExpectOk(ScanMarks(own.marks, stream.get()));
    ExpectOk(ListMarks(own.marks, k, listed_dev.data_dev(), stream.get()));
    EXPECT_TRUE(listed_dev.ToHost(stream) == SeededSupport(n, k, 5, SerialExecutor())) << n;
  }
}

// Tests the sums directly: float sections would hide their last bits.
TEST(SumSquares, HaveTheBitsOfTheCore) {
  const Stream stream;
  // The order of terms changes few sums: many are needed.
  std::vector<size_t> sizes = {1021, 1023, 1024, 1027, 65535, 65536, 200001};
  for (size_t n = 1; n < 200; ++n) sizes.push_back(n);
  std::vector<std::vector<float>> lists;
  for (size_t n : sizes) {
    lists.push_back(NormalValues(n, n));
    for (float& value : lists.back()) value *= value * value;  // Many magnitudes: sums round.
  }
  GivenFrames given(lists, 0, stream);
  Workspace measure;
  TakeSums(1, &measure, given.on_host());
  const DeviceVector<unsigned char> memory(measure.num_bytes());
  Workspace carve(memory.data_dev());
  TakeSums(1, &carve, given.on_host());
  ExpectOk(SumSquares(given.Table(stream), stream.get()));
  for (size_t i = 0; i < lists.size(); ++i) {
    const auto n = static_cast<int64_t>(lists[i].size());
    const auto square = [&](int64_t j) { return double{lists[i][j]} * lists[i][j]; };
    double sum = 0;
    for (double block : Read(given.on_host()[i].sums[0].blocks_dev, NumBlocks(n), stream))
      sum += block;
    EXPECT_EQ(sum, SumOverBlocks(n, SerialExecutor(), square)) << n;
  }
}

TEST(Crc32c, FindsTheCoresChecksumRight) {
  const Stream stream;
  const CrcShift shift;
  const DeviceVector<SectionRemainder> remainder(1);
  const DeviceVector<uint32_t> error(1);
  for (size_t num_section_bytes : {0, 1, 2, 3, 4, 5, 127, 128, 129, 4095, 4096, 4097, 50001}) {
    for (size_t offset : {0, 1, 2, 3}) {
      Bytes frame(kFrameHeaderBytes + num_section_bytes, 0);
      Random random(num_section_bytes);
      for (unsigned char& byte : frame) byte = static_cast<unsigned char>(random.Below(256));
      RepairChecksum(&frame);
      for (const uint32_t flipped : {0u, 1u}) {
        frame.back() ^= flipped;
        Bytes moved(offset, 0xFF);
        moved.insert(moved.end(), frame.begin(), frame.end());
        const DeviceVector<unsigned char> frame_dev(moved, stream);
        const std::vector<CheckedFrame> frames = {
            {{frame_dev.data_dev() + offset, frame.size(), nullptr},
             remainder.data_dev(),
             error.data_dev()}};
        const DeviceVector<CheckedFrame> frames_dev(frames, stream);
        EXPECT_EQ(cudaMemsetAsync(remainder.data_dev(), 0, sizeof(SectionRemainder), stream.get()),
                  cudaSuccess);
        EXPECT_EQ(cudaMemsetAsync(error.data_dev(), 0, sizeof(uint32_t), stream.get()),
                  cudaSuccess);
        ExpectOk(CheckChecksums({frames, frames_dev.data_dev()}, shift, 4, stream.get()));
        EXPECT_EQ(error.ToHost(stream)[0], 4 * flipped)
            << num_section_bytes << " bytes at " << offset;
      }
    }
  }
}

TEST(CrcShift, AppendsZeros) {
  const CrcShift shift;
  Bytes message = {1, 2, 3, 4, 5};
  for (size_t num_zeros : {0, 1, 15, 16, 1000, 70000}) {
    Bytes longer = message;
    longer.resize(message.size() + num_zeros, 0);
    // Crc32c negates the state before and after.
    EXPECT_EQ(shift(~Crc32c(message), num_zeros), ~Crc32c(longer)) << num_zeros;
  }
}

TEST(DeltaBytes, EqualTheCoresAndRoundTrip) {
  const Stream stream;
  for (const IndexCase& index_case : IndexCases()) {
    const auto k = static_cast<uint32_t>(index_case.indices.size());
    if (k == 0) continue;
    Bytes expected;
    EncodeDeltaBytes(index_case.indices, SerialExecutor(), &expected);
    DeltaBuffers buffers;
    Workspace measure;
    TakeDeltaBuffers(1, k, &measure, &buffers);
    const DeviceVector<unsigned char> memory(measure.num_bytes());
    Workspace carve(memory.data_dev());
    TakeDeltaBuffers(1, k, &carve, &buffers);
    const DeviceVector<uint32_t> keys_dev(index_case.indices, stream), k_dev({k}, stream);
    const DeviceVector<unsigned char> section_dev(expected.size());
    const KeyLists list = KeyLists::One(k_dev.data_dev(), k);
    ExpectOk(MeasureDeltas(list, keys_dev.data_dev(), buffers, stream.get()));
    const DeviceVector<unsigned char*> places_dev({section_dev.data_dev()}, stream);
    ExpectOk(EncodeDeltas(list, keys_dev.data_dev(), buffers, places_dev.data_dev(), stream.get()));
    EXPECT_TRUE(section_dev.ToHost(stream) == expected) << index_case.name;

    const DeviceVector<uint32_t> decoded_dev(k), error_dev({0}, stream);
    for (const uint64_t num_bytes : {expected.size(), expected.size() + 1}) {
      ExpectOk(DecodeDeltas(KeyLists::One(k), {section_dev.data_dev(), num_bytes, nullptr, nullptr},
                            buffers, 2, error_dev.data_dev(), decoded_dev.data_dev(),
                            stream.get()));
      EXPECT_EQ(error_dev.ToHost(stream)[0], num_bytes == expected.size() ? 0u : 2u);
      EXPECT_TRUE(decoded_dev.ToHost(stream) == index_case.indices) << index_case.name;
    }
  }
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
