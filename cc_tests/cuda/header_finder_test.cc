// HeaderFinder shows the host enough of packets on the device to read their headers, and says so
// where that is not enough.
#include "cuda/header_finder.h"

#include <gtest/gtest.h>

#include <string>

#include "core/frame.h"
#include "core/packets.h"
#include "device_memory.h"
#include "shown_packets.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint64_t kFramesOfPacket = 3;

// Appends a frame with a section of so many bytes, `filler` repeated.
void AppendFilled(size_t num_section_bytes, const std::string& filler, Bytes* packets) {
  FrameHeader header;
  header.support = SupportKind::kEverything;
  header.n = header.k = 7;
  header.value_id = 1;
  const auto append_section = [&]() -> Result<uint64_t> {
    for (size_t i = 0; i < num_section_bytes; ++i)
      packets->push_back(static_cast<unsigned char>(filler[i % filler.size()]));
    return uint64_t{0};
  };
  ExpectOk(AppendFrame(append_section, &header, packets));
}

// Packets with frames of different lengths, each followed by `padding`.
Bytes FilledPackets(int num_ranks, const Bytes& padding, const std::string& filler = "section") {
  Bytes packets;
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (uint64_t i = 0; i < kFramesOfPacket; ++i)
      AppendFilled(rank * 37 + i * 5, filler, &packets);
    packets.insert(packets.end(), padding.begin(), padding.end());
  }
  return packets;
}

// Shows packets that begin `shift` bytes after an aligned address.
ShownPackets Show(const Bytes& packets, uint64_t num_expected, size_t shift = 0) {
  const Stream stream;
  Bytes shifted(shift, 0xAA);
  shifted.insert(shifted.end(), packets.begin(), packets.end());
  const DeviceVector<unsigned char> packets_dev(shifted, stream);
  return ShowHeaders(packets, packets_dev.data_dev() + shift, num_expected, stream);
}

// Returns where frames begin and end, and what a reader says.
std::string PlacesIn(const Bytes& packets, int num_ranks) {
  const std::vector<int64_t> positions = {0, 1, 2};
  const auto frames = ReadPackets({packets, num_ranks, kFramesOfPacket}, positions,
                                  [](size_t, const FrameHeader&) { return OkStatus(); });
  if (!frames.ok()) return frames.status().message();
  std::string places;
  for (const PacketFrame& frame : frames.value()) {
    places += std::to_string(frame.bytes.data() - packets.data()) + "+" +
              std::to_string(frame.bytes.size()) + " ";
  }
  return places;
}

TEST(HeaderFinder, ShowsTheHeadersOfAllFramesAndNothingElse) {
  for (int num_ranks : {1, 2, 5}) {
    for (size_t padding : {0, 1, 64, 2047}) {
      const Bytes packets = FilledPackets(num_ranks, Bytes(padding, 0));
      for (size_t shift : {0, 1, 2, 3}) {
        const ShownPackets found = Show(packets, num_ranks * kFramesOfPacket, shift);
        EXPECT_TRUE(found.are_enough);
        EXPECT_EQ(PlacesIn(found.bytes, num_ranks), PlacesIn(packets, num_ranks));
        const std::string shown(found.bytes.begin(), found.bytes.end());
        EXPECT_EQ(shown.find("secti"), std::string::npos);  // Four bytes are shown.
      }
    }
  }
}

TEST(HeaderFinder, CopiesWhatLooksLikeAHeaderInASection) {
  const Bytes packets = FilledPackets(4, Bytes(5, 0), std::string("xTFCF12345"));
  const ShownPackets found = Show(packets, 4 * kFramesOfPacket);
  EXPECT_TRUE(found.are_enough);
  EXPECT_EQ(PlacesIn(found.bytes, 4), PlacesIn(packets, 4));
}

TEST(HeaderFinder, IsNotEnoughWhereThereAreTooManyToCopy) {
  Bytes packets;
  for (int i = 0; i < 3; ++i) AppendFilled(4000, "TFCF", &packets);
  EXPECT_FALSE(Show(packets, kFramesOfPacket).are_enough);
}

TEST(HeaderFinder, IsNotEnoughWhereSomethingElseIsBetweenFrames) {
  for (const Bytes& padding : {Bytes{1}, Bytes{0, 0, 255}, Bytes{7, 0, 0, 0}})
    EXPECT_FALSE(Show(FilledPackets(3, padding), 3 * kFramesOfPacket).are_enough);
  Bytes packets = FilledPackets(3, Bytes(8, 0));
  packets.back() = 1;
  EXPECT_FALSE(Show(packets, 3 * kFramesOfPacket).are_enough);
}

// More zeros than are counted may be no padding of ours, and are no error.
TEST(HeaderFinder, IsNotEnoughForMoreZerosThanRanksAppend) {
  const Bytes packets = FilledPackets(2, Bytes(5000, 0));
  EXPECT_FALSE(Show(packets, 2 * kFramesOfPacket).are_enough);
}

TEST(HeaderFinder, BrokenPacketsReadAsBroken) {
  const Bytes packets = FilledPackets(2, Bytes(3, 0));
  for (size_t length = 0; length < packets.size(); ++length) {
    const Bytes truncated(packets.begin(), packets.begin() + static_cast<ptrdiff_t>(length));
    const ShownPackets found = Show(truncated, 2 * kFramesOfPacket);
    if (!found.are_enough) continue;
    EXPECT_EQ(PlacesIn(found.bytes, 2).find('+') == std::string::npos,
              PlacesIn(truncated, 2).find('+') == std::string::npos)
        << length;
  }
}

TEST(HeaderFinder, IsNotEnoughForPacketsThatAreNoFrames) {
  for (size_t size : {1, 3, 4, 43, 44, 45}) EXPECT_FALSE(Show(Bytes(size, 9), 1).are_enough);
}

// A wrong number of frames makes no huge workspace.
TEST(HeaderFinder, HasRoomForNoMoreHeadersThanFit) {
  EXPECT_LT(HeaderFinder(1000, uint64_t{1} << 40).workspace_bytes(), size_t{10000});
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
