// Frames whose header lies: every codec of the registry refuses them, or decodes them within the
// memory that FORMAT.md states ("What a frame may cost").
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "contract_inputs.h"
#include "core/pipeline.h"
#include "core/rows.h"
#include "fuzz/allocation_operators.h"
#include "fuzz/frame_fields.h"
#include "rows_inputs.h"

namespace tfcompress {
namespace {

using namespace frame_fields;

constexpr uint32_t kHonestN = 3000;
constexpr uint32_t kHonestColumns = 50;
constexpr uint64_t kHonestRows = 700;
constexpr uint64_t kHonestWidth = 3;

Frame MustRead(const Bytes& bytes) {
  ByteReader reader(bytes);
  Frame frame;
  const Status status = ReadFrame(&reader, &frame);
  EXPECT_TRUE(status.ok()) << status.message();
  return frame;
}

// The frame with another n and k and a checksum to match.
Bytes Lie(const Bytes& honest, uint32_t n, uint32_t k) {
  Bytes frame = honest;
  SetField(kN, n, &frame);
  SetField(kK, k, &frame);
  RepairChecksum(&frame);
  return frame;
}

std::set<uint32_t> LiesAboutN(uint32_t n, uint32_t most) {
  std::set<uint32_t> lies = {n - 1, n, 4 * n, 1u << 20, 1u << 24, (1u << 31) - 1};
  lies.erase(lies.upper_bound(most), lies.end());
  return lies;
}

std::set<uint32_t> LiesAboutK(uint32_t n, uint32_t k) {
  std::set<uint32_t> lies = {1, k - 1, k + 1, 2 * k, n / 2, n};
  lies.erase(lies.upper_bound(n), lies.end());
  lies.erase(0);  // A frame of nothing has no sections.
  return lies;
}

// A filter is asked for every element of the tensor.
bool LooksAtEveryElement(const std::string& spec) {
  return spec.find("bloom") != std::string::npos;
}

// The frame of a vector, or of a matrix of this width.
Bytes MustEncode(const std::string& spec, const std::vector<float>& gradient, uint32_t width = 0) {
  const auto compressor = Compressor::FromSpec(spec).value();
  std::vector<std::vector<float>> slots(compressor->memory().num_slots(),
                                        std::vector<float>(gradient.size()));
  std::vector<float*> slot_data;
  for (auto& slot : slots) slot_data.push_back(slot.data());
  Bytes frame;
  const Status status =
      EncodeFrame(*compressor, {gradient.data(), DType::kFloat32, gradient.size()},
                  Span<float* const>(slot_data), {1, SerialExecutor(), Grid{width, 0}}, &frame);
  EXPECT_TRUE(status.ok()) << status.message();
  return frame;
}

void ExpectLiesCostLittle(const std::string& spec, const Bytes& honest) {
  const FrameHeader header = MustRead(honest).header;
  const uint32_t most = LooksAtEveryElement(spec) ? 1 << 20 : kMaxElements;
  for (const uint32_t n : LiesAboutN(header.n, most)) {
    for (const uint32_t k : LiesAboutK(n, header.k)) {
      if (header.support == SupportKind::kEverything && k != n) continue;
      SCOPED_TRACE(testing::Message() << "n = " << n << ", k = " << k);
      const Bytes bytes = Lie(honest, n, k);
      const Frame frame = MustRead(bytes);
      if (!CheckClaimedElements(frame.bytes.size(), n).ok()) continue;
      SparseTensor decoded;
      const uint64_t peak =
          PeakAllocation([&] { (void)DecodeFrame(frame, SerialExecutor(), &decoded); });
      EXPECT_LE(peak, MaxDecodeBytes(n, bytes.size()));
    }
  }
}

class HostileFrame : public testing::TestWithParam<SpecCase> {};

TEST_P(HostileFrame, CostsWhatTensorAndBytesJustify) {
  const std::string& spec = GetParam().spec;
  ExpectLiesCostLittle(spec, MustEncode(spec, Gradient(kHonestN, 1)));
  // One run, one bucket, no bit a value: what may be coded in the fewest bytes.
  ExpectLiesCostLittle(spec, MustEncode(spec, std::vector<float>(kHonestN, 1.0f)));
  // A matrix, which has classes of rows and columns.
  std::vector<float> matrix(kHonestN);
  for (const uint32_t i : RandomProduct(kHonestN / kHonestColumns, kHonestColumns, 1))
    matrix[i] = 1;
  ExpectLiesCostLittle(spec, MustEncode(spec, matrix, kHonestColumns));
}

INSTANTIATE_TEST_SUITE_P(Registry, HostileFrame, testing::ValuesIn(SpecsOfEachPart()),
                         [](const auto& info) { return TestName(info.param.spec); });

// The header of a frame without sections, of every codec: no count in it is believed.
class HostileHeader : public testing::Test {
 protected:
  static Bytes Header(SupportKind support, uint8_t index_id, uint8_t value_id) {
    FrameHeader header;
    header.support = support;
    header.n = header.k = 400000000;
    header.index_id = index_id;
    header.value_id = value_id;
    Bytes frame;
    BeginFrame(&frame);
    EXPECT_TRUE(FinishFrame(header, 0, 0, &frame).ok());
    return frame;
  }

