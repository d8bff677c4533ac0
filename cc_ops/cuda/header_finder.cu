#include <algorithm>
#include <cstring>
#include <vector>

#include "core/byte_io.h"
#include "core/frame.h"
#include "core/wire_header.h"
#include "cuda/cuda_status.h"
#include "cuda/header_finder.h"
#include "cuda/launch.h"
#include "cuda/raw_bytes.h"

namespace tfcompress {
namespace device {
namespace {

// Zeros that are counted at most: more than ranks append as padding (tfcompress/routes/gather.py).
constexpr uint64_t kMostZeros = 4096;

// A header, and the first bytes of the section behind it: the host launches other kernels for each
// policy of a Bloom filter.
constexpr uint64_t kCopiedBytes = kFrameHeaderBytes + 4;

// Bytes that may be a header, and where in the packets they begin.
struct FoundHeader {
  uint64_t begin;
  uint32_t zeros_before;
  unsigned char bytes[kCopiedBytes];
};

// `found` has room for the first of `count` headers, which come in any order.
struct FoundHeaders {
  unsigned long long count;
  uint64_t zeros_at_end;
  FoundHeader found[1];
};

size_t BytesFor(uint64_t most_headers) {
  return offsetof(FoundHeaders, found) + most_headers * sizeof(FoundHeader);
}

__device__ uint64_t ZerosBefore(const unsigned char* packets, uint64_t end) {
  uint64_t zeros = 0;
  while (zeros < kMostZeros && zeros < end && packets[end - zeros - 1] == 0) ++zeros;
  return zeros;
}

__device__ void Append(const unsigned char* packets, uint64_t num_packet_bytes, uint64_t begin,
                       uint64_t most_headers, FoundHeaders* headers) {
  const uint64_t position = atomicAdd(&headers->count, 1ull);
  if (position >= most_headers) return;
  FoundHeader& header = headers->found[position];
  header.begin = begin;
  header.zeros_before = static_cast<uint32_t>(ZerosBefore(packets, begin));
  for (uint64_t i = 0; i < kCopiedBytes && begin + i < num_packet_bytes; ++i)
    header.bytes[i] = packets[begin + i];
}

// A thread looks at the four bytes at which a header may begin in a word.
__global__ void FindHeadersKernel(const unsigned char* packets, uint64_t num_packet_bytes,
                                  uint64_t most_headers, FoundHeaders* headers) {
  const uint64_t num_places = num_packet_bytes - kFrameHeaderBytes + 1;
  for (uint64_t i = ThisThread(); i < CeilDiv(num_places, sizeof(uint32_t)); i += NumThreads()) {
    const uint64_t next = LoadAt<uint32_t>(packets, i + 1);
    const uint64_t bytes = next << 32 | LoadAt<uint32_t>(packets, i);
    for (uint32_t byte = 0; byte < sizeof(uint32_t); ++byte) {
      const uint64_t begin = i * sizeof(uint32_t) + byte;
      if (static_cast<uint32_t>(bytes >> (8 * byte)) == kFrameMagic && begin < num_places)
        Append(packets, num_packet_bytes, begin, most_headers, headers);
    }
  }
  if (ThisThread() == 0) headers->zeros_at_end = ZerosBefore(packets, num_packet_bytes);
}

// Whether there are only zeros between the frames, where one follows the other. Where the next one
// begins is known from the zeros, as readers of packets know it.
bool ArePadded(const std::vector<FoundHeader>& found, uint64_t zeros_at_end, uint64_t num_bytes) {
  uint64_t end = 0;
  for (const FoundHeader& header : found) {
    if (header.begin < end) continue;  // Bytes of a section.
    if (header.begin - end > header.zeros_before) return false;
    const auto length = LoadUnaligned<uint32_t>(header.bytes + offsetof(WireHeader, num_bytes));
    end = header.begin + std::max<uint64_t>(length, kFrameHeaderBytes);
  }
  return end > num_bytes || num_bytes - end <= zeros_at_end;
}

}  // namespace

HeaderFinder::HeaderFinder(uint64_t num_packet_bytes, uint64_t num_expected)
    : num_packet_bytes_(num_packet_bytes),
      most_headers_(2 * std::min(num_expected, num_packet_bytes / kFrameHeaderBytes) + 64) {}

size_t HeaderFinder::workspace_bytes() const { return BytesFor(most_headers_); }

Status HeaderFinder::Launch(const unsigned char* packets_dev, const DeviceBuffer& workspace,
                            cudaStream_t stream, void* host) const {
  TFC_RETURN_IF_ERROR(Workspace::Check(workspace, workspace_bytes()));
  auto* const headers_dev = static_cast<FoundHeaders*>(workspace.data_dev);
  TFC_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(headers_dev, 0, workspace_bytes(), stream));
  if (num_packet_bytes_ >= kFrameHeaderBytes) {
    TFC_RETURN_IF_ERROR(LaunchThreads("find headers", FindHeadersKernel,
                                      CeilDiv(num_packet_bytes_, sizeof(uint32_t)), stream,
                                      packets_dev, num_packet_bytes_, most_headers_, headers_dev));
  }
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(host, headers_dev, workspace_bytes(), cudaMemcpyDeviceToHost, stream));
  return OkStatus();
}

bool HeaderFinder::CopyTo(unsigned char* packets, const void* host) const {
  const auto* const headers = static_cast<const FoundHeaders*>(host);
  if (headers->count > most_headers_) return false;
  std::vector<FoundHeader> found(headers->found, headers->found + headers->count);
  std::sort(found.begin(), found.end(),
            [](const FoundHeader& a, const FoundHeader& b) { return a.begin < b.begin; });
  for (const FoundHeader& header : found) {
    std::memcpy(packets + header.begin, header.bytes,
                std::min(kCopiedBytes, num_packet_bytes_ - header.begin));
  }
  return ArePadded(found, headers->zeros_at_end, num_packet_bytes_);
}

}  // namespace device
}  // namespace tfcompress
