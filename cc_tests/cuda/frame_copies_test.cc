// Copies of frames whose lengths only the device knows, to packets on the host and on the device.
#include "cuda/frame_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "copied_frames.h"
#include "device_memory.h"
#include "pinned_memory.h"

namespace tfcompress {
namespace device {
namespace {

constexpr unsigned char kUntouched = 0xEE;

class PinnedBytes {
 public:
  explicit PinnedBytes(size_t size) : size_(size) {
    ExpectOk(memory_.Allocate(size));
    std::fill_n(data(), size, kUntouched);
  }

  unsigned char* data() const { return static_cast<unsigned char*>(memory_.data()); }
  Bytes Copy() const { return Bytes(data(), data() + size_); }

 private:
  size_t size_;
  PinnedMemory memory_;
};

// Whether `bytes` has `content` at `begin`, and nothing else was written.
bool HoldsOnly(const Bytes& bytes, size_t begin, const Bytes& content) {
  Bytes expected(bytes.size(), kUntouched);
  std::copy(content.begin(), content.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin));
  return bytes == expected;
}

constexpr size_t kPacketBytes = 1 << 16;

TEST(CopyFrames, JoinsFramesInPacketsAtAnyByte) {
  CopiedFrames frames("none|topk:ratio=0.1|delta_binary|raw", {5000, 1, 33, 4096, 700, 2000});
  frames.Launch();
  const PinnedBytes first(kPacketBytes), second(kPacketBytes);
  unsigned char* const odd = second.data() + 3;
  frames.CopyTo(
      {{first.data(), 0}, {first.data(), 0}, {first.data(), 0}, {nullptr, 0}, {odd, 4}, {odd, 4}},
      PacketMemory::kPinnedHost);
  EXPECT_TRUE(HoldsOnly(first.Copy(), 0, frames.Joined(0, 3)));
  EXPECT_TRUE(HoldsOnly(second.Copy(), 3, frames.Joined(4, 6)));
}

TEST(CopyFrames, WritesDeviceMemoryToo) {
  CopiedFrames frames("none|dense|raw|raw", {5000, 33});
  frames.Launch();
  const Stream stream;
  const DeviceVector<unsigned char> packet(Bytes(kPacketBytes, kUntouched), stream);
  frames.CopyTo({{packet.data_dev() + 1, 0}, {packet.data_dev() + 1, 0}}, PacketMemory::kDevice);
  EXPECT_TRUE(HoldsOnly(packet.ToHost(stream), 1, frames.Joined(0, 2)));
}

TEST(CopyFrames, TakesSeveralLaunchesForManyFrames) {
  constexpr size_t kFrames = 600;
  const std::vector<size_t> first_frames = {0, 40, 510, kFrames};
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i < kFrames; ++i) sizes.push_back(1 + i % 70);
  CopiedFrames frames("none|threshold:tau=0.001|raw|fp16", sizes);
  frames.Launch();
  std::vector<std::unique_ptr<PinnedBytes>> packets;
  std::vector<FramePlace> places;
  for (size_t packet = 0; packet < 3; ++packet) {
    packets.push_back(std::make_unique<PinnedBytes>(kPacketBytes));
    for (size_t i = first_frames[packet]; i < first_frames[packet + 1]; ++i)
      places.push_back({packets[packet]->data(), static_cast<uint32_t>(first_frames[packet])});
  }
  frames.CopyTo(places, PacketMemory::kPinnedHost);
  for (size_t packet = 0; packet < 3; ++packet) {
    const Bytes expected = frames.Joined(first_frames[packet], first_frames[packet + 1]);
    EXPECT_TRUE(HoldsOnly(packets[packet]->Copy(), 0, expected)) << packet;
  }
}

TEST(CopyFrames, NeedAPlaceForEach) {
  CopiedFrames frames("none|dense|raw|raw", {50, 33});
  frames.Launch();
  EXPECT_EQ(frames.Copy({{nullptr, 0}}, PacketMemory::kPinnedHost).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
