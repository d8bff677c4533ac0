// Copies the headers of frames, and the first four bytes behind each, out of packets that are on
// the device, for the host to read.
//
// Where a frame begins follows from the header before it, so that following them would be work for
// one thread. Instead all bytes are searched for what a header begins with. A section may have the
// same bytes: what is found is no header then, but bytes of the packets nevertheless.
#ifndef TFCOMPRESS_CUDA_HEADER_FINDER_H_
#define TFCOMPRESS_CUDA_HEADER_FINDER_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// For packets of one size, on one stream at a time.
class HeaderFinder {
 public:
  // Finds more headers than are expected, but not any number: others have written the packets.
  HeaderFinder(uint64_t num_packet_bytes, uint64_t num_expected);

  // Memory of the device, and as much of the host, aligned as by malloc.
  size_t workspace_bytes() const;

  // Puts the search on `stream`, and at its end a copy to `host`; waits for nothing if that is
  // pinned. Fails with InvalidArgument if the workspace is missing or too small.
  Status Launch(const unsigned char* packets_dev, const DeviceBuffer& workspace,
                cudaStream_t stream, void* host) const;
  // When the stream has come there: writes the headers to their places in `packets`, zeros that are
  // as many bytes as the packets on the device. Returns whether nothing but frames and padding is
  // there: otherwise all bytes have to be read.
  bool CopyTo(unsigned char* packets, const void* host) const;

 private:
  uint64_t num_packet_bytes_;
  uint64_t most_headers_;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_HEADER_FINDER_H_
