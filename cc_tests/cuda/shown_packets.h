// What HeaderFinder shows the host of packets.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_SHOWN_PACKETS_H_
#define TFCOMPRESS_CC_TESTS_CUDA_SHOWN_PACKETS_H_

#include <cstdint>
#include <vector>

#include "core/span.h"
#include "cuda/header_finder.h"
#include "device_memory.h"

namespace tfcompress {
namespace device {

struct ShownPackets {
  bool are_enough;  // For whoever reads headers and padding.
  Bytes bytes;      // Zeros besides headers.
};

// For packets that are on the device, too, at any address, of which so many frames are expected.
inline ShownPackets ShowHeaders(const Bytes& packets, const unsigned char* packets_dev,
                                uint64_t num_frames, const Stream& stream) {
  const HeaderFinder finder(packets.size(), num_frames);
  const DeviceVector<unsigned char> workspace(finder.workspace_bytes());
  std::vector<uint64_t> host(finder.workspace_bytes() / sizeof(uint64_t) + 1);
  ExpectOk(finder.Launch(packets_dev, workspace.buffer(), stream.get(), host.data()));
  stream.Synchronize();
  ShownPackets shown{false, Bytes(packets.size(), 0)};
  shown.are_enough = finder.CopyTo(shown.bytes.data(), host.data());
  return shown;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_SHOWN_PACKETS_H_
