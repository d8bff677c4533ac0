#include "device_sums.h"

#include <memory>
#include <numeric>

#include "cuda/sum_decoder.h"
#include "fuzz/frame_fields.h"
#include "shown_packets.h"

namespace tfcompress {
namespace device {

void Append(const std::string& spec, const HostGradient& gradient, uint64_t seed, Bytes* packet) {
  const auto compressor = Parse(spec);
  const Slots slots(static_cast<size_t>(compressor->memory().num_slots()),
                    std::vector<float>(gradient.n, 0.0f));
  const Encoded encoded = EncodeOnHost(*compressor, gradient, slots, seed);
  ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
  packet->insert(packet->end(), encoded.frame.begin(), encoded.frame.end());
}

Sums SumOnHost(const Bytes& packets, int num_ranks, float scale,
               const std::vector<TensorSpec>& tensors) {
  Sums sums;
  std::vector<SumTarget> targets;
  for (const TensorSpec& tensor : tensors)
    sums.tensors.emplace_back(tensor.n * DTypeBytes(tensor.dtype));
  for (size_t t = 0; t < tensors.size(); ++t)
    targets.push_back({sums.tensors[t].data(), tensors[t].dtype, tensors[t].n});
  sums.status = DecodeSum(packets, num_ranks, scale, targets, SerialExecutor(), {});
  return sums;
}

Sums SumOnDevice(const Bytes& packets, int num_ranks, float scale,
                 const std::vector<TensorSpec>& tensors, const Stream& stream, size_t offset,
                 Span<DecodeStats> stats, uint64_t most_group_bytes) {
  Sums sums;
  std::vector<std::unique_ptr<DeviceVector<unsigned char>>> memory;
  std::vector<SumTarget> targets;
  for (const TensorSpec& tensor : tensors) {
    memory.push_back(
        std::make_unique<DeviceVector<unsigned char>>(tensor.n * DTypeBytes(tensor.dtype)));
    targets.push_back({memory.back()->data_dev(), tensor.dtype, tensor.n});
  }
  std::vector<int64_t> positions(tensors.size());
  std::iota(positions.begin(), positions.end(), 0);
  const auto num_frames = static_cast<int64_t>(tensors.size());
  Bytes moved(offset, 0);
  moved.insert(moved.end(), packets.begin(), packets.end());
  const DeviceVector<unsigned char> packets_dev(moved, stream);
  const unsigned char* const begin_dev = packets_dev.data_dev() + offset;
  const auto sum = [&](const Bytes& on_host) -> Status {
    const PacketsView view = {on_host, num_ranks, num_frames};
    TFC_ASSIGN_OR_RETURN(const SumDecoder decoder,
                         SumDecoder::Make(view, positions, targets, most_group_bytes));
    const DeviceVector<unsigned char> workspace(decoder.workspace_bytes());
    return decoder.DecodeSum(begin_dev, scale, workspace.buffer(), stream.get(), stats);
  };
  // The host needs the sections only to tell what is broken.
  const ShownPackets shown = ShowHeaders(packets, begin_dev, num_ranks * tensors.size(), stream);
  const bool is_done = shown.are_enough && sum(shown.bytes).ok();
  if (!is_done) sums.status = sum(packets);
  EXPECT_TRUE(!shown.are_enough || is_done == sums.status.ok()) << sums.status.message();
  if (!sums.status.ok()) return sums;
  for (const auto& tensor : memory) sums.tensors.push_back(tensor->ToHost(stream));
  return sums;
}

Bytes FrameWithValues(const std::string& spec, uint32_t n, uint32_t k, const Bytes& section) {
  const std::vector<float> values(n, 1.0f);
  Bytes frame = EncodeOnHost(*Parse(spec), {values, DType::kFloat32}, {}, 1).frame;
  frame.resize(frame_fields::kHeaderBytes);
  frame.insert(frame.end(), section.begin(), section.end());
  SetField(frame_fields::kK, k, &frame);
  SetField(frame_fields::kNumBytes, static_cast<uint32_t>(frame.size()), &frame);
  SetField(frame_fields::kNumValueBytes, static_cast<uint32_t>(section.size()), &frame);
  RepairChecksum(&frame);
  return frame;
}

void ExpectRefused(const Bytes& frame, const std::vector<TensorSpec>& tensors,
                   const Stream& stream) {
  EXPECT_EQ(SumOnHost(frame, 1, 1, tensors).status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(SumOnDevice(frame, 1, 1, tensors, stream).status.code(), StatusCode::kDataLoss);
}

void ExpectSameSums(const Bytes& packets, int num_ranks, float scale,
                    const std::vector<TensorSpec>& tensors, const Stream& stream, size_t offset,
                    uint64_t most_group_bytes) {
  const Sums expected = SumOnHost(packets, num_ranks, scale, tensors);
  ASSERT_TRUE(expected.status.ok()) << expected.status.message();
  const Sums actual =
      SumOnDevice(packets, num_ranks, scale, tensors, stream, offset, {}, most_group_bytes);
  ASSERT_TRUE(actual.status.ok()) << actual.status.message();
  for (size_t t = 0; t < tensors.size(); ++t)
    ASSERT_TRUE(actual.tensors[t] == expected.tensors[t]) << "tensor " << t << " differs";
}

}  // namespace device
}  // namespace tfcompress
