#include "core/frame.h"

#include <gtest/gtest.h>

#include "contract_inputs.h"
#include "core/pipeline.h"
#include "fuzz/frame_fields.h"

namespace tfcompress {
namespace {

FrameHeader SomeHeader() {
  FrameHeader header;
  header.dtype = DType::kFloat16;
  header.support = SupportKind::kIndexSection;
  header.n = 100;
  header.k = 2;
  header.index_id = 1;
  header.value_id = 1;
  header.seed = 0x1122334455667788;
  return header;
}

// A frame with the given header, 8 bytes of raw indices {1, 2} and 8 bytes of raw values {1, -2}.
Bytes SomeFrame(const FrameHeader& header = SomeHeader()) {
  Bytes frame;
  BeginFrame(&frame);
  ByteWriter writer(&frame);
  for (uint32_t index : {1u, 2u}) writer.Write(index);
  for (float value : {1.0f, -2.0f}) writer.Write(value);
  EXPECT_TRUE(FinishFrame(header, 0, 8, &frame).ok());
  return frame;
}

// The first error of reading and decoding a packet of one frame.
Status ReadAll(const Bytes& bytes) {
  ByteReader reader(bytes);
  Frame frame;
  TFC_RETURN_IF_ERROR(ReadFrame(&reader, &frame));
  SparseTensor decoded;
  TFC_RETURN_IF_ERROR(DecodeFrame(frame, SerialExecutor(), &decoded));
  return reader.ExpectEnd("packet");
}

// Sets a field of a sound frame and makes the checksum right again.
template <typename T>
Status ReadWith(size_t offset, T value) {
  Bytes frame = SomeFrame();
  SetField(offset, value, &frame);
  RepairChecksum(&frame);
  return ReadAll(frame);
}

TEST(Frame, HasTheDocumentedLayout) {
  const Bytes frame = SomeFrame();
  ASSERT_EQ(frame.size(), frame_fields::kHeaderBytes + 16);
  EXPECT_EQ(kFrameHeaderBytes, frame_fields::kHeaderBytes);
  EXPECT_EQ(std::string(frame.begin(), frame.begin() + 4), "TFCF");
  EXPECT_EQ(frame[frame_fields::kVersion], 1);
  EXPECT_EQ(frame[frame_fields::kFlags], 0);
  EXPECT_EQ(frame[frame_fields::kDType], 2);
  EXPECT_EQ(frame[frame_fields::kSupport], 0);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kNumBytes), 60u);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kN), 100u);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kK), 2u);
  EXPECT_EQ(frame[frame_fields::kIndexId], 1);
  EXPECT_EQ(frame[frame_fields::kValueId], 1);
  EXPECT_EQ(GetField<uint16_t>(frame, frame_fields::kReserved), 0);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kNumIndexBytes), 8u);
  EXPECT_EQ(GetField<uint32_t>(frame, frame_fields::kNumValueBytes), 8u);
  EXPECT_EQ(GetField<uint64_t>(frame, frame_fields::kSeed), 0x1122334455667788u);
  Bytes repaired = frame;
  RepairChecksum(&repaired);
  EXPECT_EQ(repaired, frame);
}

TEST(Frame, ReadsBackWhatWasWritten) {
  const Bytes bytes = SomeFrame();
  ByteReader reader(bytes);
  Frame frame;
  ASSERT_TRUE(ReadFrame(&reader, &frame).ok());
  EXPECT_TRUE(VerifyChecksum(frame).ok());
  EXPECT_EQ(reader.remaining(), 0u);
  const FrameHeader expected = SomeHeader();
  EXPECT_EQ(frame.header.nonfinite, false);
  EXPECT_EQ(frame.header.dtype, expected.dtype);
  EXPECT_EQ(frame.header.support, expected.support);
  EXPECT_EQ(frame.header.n, expected.n);
  EXPECT_EQ(frame.header.k, expected.k);
  EXPECT_EQ(frame.header.index_id, expected.index_id);
  EXPECT_EQ(frame.header.value_id, expected.value_id);
  EXPECT_EQ(frame.header.seed, expected.seed);
  EXPECT_EQ(frame.sections.indices.data(), bytes.data() + 44);
  EXPECT_EQ(frame.sections.indices.size(), 8u);
  EXPECT_EQ(frame.sections.values.data(), bytes.data() + 52);
  EXPECT_EQ(frame.sections.values.size(), 8u);
  EXPECT_EQ(frame.bytes.size(), bytes.size());
}

