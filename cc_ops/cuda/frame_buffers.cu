// The buffers that encodings take from their workspaces.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/frame.h"
#include "cuda/ceil_div.h"
#include "cuda/frame_encoding.h"
#include "cuda/select_largest.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {
namespace {

// Bytes of the words that prefixed deltas are written to; no frame has a longer section.
uint64_t CodeBytes(const DeltaCoding& coding, uint32_t max_k) {
  return CeilDiv(std::min(coding.MaxBytes(max_k), kMaxFrameBytes), sizeof(uint32_t)) *
         sizeof(uint32_t);
}

}  // namespace

uint64_t FrameEncoder::MaxSelected() const {
  uint64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += needs_marks() ? tensor.max_k : 0;
  return sum;
}

FrameEncoder::Tables FrameEncoder::TakeTables(Workspace* workspace) const {
  const size_t count = tensors_.size();
  return {workspace->Take<EncodeState>(count), workspace->Take<EncodedFrame>(count)};
}

void FrameEncoder::TakeSelection(Workspace* workspace, Encoding* encoding) const {
  if (!needs_marks()) return;
  encoding->supports_dev = workspace->Take<uint32_t>(MaxSelected());
  uint64_t num_tiles = 0;
  for (const Tensor& tensor : tensors_) num_tiles += NumTiles(tensor.n);
  TakeMarks(num_tiles * kTileElements, workspace, &encoding->marks);
  uint32_t* support_dev = encoding->supports_dev;
  num_tiles = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    EncodedFrame& frame = encoding->frames_on_host[i];
    frame.support_dev = frame.sent_dev = support_dev;
    frame.marks = encoding->marks.Slice(num_tiles, tensors_[i].n);
    support_dev += tensors_[i].max_k;
    num_tiles += NumTiles(tensors_[i].n);
  }
  // A filter's selection comes after that of the support.
  const bool chooses_by_priority =
      spec_.index == IndexKind::kBloom && ChoosesByPriority(spec_.policy);
  if (spec_.sparsifier != SparsifierKind::kTopK && !chooses_by_priority) return;
  for (size_t i = 0; i < tensors_.size(); ++i)
    encoding->frames_on_host[i].select =
        TakeSelectSpace(tensors_[i].n, tensors_[i].max_k, workspace);
}

void FrameEncoder::TakeDeltas(Workspace* workspace, Encoding* encoding) const {
  const auto num_lists = static_cast<uint32_t>(tensors_.size());
  const auto max_keys = static_cast<uint32_t>(MaxSelected());
  std::vector<EncodedFrame>& frames = encoding->frames_on_host;
  TakeFrameKeys(num_lists, max_keys, workspace, &encoding->keys);
  if (spec_.index == IndexKind::kDeltaBinary) {
    TakeDeltaBuffers(num_lists, max_keys, workspace, &encoding->deltas);
    for (uint32_t i = 0; i < num_lists; ++i)
      frames[i].lengths.num_payload_bytes_dev = encoding->keys.num_bytes_dev + i;
    if (num_lists == 1)
      frames[0].lengths.num_payload_bytes_dev = encoding->deltas.num_payload_bytes_dev();
    return;
  }
  const DeltaCoding coding = DeltaCodingOf(spec_);
  uint64_t num_bytes = 0;
  for (const Tensor& tensor : tensors_) num_bytes += CodeBytes(coding, tensor.max_k);
  TakeDeltaWriteBuffers(num_lists, max_keys, num_bytes, workspace, &encoding->prefixed);
  const CodeWriteBuffers& codes = encoding->prefixed.codes;
  uint32_t* words_dev = codes.words_dev;
  for (uint32_t i = 0; i < num_lists; ++i) {
    frames[i].lengths.num_payload_bytes_dev = &codes.sizes_dev[i].num_bytes;
    frames[i].code_words_dev = words_dev;
    words_dev += CodeBytes(coding, tensors_[i].max_k) / sizeof(uint32_t);
  }
}

Status FrameEncoder::TakeSketch(Workspace* workspace, Encoding* encoding) const {
  std::vector<SketchSize> sizes;
  for (const Tensor& tensor : tensors_)
    sizes.push_back({tensor.max_k, tensor.max_frame_bytes - kFrameHeaderBytes});
  GroupedSketchBuffers* const sketch = &encoding->sketch;
  TFC_RETURN_IF_ERROR(TakeGroupedSketch(spec_.joint, sizes, workspace, sketch));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    EncodedFrame& frame = encoding->frames_on_host[i];
    const uint64_t* const num_bytes_dev = sketch->num_value_bytes_dev + i;
    frame.lengths = {num_bytes_dev, num_bytes_dev};
    frame.code_words_dev =
        sketch->prefixed.codes.words_dev + sketch->places[i].first_byte / sizeof(uint32_t);
  }
  return OkStatus();
}

Status FrameEncoder::Take(Workspace* workspace, Encoding* encoding) const {
  encoding->tables = TakeTables(workspace);
  encoding->frames_on_host.assign(tensors_.size(), EncodedFrame{});
  std::vector<EncodedFrame>& frames = encoding->frames_on_host;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    frames[i].known_k = tensors_[i].k;
    frames[i].max_k = tensors_[i].max_k;
    frames[i].max_sent = tensors_[i].max_sent;
  }
  TakeSelection(workspace, encoding);
  if (IsDeltaCode(spec_.index)) TakeDeltas(workspace, encoding);
  if (spec_.index == IndexKind::kBloom)
    encoding->bloom = TakeBloomBuffers(BloomSpecOf(spec_), encoding->marks, frames, workspace);
  if (moves_values()) encoding->gathered_dev = workspace->Take<float>(MaxSelected());
  if (spec_.joint.kind != JointKind::kNone) TFC_RETURN_IF_ERROR(TakeSketch(workspace, encoding));
  if (IsCoded(spec_.value.kind))
    TFC_RETURN_IF_ERROR(TakeCodedBuffers(spec_.value, workspace, frames, &encoding->values));
  return OkStatus();
}

}  // namespace device
}  // namespace tfcompress
