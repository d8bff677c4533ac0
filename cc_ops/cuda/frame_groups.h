// Groups of ranks whose frames are decoded side by side, and the index sections of a group as lists
// of keys.
#ifndef TFCOMPRESS_CUDA_FRAME_GROUPS_H_
#define TFCOMPRESS_CUDA_FRAME_GROUPS_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "core/packets.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/coded_values.h"
#include "cuda/delta_bytes.h"
#include "cuda/device_variants.h"
#include "cuda/prefixed_deltas.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// A frame to decode, whose header has been read.
struct FrameTask {
  PacketFrame frame;
  DeviceDecoder decoder;  // Set if the frame has elements.
  uint64_t offset;        // Position of the frame in the packets.
};

// Whether frames have codecs of the same kinds.
bool HasSameKinds(const DeviceDecoder& a, const DeviceDecoder& b);

// Buffers to decode index sections of delta bytes and of prefixed deltas.
struct KeyBuffers {
  DeltaBuffers deltas;
  DeltaReadBuffers prefixed;
};

// Decodes the index sections of lists, whose codec is one of deltas, to indices that are not
// checked yet. Sets bits of *error_dev if a section is invalid.
Status DecodeDeltaSections(IndexKind index, const KeyLists& lists, const CodeSections& sections,
                           const KeyBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                           uint32_t* indices_dev, cudaStream_t stream);

// The index sections of all frames as lists, on the host or on the device: those of a group are the
// lists of one KeyLists.
struct ListTables {
  uint32_t* begins;
  uint32_t* sizes;
  uint32_t* first_tiles;  // One more for each group.
  uint64_t* sources;      // Of the section in the packets.
  uint64_t* sections;     // Of the section in the words that it is brought to.
  uint64_t* num_bytes;
};

class FrameGroups {
 public:
  struct Group {
    size_t first_frame;
    size_t num_frames;
    uint64_t num_keys;         // Indices in index sections.
    uint64_t num_index_bytes;  // Of index sections, each in whole words.
    uint64_t max_index_bytes;  // Of the longest index section.
  };

  // None: frames are decoded one at a time.
  FrameGroups() = default;
  // Forms groups of the frames of all ranks, rank-major, with `num_tensors` each; none if a frame
  // has codecs of other kinds than the others, or kinds that are not decoded so. A group has as
  // many ranks as need `most_bytes` of the workspace together, one at least.
  FrameGroups(Span<const FrameTask> tasks, size_t num_tensors, uint64_t most_bytes);

  bool empty() const { return groups_.empty(); }
  size_t size() const { return groups_.size(); }
  const Group& operator[](size_t group) const { return groups_[group]; }
  // Of all frames.
  bool has_indices() const { return common_.index != IndexKind::kImplied; }
  ValueKind value_kind() const { return common_.value; }
  // Maxima over the groups.
  size_t max_frames() const { return most_.num_frames; }
  uint32_t max_keys() const { return static_cast<uint32_t>(most_.num_keys); }

  ListTables TakeTables(Workspace* workspace) const;
  void TakeBuffers(Workspace* workspace, KeyBuffers* buffers) const;

  // Gives the frames of each group indices and parameters of their own, in tables where all have
  // the first ones, and lists their index sections.
  void Place(Span<const FrameTask> tasks, AddedValues* values, const ListTables& lists) const;

  // As DecodeDeltaSections, for a group in packets of `num_bytes` bytes.
  Status DecodeKeys(size_t group, const unsigned char* packets_dev, uint64_t num_bytes,
                    const ListTables& lists_dev, const KeyBuffers& buffers, uint32_t bits,
                    uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream) const;

 private:
  // Each rank as a group, or nothing.
  std::vector<Group> Ranks(Span<const FrameTask> tasks, size_t num_tensors) const;
  uint64_t BytesOf(const Group& group) const;
  // Joins the rank to the last group, or makes it the next one.
  void Append(const Group& rank, uint64_t most_bytes);
  void Place(size_t group, Span<const FrameTask> tasks, AddedValues* values,
             const ListTables& lists) const;

  std::vector<Group> groups_;
  DeviceDecoder common_{};  // Of all frames.
  Group most_{};
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_GROUPS_H_
