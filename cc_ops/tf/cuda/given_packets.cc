#include "tf/cuda/given_packets.h"

#include <sys/mman.h>

#include <algorithm>

#include "cuda/header_finder.h"
#include "cuda/resident_blocks.h"
#include "tf/cuda/register_device_kernel.h"

namespace tfcompress {

void GivenPackets::Unmap::operator()(unsigned char* bytes) const { munmap(bytes, num_bytes); }

// From the system, in small pages: those that are not touched cost nothing, and headers touch few.
absl::Status GivenPackets::MapHeaders() {
  void* const bytes = mmap(nullptr, given_.size(), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED) return absl::ResourceExhaustedError("no memory for headers of packets");
  madvise(bytes, given_.size(), MADV_NOHUGEPAGE);
  headers_ = {static_cast<unsigned char*>(bytes), Unmap{given_.size()}};
  return absl::OkStatus();
}

absl::Status GivenPackets::ReadHeaders(uint64_t num_frames) {
  if (!PacketsAreOnDevice() || given_.empty()) return absl::OkStatus();
  TF_RETURN_IF_ERROR(MapHeaders());
  is_complete_ = false;
  if (!device::CheckHasCode().ok()) return Complete();
  const device::HeaderFinder finder(given_.size(), num_frames);
  OwnedBuffer workspace;
  tensorflow::Tensor found;
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx_, finder.workspace_bytes(), &workspace));
  TF_RETURN_IF_ERROR(AllocatePinned(ctx_, finder.workspace_bytes(), &found));
  const auto launch = [&] {
    return ToTensorFlow(finder.Launch(given_.data(), workspace, StreamOf(ctx_), found.data()));
  };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx_, launch, &nanoseconds_));
  return finder.CopyTo(headers_.get(), found.data()) ? absl::OkStatus() : Complete();
}

absl::Status GivenPackets::Complete() {
  if (is_complete_) return absl::OkStatus();
  is_complete_ = true;
  const cudaStream_t stream = StreamOf(ctx_);
  TF_RETURN_IF_ERROR(
      ToTensorFlow(CopyToHost(given_.data(), given_.size(), headers_.get(), stream)));
  return ToTensorFlow(WaitFor(stream));
}

absl::Status GivenPackets::AllocateCopy() {
  if (!is_given_on_host()) return absl::OkStatus();
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx_, given_.size(), &copy_));
  // From other memory than pinned, a copy would first wait for all that is on the stream.
  TF_RETURN_IF_ERROR(AllocatePinned(ctx_, given_.size(), &pinned_));
  std::copy(given_.begin(), given_.end(), static_cast<unsigned char*>(pinned_.data()));
  return absl::OkStatus();
}

absl::Status GivenPackets::CopyToDevice() const {
  if (!is_given_on_host()) return absl::OkStatus();
  return ToTensorFlow(
      tfcompress::CopyToDevice(pinned_.data(), given_.size(), copy_.data_dev, StreamOf(ctx_)));
}

}  // namespace tfcompress
