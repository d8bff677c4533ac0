// Frames that are decoded side by side: those of consecutive ranks, whose codecs are of the same
// kinds. What a group takes of the workspace, and how its supports are decoded.
#ifndef TFCOMPRESS_CUDA_FRAME_GROUP_H_
#define TFCOMPRESS_CUDA_FRAME_GROUP_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/packets.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/bloom.h"
#include "cuda/coded_values.h"
#include "cuda/delta_bytes.h"
#include "cuda/device_variants.h"
#include "cuda/grouped_sketch.h"
#include "cuda/prefixed_deltas.h"
#include "cuda/support_section.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// A frame to decode, whose header has been read.
struct FrameTask {
  PacketFrame frame;
  DeviceDecoder decoder;  // Set if the frame has elements.
  uint64_t offset;        // Position of the frame in the packets.
};

// Errors of a frame: the first of these is reported.
enum FrameError : uint32_t {
  kChecksumError = 1,
  kIndexError = 2,
  kValueError = 4,
  kJointError = 8,
};

// Whether frames have codecs of the same kinds.
bool HasSameKinds(const DeviceDecoder& a, const DeviceDecoder& b);

// Tables with an element for each frame, on the host or on the device.
struct FrameTables {
  AddedValues* values;
  SupportSection* sections;  // Of supports, if there are any, as are the rest.
  // Index sections as lists of keys: those of a group are the lists of one KeyLists.
  uint32_t* begins;
  uint32_t* sizes;
  uint32_t* first_tiles;  // One more for each group.
  uint64_t* sources;      // Of the section in the packets.
  uint64_t* packed;       // Of the section in the words that it is brought to.
  uint64_t* num_bytes;
  BloomPlace* filters;  // Of Bloom filters, if there are any.

  // From a frame of the group with this number on.
  FrameTables From(size_t frame, size_t group) const;
};
FrameTables TakeFrameTables(size_t num_frames, size_t num_groups, bool have_supports,
                            bool have_filters, Workspace* workspace);

// What a group takes of the workspace.
struct GroupBuffers {
  ValueParams* params_dev;  // One for each frame.
  float* tables_dev;        // Those of AddedValues, end to end, as are
  uint32_t* indices_dev;    // supports, and
  float* values_dev;        // values of joint codecs.
  Marks marks;
  DeltaBuffers deltas;
  DeltaReadBuffers prefixed;
  BloomReadBuffers bloom;
  SketchDecodeBuffers sketch;
};

// A view of the frames of a group.
class FrameGroup {
 public:
  explicit FrameGroup(Span<const FrameTask> frames);

  // Whether a frame has elements.
  bool has_elements() const { return has_elements_; }
  // Whether both may be one group.
  bool HasKindsOf(const FrameGroup& other) const;
  // Of what SumTiles adds.
  ValueKind value_kind() const;
  bool has_supports() const;
  bool has_filters() const;
  // The sum over ranks is about that of their group.
  uint64_t workspace_bytes() const;
  uint64_t num_keys() const;

  void Take(Workspace* workspace, GroupBuffers* buffers) const;
  // Fills the tables of the group but for sums and errors, which are set before, for packets that
  // are at packets_dev.
  void Fill(const unsigned char* packets_dev, const GroupBuffers& buffers,
            const FrameTables& tables) const;
  // Decodes the supports, and the values of joint codecs. Sets the errors of frames, or, where
  // frames are decoded as lists of keys, *common_error_dev. Supports whose frame has no error are
  // valid.
  Status DecodeSupports(const unsigned char* packets_dev, const FrameTables& tables,
                        const FrameTables& tables_dev, const GroupBuffers& buffers,
                        uint32_t* common_error_dev, cudaStream_t stream) const;

 private:
  struct Places;

  bool is_joint() const { return kinds_.joint != JointKind::kNone; }
  bool goes_through_marks() const;
  bool has_lists() const;
  void FillSupport(const FrameTask& task, const unsigned char* sections_dev, const Places& places,
                   const GroupBuffers& buffers, SupportSection* section, AddedValues* added) const;
  void FillLists(const FrameTables& tables) const;
  Status DecodeDeltaLists(const unsigned char* packets_dev, const FrameTables& tables_dev,
                          const GroupBuffers& buffers, uint32_t* common_error_dev,
                          cudaStream_t stream) const;

  Span<const FrameTask> frames_;
  bool has_elements_ = false;  // Some frame has.
  DeviceDecoder kinds_{};      // Of those that have.
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_GROUP_H_
