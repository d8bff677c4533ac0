// The packets that a kernel was given, for code that reads them on the host and on the device.
#ifndef TFCOMPRESS_TF_CUDA_GIVEN_PACKETS_H_
#define TFCOMPRESS_TF_CUDA_GIVEN_PACKETS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "core/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"

namespace tfcompress {

// Where packets are on the device (PacketsAreOnDevice), only headers are copied to the host, until
// somebody needs more; where they are on the host, all bytes are copied to the device.
class GivenPackets {
 public:
  // Borrows the packets.
  GivenPackets(tensorflow::OpKernelContext* ctx, ByteSpan packets) : ctx_(ctx), given_(packets) {}

  // Brings the headers of about so many frames to the host. To be called first.
  absl::Status ReadHeaders(uint64_t num_frames);
  // As many bytes as the packets, at the same address for as long as this lives: zeros besides
  // headers unless they are complete.
  ByteSpan on_host() const { return is_given_on_host() ? given_ : headers(); }
  bool is_complete() const { return is_complete_; }
  // Brings all bytes to the host.
  absl::Status Complete();

  // Allocates memory for a copy on the device if they are not there.
  absl::Status AllocateCopy();
  // Puts the copying on the stream, if there is any.
  absl::Status CopyToDevice() const;
  // Where they are on the device, as soon as the stream has come to the end of the copying.
  const unsigned char* data_dev() const {
    return is_given_on_host() ? static_cast<unsigned char*>(copy_.data_dev) : given_.data();
  }
  // Time on the stream until there were headers.
  int64_t nanoseconds() const { return nanoseconds_; }

 private:
  struct Unmap {
    size_t num_bytes;
    void operator()(unsigned char* bytes) const;
  };

  bool is_given_on_host() const { return headers_ == nullptr; }
  ByteSpan headers() const { return {headers_.get(), given_.size()}; }
  absl::Status MapHeaders();

  tensorflow::OpKernelContext* const ctx_;
  const ByteSpan given_;
  std::unique_ptr<unsigned char, Unmap> headers_{nullptr, Unmap{0}};
  bool is_complete_ = true;
  int64_t nanoseconds_ = 0;
  OwnedBuffer copy_;
  tensorflow::Tensor pinned_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_GIVEN_PACKETS_H_