TEST(Frame, FramesFollowEachOther) {
  Bytes packet = SomeFrame();
  const size_t second = packet.size();
  BeginFrame(&packet);
  FrameHeader empty;
  empty.n = 5;
  ASSERT_TRUE(FinishFrame(empty, second, 0, &packet).ok());
  ByteReader reader(packet);
  Frame frame;
  ASSERT_TRUE(ReadFrame(&reader, &frame).ok());
  ASSERT_TRUE(ReadFrame(&reader, &frame).ok());
  EXPECT_EQ(frame.header.n, 5u);
  EXPECT_TRUE(VerifyChecksum(frame).ok());
  EXPECT_EQ(frame.bytes.data(), packet.data() + second);
  EXPECT_TRUE(reader.ExpectEnd("packet").ok());
  EXPECT_EQ(ReadFrame(&reader, &frame).code(), StatusCode::kDataLoss);
}

TEST(Frame, AnyFlippedBitIsDataLoss) {
  const Bytes bytes = SomeFrame();
  ASSERT_TRUE(ReadAll(bytes).ok());
  ForEachBitFlip(bytes, [](const Bytes& flipped, size_t bit) {
    EXPECT_EQ(ReadAll(flipped).code(), StatusCode::kDataLoss) << "bit " << bit;
  });
}

TEST(Frame, AnyPrefixIsDataLoss) {
  ForEachPrefix(SomeFrame(), [](const Bytes& prefix) {
    EXPECT_EQ(ReadAll(prefix).code(), StatusCode::kDataLoss) << prefix.size();
  });
}

// The header's own checks, behind a right checksum.
TEST(Frame, RefusesAHeaderThatLies) {
  using namespace frame_fields;
  ASSERT_TRUE(ReadWith<uint8_t>(kVersion, 1).ok());
  ExpectDataLoss(ReadWith<uint32_t>(kMagic, 0x47434654), "not a tfcompress frame");
  ExpectDataLoss(ReadWith<uint8_t>(kVersion, 2), "frame version 2, this build reads version 1");
  ExpectDataLoss(ReadWith<uint8_t>(kVersion, 0), "frame version 0");
  ExpectDataLoss(ReadWith<uint8_t>(kFlags, 2), "unknown flags 2");
  ExpectDataLoss(ReadWith<uint8_t>(kFlags, 1), "a frame without values has sections, or k = 2");
  ExpectDataLoss(ReadWith<uint8_t>(kDType, 0), "unknown dtype code 0");
  ExpectDataLoss(ReadWith<uint8_t>(kDType, 4), "unknown dtype code 4");
  ExpectDataLoss(ReadWith<uint8_t>(kSupport, 5), "unknown support kind 5");
  ExpectDataLoss(ReadWith<uint8_t>(kSupport, 4), "a frame of rows, expected one of a dense tensor");
  ExpectDataLoss(ReadWith<uint8_t>(kSupport, 1), "an index section where");
  ExpectDataLoss(ReadWith<uint8_t>(kSupport, 2), "an index section where");
  ExpectDataLoss(ReadWith<uint16_t>(kReserved, 256), "reserved field is 256");
  ExpectDataLoss(ReadWith<uint32_t>(kN, 1), "k = 2 is above n = 1");
  ExpectDataLoss(ReadWith<uint32_t>(kN, 1u << 31), "is above the limit");
  ExpectDataLoss(ReadWith<uint32_t>(kK, 101), "k = 101 is above n = 100");
  ExpectDataLoss(ReadWith<uint32_t>(kK, 0), "a frame without values has sections");
}

