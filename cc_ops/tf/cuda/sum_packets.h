// Decoding of packets that are on the host, for sums that are on the device.
#ifndef TFCOMPRESS_TF_CUDA_SUM_PACKETS_H_
#define TFCOMPRESS_TF_CUDA_SUM_PACKETS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/packets.h"
#include "core/pipeline.h"
#include "cuda/workspace.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/cuda/device_memory.h"

namespace tfcompress {

// Arguments of summing, on the device or on the host.
struct SumTask {
  const PacketsView& packets;
  const std::vector<int64_t>& positions;
  float scale;
  const std::vector<SumTarget>& targets;  // On the device.
};

// Sums on the device, or on the host as OnDeviceOrHost says. Fails as DecodeSum does.
absl::Status SumPackets(tensorflow::OpKernelContext* ctx, const std::string& subject,
                        const SumTask& task, std::vector<DecodeStats>* stats);

// Divides the measured time among the tensors in proportion to their elements.
void ShareTime(int64_t nanoseconds, const std::vector<SumTarget>& targets,
               std::vector<DecodeStats>* stats);

// Copies sums from the host to the targets, and waits.
absl::Status CopySums(tensorflow::OpKernelContext* ctx, const std::vector<SumTarget>& from,
                      const std::vector<SumTarget>& to_dev);
// Makes targets of the same sizes in pinned memory, as long as the owners live.
absl::Status AllocateOnHost(tensorflow::OpKernelContext* ctx, const std::vector<SumTarget>& like,
                            std::vector<tensorflow::Tensor>* owners,
                            std::vector<SumTarget>* targets);

// Decodes by a SumDecoder or a PieceDecoder that was made for these packets.
template <typename Decoder>
absl::Status DecodeOnDevice(tensorflow::OpKernelContext* ctx, const Decoder& decoder,
                            ByteSpan packets, float scale, std::vector<DecodeStats>* stats,
                            int64_t* nanoseconds) {
  tensorflow::Tensor workspace_owner, packets_owner, pinned, host;
  device::DeviceBuffer workspace, packets_dev;
  TF_RETURN_IF_ERROR(
      AllocateOnDevice(ctx, decoder.workspace_bytes(), &workspace_owner, &workspace));
  TF_RETURN_IF_ERROR(AllocateOnDevice(ctx, packets.size(), &packets_owner, &packets_dev));
  // From other memory than pinned, a copy would first wait for all that is on the stream.
  TF_RETURN_IF_ERROR(AllocatePinned(ctx, packets.size(), &pinned));
  std::copy(packets.begin(), packets.end(), static_cast<unsigned char*>(pinned.data()));
  TF_RETURN_IF_ERROR(AllocatePinned(ctx, decoder.host_bytes(), &host));
  const auto launch = [&]() -> absl::Status {
    const cudaStream_t stream = StreamOf(ctx);
    TF_RETURN_IF_ERROR(
        ToTensorFlow(CopyToDevice(pinned.data(), packets.size(), packets_dev.data_dev, stream)));
    return ToTensorFlow(decoder.Launch(static_cast<const unsigned char*>(packets_dev.data_dev),
                                       scale, workspace, stream, host.data()));
  };
  TF_RETURN_IF_ERROR(TimeOnStream(ctx, launch, nanoseconds));
  return ToTensorFlow(decoder.Report(host.data(), Span<DecodeStats>(*stats)));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_SUM_PACKETS_H_
