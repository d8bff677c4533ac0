// DecodeSum on the device: returns the same floats as core/pipeline.h.
//
// The packets are given twice. On the host, where the collective put them, the core's code reads
// and checks the headers. On the device, in a copy of the same bytes that the caller made, the
// sections are checked and decoded. The host never reads a section.
#ifndef TFCOMPRESS_CUDA_SUM_DECODER_H_
#define TFCOMPRESS_CUDA_SUM_DECODER_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "core/packets.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/bloom_extent.h"
#include "cuda/code_blocks.h"
#include "cuda/coded_values.h"
#include "cuda/crc32c.h"
#include "cuda/device_variants.h"
#include "cuda/sketch_group.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// The output for the sum of one tensor: n elements that are overwritten.
struct DeviceTarget {
  void* data_dev;
  DType dtype;
  uint64_t n;
};

// Decodes and sums the frames of some tensors, for packets whose headers it has read. For one use:
// other packets need another SumDecoder.
class SumDecoder {
 public:
  // Reads the headers of the frames at `positions`. Borrows the packets' bytes. Fails as DecodeSum
  // does for invalid headers and lengths, and with InvalidArgument for a codec without a device
  // variant, which the message names.
  static Result<SumDecoder> Make(const PacketsView& packets, Span<const int64_t> positions,
                                 Span<const DeviceTarget> targets);

  size_t workspace_bytes() const { return workspace_bytes_; }
  size_t num_frames() const { return tasks_.size(); }

  // Writes `scale` times the sum over ranks to the targets: one frame at a time, in rank order, so
  // that every rank gets the same bits. packets_dev has the bytes of the packets. Puts everything
  // on `stream`, at its end a copy to `errors` on the host, one for each frame, which Report reads
  // when the stream has come there; waits for nothing if `errors` are pinned.
  Status Launch(const unsigned char* packets_dev, float scale, const DeviceBuffer& workspace,
                cudaStream_t stream, Span<uint32_t> errors) const;
  // Fails with DataLoss, naming rank and position, if any frame is broken; the targets' content is
  // then unspecified. `stats` is empty or has one element for each target; their nanoseconds are 0.
  Status Report(Span<const uint32_t> errors, Span<DecodeStats> stats) const;
  // Launches, waits for the stream once, and reports.
  Status DecodeSum(const unsigned char* packets_dev, float scale, const DeviceBuffer& workspace,
                   cudaStream_t stream, Span<DecodeStats> stats) const;

 private:
  struct Buffers;
  struct FrameTask {
    Frame frame;
    DeviceDecoder decoder;
    uint64_t offset;  // Position of the frame in the packets.
  };

  SumDecoder() = default;
  // The frames of a tensor are next to each other, in rank order.
  size_t num_ranks() const { return targets_.empty() ? 0 : tasks_.size() / targets_.size(); }
  // Raises the maxima below to what the frame needs of the workspace.
  void MakeRoomFor(const FrameTask& task);
  Status Take(Workspace* workspace, Buffers* buffers) const;
  Status DecodeIndices(const FrameTask& task, const unsigned char* section_dev,
                       const Buffers& buffers, uint32_t* error_dev, cudaStream_t stream) const;
  // Adds the elements of a joint codec.
  Status AddSketch(const FrameTask& task, const unsigned char* section_dev, float scale,
                   const Buffers& buffers, uint32_t* error_dev, float* sum_dev,
                   cudaStream_t stream) const;
  Status AddFrame(size_t i, const unsigned char* packets_dev, float scale, const Buffers& buffers,
                  float* sum_dev, cudaStream_t stream) const;
  Status SumTensor(size_t tensor, const unsigned char* packets_dev, float scale,
                   const Buffers& buffers, cudaStream_t stream) const;
  bool IsFinite(size_t tensor) const;

  std::vector<FrameTask> tasks_;
  std::vector<int64_t> positions_;
  std::vector<DeviceTarget> targets_;
  size_t num_packet_bytes_ = 0;
  // Maxima over all frames.
  uint32_t max_k_ = 0;         // Frames with an explicit support.
  CodeExtent max_deltas_{};    // Index sections with prefixed deltas.
  BloomExtent max_bloom_;      // Index sections of Bloom filters.
  uint32_t max_marks_ = 0;     // n of frames that go through marks.
  uint32_t max_wide_ = 0;      // n of targets that are not float32.
  SketchExtent max_sketch_{};  // Grouped sketches.
  ParamNeeds params_;          // Value sections.
  CrcShift shift_;
  size_t workspace_bytes_ = 0;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SUM_DECODER_H_