  static void ExpectRefusedAtOnce(const Bytes& bytes) {
    const Frame frame = MustRead(bytes);
    SparseTensor decoded;
    Status status;
    const uint64_t peak =
        PeakAllocation([&] { status = DecodeFrame(frame, SerialExecutor(), &decoded); });
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_LE(peak, kDecodeTableBytes);
    EXPECT_EQ(CheckClaimedElements(frame.bytes.size(), frame.header.n).code(),
              StatusCode::kDataLoss);
  }
};

TEST_F(HostileHeader, IsRefusedBeforeAnythingIsAllocated) {
  const uint8_t raw = FindByName<IndexCodec>("raw")->id;
  for (const auto& row : Registry<IndexCodec>()) {
    SCOPED_TRACE("index " + row.name);
    ExpectRefusedAtOnce(Header(SupportKind::kIndexSection, row.id, raw));
  }
  for (const auto& row : Registry<ValueCodec>()) {
    SCOPED_TRACE("value " + row.name);
    ExpectRefusedAtOnce(Header(SupportKind::kEverything, 0, row.id));
    ExpectRefusedAtOnce(Header(SupportKind::kSeeded, 0, row.id));
    ExpectRefusedAtOnce(Header(SupportKind::kIndexSection, raw, row.id));
  }
  for (const auto& row : Registry<SparseCodec>()) {
    SCOPED_TRACE("joint " + row.name);
    ExpectRefusedAtOnce(Header(SupportKind::kJoint, 0, row.id));
  }
}

class HostileRows : public testing::TestWithParam<std::string> {};

std::vector<std::string> RowSpecs() {
  std::vector<std::string> specs;
  for (const auto& index : AllSettings<IndexCodec>())
    specs.push_back("topk|" + index.part + "|raw");
  for (const auto& value : AllSettings<ValueCodec>()) {
    if (value.part != "raw") specs.push_back("topk|delta_binary|" + value.part);
  }
  for (const auto& value : Registry<ValueCodec>()) specs.push_back("topk|rle|" + value.name);
  for (const auto& joint : AllSettings<SparseCodec>()) {
    if (joint.codec->takes_rows()) specs.push_back("dense|" + joint.part);
  }
  std::sort(specs.begin(), specs.end());
  specs.erase(std::unique(specs.begin(), specs.end()), specs.end());
  return specs;
}

// The receiver's table is as large as the frame says, so that nothing but its bytes can be wrong.
TEST_P(HostileRows, CostWhatTableAndBytesJustify) {
  const RowsInput input = RandomRows(kHonestRows, kHonestWidth, 100, 1);
  const Bytes honest = MustEncodeRows(GetParam(), input);
  const FrameHeader header = MustRead(honest).header;
  const bool is_joint = header.support == SupportKind::kJoint;
  for (const uint32_t n : LiesAboutN(header.n, 1 << 20)) {
    for (const uint32_t k : LiesAboutK(n, header.k)) {
      for (const uint32_t width : {1u, 3u, 1u << 10, 1u << 20, 1u << 30, 0xFFFFFFFFu}) {
        SCOPED_TRACE(testing::Message() << "n = " << n << ", k = " << k << ", width " << width);
        Bytes bytes = Lie(honest, n, k);
        // Without rows there is no width: a filter may have left all of them out.
        if (!is_joint && bytes.size() > kHeaderBytes) SetField(kHeaderBytes, width, &bytes);
        RepairChecksum(&bytes);
        const Frame frame = MustRead(bytes);
        const Table table = {is_joint ? n / width : n, width, DType::kFloat32};
        const uint64_t num_elements = table.num_rows * table.width;
        if (!CheckClaimedElements(frame.bytes.size(), num_elements).ok()) continue;
        SparseRows rows;
        const uint64_t peak =
            PeakAllocation([&] { (void)DecodeRowsFrame(frame, table, SerialExecutor(), &rows); });
        EXPECT_LE(peak, MaxDecodeBytes(num_elements, bytes.size()));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, HostileRows, testing::ValuesIn(RowSpecs()),
                         [](const auto& info) { return TestName(info.param); });

// Encoders may write these: a bound must not refuse them.
TEST(HonestFrame, OfAFewBytesIsDecoded) {
  const std::vector<float> ones(1 << 20, 1.0f);
  for (const std::string spec :
       {"dense|raw|quantile", "dense|raw|deflate", "topk:ratio=1|rle|quantile", "dense|threelc",
        "randomk:ratio=1|raw|quantile", "topk:ratio=0.001|bloom:policy=p2,fpr=0.999|quantile"}) {
    SCOPED_TRACE(spec);
    const Bytes bytes = MustEncode(spec, ones);
    const Frame frame = MustRead(bytes);
    SparseTensor decoded;
    Status status;
    const uint64_t peak =
        PeakAllocation([&] { status = DecodeFrame(frame, SerialExecutor(), &decoded); });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_LE(peak, MaxDecodeBytes(ones.size(), bytes.size()));
  }
}

// The rows of the ranks are added one rank at a time.
TEST(RowsSum, DoesNotHoldTheRowsOfAllRanks) {
  const RowsInput input = RandomRows(5000, 16, 2000, 1);
  const Bytes frame = MustEncodeRows("dense|raw|raw", input);
  const auto peak_of = [&](int64_t num_ranks) {
    Bytes packets;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      packets.insert(packets.end(), frame.begin(), frame.end());
    }
    SparseRows sum;
    return PeakAllocation([&] {
      EXPECT_TRUE(DecodeRowsSum({packets, num_ranks, 1}, 0, input.table(), 1.0f, SerialExecutor(),
                                &sum, nullptr)
                      .ok());
    });
  };
  EXPECT_LE(peak_of(32), peak_of(2) + frame.size());
}

// As full as k keys can make it, in the smallest filter that an encoder makes for them.
TEST(HostileBloom, TheFullestFilterStaysWithinTheBound) {
  constexpr uint32_t kN = 1 << 18;
  for (const uint32_t k : {100u, kN / 16, kN / 2}) {
    for (const uint32_t num_hashes : {1u, 2u, 3u, 4u, 8u, 32u}) {
      SCOPED_TRACE(testing::Message() << k << " keys, " << num_hashes << " hashes");
      const auto num_bits = static_cast<uint32_t>(
          std::max(64.0, std::ceil(k * (num_hashes == 1 ? 0.01 : num_hashes - 0.5) / 0.6931)));
      Bytes section = {3, static_cast<unsigned char>(num_hashes)};
      ByteWriter(&section).Write(num_bits);
      section.resize(section.size() + (num_bits + 7) / 8, 0);
      Random random(1);
      const uint32_t num_set = std::min(num_bits, k * num_hashes);
      for (uint32_t i = 0; i < num_set; ++i) {  // About as many, without regard to collisions.
        const uint32_t bit = num_set == num_bits ? i : random.Below(num_bits);
        section[6 + bit / 8] |= static_cast<unsigned char>(1u << bit % 8);
      }
      FrameHeader header;
      header.n = kN;
      header.k = k;
      header.index_id = FindByName<IndexCodec>("bloom")->id;
      header.value_id = FindByName<ValueCodec>("raw")->id;
      Bytes bytes;
      BeginFrame(&bytes);
      bytes.insert(bytes.end(), section.begin(), section.end());
      bytes.resize(bytes.size() + 4 * k, 0);
      ASSERT_TRUE(FinishFrame(header, 0, section.size(), &bytes).ok());
      SparseTensor decoded;
      const uint64_t peak =
          PeakAllocation([&] { (void)DecodeFrame(MustRead(bytes), SerialExecutor(), &decoded); });
      EXPECT_LE(peak, MaxDecodeBytes(kN, bytes.size()));
    }
  }
}

// Every element would be a positive, in 32 conflict sets.
TEST(HostileBloom, AFullFilterIsRefused) {
  FrameHeader header;
  header.n = 3000000;
  header.k = 100;
  header.index_id = FindByName<IndexCodec>("bloom")->id;
  header.value_id = FindByName<ValueCodec>("raw")->id;
  Bytes bytes;
  BeginFrame(&bytes);
  bytes.insert(bytes.end(), {3, 32, 64, 0, 0, 0});
  bytes.insert(bytes.end(), 8, 0xFF);
  bytes.insert(bytes.end(), 400, 0);  // 100 values.
  ASSERT_TRUE(FinishFrame(header, 0, 14, &bytes).ok());
  SparseTensor decoded;
  Status status;
  const uint64_t peak =
      PeakAllocation([&] { status = DecodeFrame(MustRead(bytes), SerialExecutor(), &decoded); });
  ExpectDataLoss(status, "no encoder");
  EXPECT_LE(peak, kDecodeTableBytes);
}

// As many levels as a section can claim: their table is the largest that any decoder makes.
TEST(HostileLog, TheLongestTableStaysWithinTheBound) {
  constexpr uint32_t kK = 64;
  for (const bool has_all_codes : {true, false}) {
    FrameHeader header;
    header.n = header.k = kK;
    header.support = SupportKind::kEverything;
    header.value_id = FindByName<ValueCodec>("log")->id;
    Bytes bytes;
    BeginFrame(&bytes);
    ByteWriter writer(&bytes);
    writer.Write(1.001);            // The base.
    writer.Write(1.0);              // The sum.
    writer.Write(uint16_t{0});      // The first logarithm.
    writer.Write(uint16_t{65535});  // The levels.
    bytes.resize(bytes.size() + (has_all_codes ? 17 * kK / 8 : kK), 0);
    ASSERT_TRUE(FinishFrame(header, 0, 0, &bytes).ok());
    SparseTensor decoded;
    Status status;
    const uint64_t peak =
        PeakAllocation([&] { status = DecodeFrame(MustRead(bytes), SerialExecutor(), &decoded); });
    EXPECT_EQ(status.ok(), has_all_codes) << status.message();
    EXPECT_LE(peak, has_all_codes ? MaxDecodeBytes(kK, bytes.size()) : 4096);
  }
}

}  // namespace
}  // namespace tfcompress
