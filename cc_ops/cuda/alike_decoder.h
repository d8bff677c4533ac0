// DecodeSum on the device for tensors that are alike: the frames of each rank have codecs of the
// same kinds. Ranks whose kinds are the same, too, form groups (frame_group.h): the number of
// launches depends neither on the tensors nor on the ranks of a group.
#ifndef TFCOMPRESS_CUDA_ALIKE_DECODER_H_
#define TFCOMPRESS_CUDA_ALIKE_DECODER_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/packets.h"
#include "core/pipeline.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/crc32c.h"
#include "cuda/frame_group.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Fills the target, which is on the device, with NaN: the bits that the core uses for each type.
Status FillNaN(const SumTarget& target, cudaStream_t stream);

// For one use, as the SumDecoder that makes it.
class AlikeDecoder {
 public:
  // Limits of the tensors of a decoder, unless there is one: how many, and their elements.
  static constexpr uint64_t kMaxTensors = kMaxParts, kMaxElements = uint64_t{1} << 31;

  // For frames of each of some ranks in order, one for each target, that were read from packets and
  // checked. A group has as many ranks as need `most_group_bytes` of the workspace together, one at
  // least.
  static AlikeDecoder Make(std::vector<FrameTask> tasks, std::vector<SumTarget> targets,
                           uint64_t most_group_bytes);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Memory of the host that the stream copies from and to, aligned as by malloc.
  size_t host_bytes() const { return host_bytes_; }

  // As those of SumDecoder; no pointer is null.
  Status Launch(const unsigned char* packets_dev, float scale, const DeviceBuffer& workspace,
                cudaStream_t stream, void* host) const;
  Status Report(const void* host, Span<DecodeStats> stats) const;

 private:
  struct Frames {
    size_t first;
    size_t count;
  };
  struct Tables;
  struct Buffers;

  AlikeDecoder() = default;
  size_t num_tensors() const { return targets_.size(); }
  // One for each frame, and one of all groups.
  size_t num_errors() const { return tasks_.size() + 1; }
  FrameGroup GroupOf(const Frames& frames) const;
  void FormGroups(uint64_t most_bytes);
  Tables TakeTables(Workspace* workspace) const;
  // Elements of the sum that a target needs beside its own.
  uint64_t NumWideSums(const SumTarget& target) const;
  // Takes what all groups share; each takes its own behind that. Returns the bytes of both.
  size_t Take(Workspace* workspace, Buffers* buffers) const;
  void FillTables(const unsigned char* packets_dev, const Buffers& buffers,
                  const Tables& tables) const;
  Status CheckFrames(const Buffers& buffers, const Tables& tables, cudaStream_t stream) const;
  Status AddGroup(size_t group, const unsigned char* packets_dev, float scale,
                  const Buffers& buffers, const Tables& tables, cudaStream_t stream) const;

  bool IsFinite(size_t tensor) const;
  // Decodes on the host what the device found broken.
  Status NameBrokenFrame() const;

  std::vector<FrameTask> tasks_;  // Rank-major.
  std::vector<SumTarget> targets_;
  std::vector<Frames> groups_;
  bool have_supports_ = false;
  bool have_filters_ = false;
  CrcShift shift_;
  size_t workspace_bytes_ = 0;
  size_t host_bytes_ = 0;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_ALIKE_DECODER_H_
