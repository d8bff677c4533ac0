// DecodeSum on the device for tensors that are alike: either all float32 or all not, and, but for
// ranks that differ, with frames of the same codecs. Such frames are decoded side by side, where
// frame_groups.h says so: the number of launches depends neither on the tensors nor on the ranks of
// a group.
#ifndef TFCOMPRESS_CUDA_ALIKE_DECODER_H_
#define TFCOMPRESS_CUDA_ALIKE_DECODER_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/packets.h"
#include "core/pipeline.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/bloom.h"
#include "cuda/code_blocks.h"
#include "cuda/coded_values.h"
#include "cuda/crc32c.h"
#include "cuda/device_variants.h"
#include "cuda/frame_groups.h"
#include "cuda/sketch_group.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Fills the target, which is on the device, with NaN: the bits that the core uses for each type.
Status FillNaN(const SumTarget& target, cudaStream_t stream);

// For one use, as the SumDecoder that makes it.
class AlikeDecoder {
 public:
  // For frames of each rank in order, one for each target, that were read from packets and checked.
  // Of ranks whose frames are decoded side by side, a group has as many as need `most_group_bytes`
  // of the workspace together, one at least.
  static AlikeDecoder Make(uint64_t num_packet_bytes, std::vector<FrameTask> tasks,
                           std::vector<SumTarget> targets, uint64_t most_group_bytes);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Memory of the host that the stream copies from and to, aligned as by malloc.
  size_t host_bytes() const { return host_bytes_; }

  // As those of SumDecoder; no pointer is null.
  Status Launch(const unsigned char* packets_dev, float scale, const DeviceBuffer& workspace,
                cudaStream_t stream, void* host) const;
  Status Report(const void* host, Span<DecodeStats> stats) const;

 private:
  struct Tables;
  struct Buffers;

  AlikeDecoder() = default;
  size_t num_tensors() const { return targets_.size(); }
  // One for each frame, and one of all groups.
  size_t num_errors() const { return tasks_.size() + 1; }
  FrameGroups FormGroups(uint64_t most_bytes) const;
  // Raises the maxima below to what the frame needs of the workspace, if decoded on its own.
  void MakeRoomFor(const FrameTask& task);
  Tables TakeTables(Workspace* workspace) const;
  void Take(Workspace* workspace, Buffers* buffers) const;
  float* SumOf(size_t tensor, const Buffers& buffers) const;
  void FillTables(const unsigned char* packets_dev, const Buffers& buffers,
                  const Tables& tables) const;
  Status CheckFrames(const Buffers& buffers, const Tables& tables, cudaStream_t stream) const;

  // Sets indices_dev to the support of a frame, or sets its error.
  Status DecodeIndices(const FrameTask& task, const unsigned char* section_dev,
                       const Buffers& buffers, const Parts<AddedValues>& values,
                       cudaStream_t stream) const;
  // Adds the elements of a joint codec.
  Status AddSketch(const FrameTask& task, const unsigned char* section_dev, float scale,
                   const Buffers& buffers, uint32_t* error_dev, float* sum_dev,
                   cudaStream_t stream) const;
  Status AddFrame(size_t i, const unsigned char* packets_dev, float scale, const Buffers& buffers,
                  const Tables& tables, cudaStream_t stream) const;
  Status SumTensor(size_t tensor, const unsigned char* packets_dev, float scale,
                   const Buffers& buffers, const Tables& tables, cudaStream_t stream) const;

  Status AddGroup(size_t group, const unsigned char* packets_dev, float scale,
                  const Buffers& buffers, const Tables& tables, cudaStream_t stream) const;
  Status SumGroups(const unsigned char* packets_dev, float scale, const Buffers& buffers,
                   const Tables& tables, cudaStream_t stream) const;

  bool IsFinite(size_t tensor) const;
  // Decodes on the host what the device found broken.
  Status NameBrokenFrame() const;

  std::vector<FrameTask> tasks_;  // Rank-major.
  std::vector<SumTarget> targets_;
  size_t num_packet_bytes_ = 0;
  FrameGroups groups_;
  // Maxima over frames that are decoded on their own.
  uint32_t max_k_ = 0;         // Frames with an explicit support.
  CodeExtent max_deltas_{};    // Index sections with prefixed deltas.
  BloomExtent max_bloom_;      // Index sections of Bloom filters.
  uint32_t max_marks_ = 0;     // n of frames that go through marks.
  uint32_t max_wide_ = 0;      // n of targets that are not float32.
  SketchExtent max_sketch_{};  // Grouped sketches.
  ParamNeeds params_;          // Value sections.
  CrcShift shift_;
  size_t workspace_bytes_ = 0;
  size_t host_bytes_ = 0;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_ALIKE_DECODER_H_