TEST(Frame, RefusesLengthsThatLie) {
  using namespace frame_fields;
  for (uint32_t num_bytes : {0u, 44u, 59u, 61u, 0xFFFFFFFFu}) {
    ExpectDataLoss(ReadWith<uint32_t>(kNumBytes, num_bytes), "frame length");
  }
  for (uint32_t num_section_bytes : {0u, 7u, 9u, 0xFFFFFFF8u}) {
    ExpectDataLoss(ReadWith<uint32_t>(kNumIndexBytes, num_section_bytes), "frame length");
    ExpectDataLoss(ReadWith<uint32_t>(kNumValueBytes, num_section_bytes), "frame length");
  }
  // Lengths that agree with each other, but not with what is there; 44 + 2^32 - 44 wraps to 0.
  Bytes frame = SomeFrame();
  SetField<uint32_t>(kNumIndexBytes, 0xFFFFFFFF - 43, &frame);
  SetField<uint32_t>(kNumValueBytes, 0, &frame);
  SetField<uint32_t>(kNumBytes, 0, &frame);
  RepairChecksum(&frame);
  ExpectDataLoss(ReadAll(frame), "frame length");
  SetField<uint32_t>(kNumIndexBytes, 8, &frame);
  SetField<uint32_t>(kNumValueBytes, 1 << 30, &frame);
  SetField<uint32_t>(kNumBytes, 44 + 8 + (1 << 30), &frame);
  RepairChecksum(&frame);
  ExpectDataLoss(ReadAll(frame), "truncated at value section");
}

TEST(Frame, RefusesCodecsThatItDoesNotKnow) {
  using namespace frame_fields;
  for (uint8_t id : {uint8_t{0}, uint8_t{128}, uint8_t{255}}) {
    ExpectDataLoss(ReadWith(kIndexId, id), "unknown index codec id");
    ExpectDataLoss(ReadWith(kValueId, id), "unknown value codec id");
  }
  FrameHeader joint = SomeHeader();
  joint.support = SupportKind::kJoint;
  joint.index_id = 0;
  joint.value_id = 255;
  Bytes frame;
  BeginFrame(&frame);
  frame.push_back(0);
  ASSERT_TRUE(FinishFrame(joint, 0, 0, &frame).ok());
  ExpectDataLoss(ReadAll(frame), "unknown joint codec id 255");
}

TEST(Frame, NamesTheSectionThatIsBroken) {
  using namespace frame_fields;
  ExpectDataLoss(ReadWith<uint32_t>(kHeaderBytes, 2), "index section");        // Indices {2, 2}.
  ExpectDataLoss(ReadWith<uint32_t>(kHeaderBytes + 4, 100), "index section");  // Index n.
  ExpectDataLoss(ReadWith<uint32_t>(kHeaderBytes + 12, 0x7F800000), "value section");  // Infinity.
  ExpectDataLoss(ReadWith<uint32_t>(kHeaderBytes + 12, 0x7FC00000), "value section");  // NaN.
  ExpectDataLoss(ReadWith<uint32_t>(kK, 3), "index section");
}

TEST(Frame, EverythingMeansEverything) {
  FrameHeader header = SomeHeader();
  header.support = SupportKind::kEverything;
  header.index_id = 0;
  header.n = 4;
  header.k = 4;
  Bytes frame;
  BeginFrame(&frame);
  for (float value : {1.0f, 2.0f, 3.0f, 4.0f}) ByteWriter(&frame).Write(value);
  ASSERT_TRUE(FinishFrame(header, 0, 0, &frame).ok());
  EXPECT_TRUE(ReadAll(frame).ok());
  SetField<uint32_t>(frame_fields::kN, 5, &frame);
  RepairChecksum(&frame);
  ExpectDataLoss(ReadAll(frame), "k = 4 where everything is sent, expected n = 5");
}

}  // namespace
}  // namespace tfcompress
