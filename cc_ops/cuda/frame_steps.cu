// The steps of an encoding, each of all its frames.
#include "cuda/code_blocks.h"
#include "cuda/compensate.h"
#include "cuda/dense_encoder.h"
#include "cuda/frame_encoding.h"
#include "cuda/frame_layout.h"
#include "cuda/index_sections.h"
#include "cuda/reciprocal_log_levels.h"
#include "cuda/sampled_bound.h"
#include "cuda/select_largest.h"
#include "cuda/values.h"

namespace tfcompress {
namespace device {

Status FrameEncoder::Compensate(const Encoding& encoding, cudaStream_t stream) const {
  const Parts<EncodedFrame> frames = encoding.frames();
  if (encodes_in_one_pass()) return EncodeDense(spec_, frames, stream);
  if (spec_.sparsifier == SparsifierKind::kTopK) TFC_RETURN_IF_ERROR(FindBounds(frames, stream));
  return device::Compensate(frames, stream);
}

Status FrameEncoder::MarkBySeeds(const Encoding& encoding, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(ClearMarks(encoding.marks, stream));
  TFC_RETURN_IF_ERROR(MarkSeeds(encoding.frames(), stream));
  return CountMarks(encoding.marks, stream);
}

Status FrameEncoder::ListMarked(const Encoding& encoding, cudaStream_t stream) const {
  TFC_RETURN_IF_ERROR(ScanMarks(encoding.marks, stream));
  return ListSupports(encoding.frames(), stream);
}

Status FrameEncoder::Select(const Encoding& encoding, cudaStream_t stream) const {
  const Parts<EncodedFrame> frames = encoding.frames();
  switch (spec_.sparsifier) {
    case SparsifierKind::kDense:
      break;
    case SparsifierKind::kTopK:
      return SelectLargest(encoding.marks, frames, stream);
    case SparsifierKind::kRandomK:
      TFC_RETURN_IF_ERROR(MarkBySeeds(encoding, stream));
      TFC_RETURN_IF_ERROR(ListMarked(encoding, stream));
      break;
    case SparsifierKind::kNonzero:
    case SparsifierKind::kThreshold:
      TFC_RETURN_IF_ERROR(ListMarked(encoding, stream));
      break;
  }
  return SetSupportSizes(frames, /*narrowed=*/false, stream);
}

Status FrameEncoder::Narrow(const Encoding& encoding, cudaStream_t stream) const {
  if (!Narrows(spec_.value.kind) || spec_.index == IndexKind::kImplied) return OkStatus();
  TFC_RETURN_IF_ERROR(
      MarkKept(spec_.value, encoding.frames(), encoding.marks, encoding.values.levels_dev, stream));
  TFC_RETURN_IF_ERROR(CountMarks(encoding.marks, stream));
  TFC_RETURN_IF_ERROR(ListMarked(encoding, stream));
  return SetSupportSizes(encoding.frames(), /*narrowed=*/true, stream);
}

Status FrameEncoder::MeasureIndices(const Encoding& encoding, cudaStream_t stream) const {
  if (spec_.index == IndexKind::kBloom) {
    if (moves_values()) {
      TFC_RETURN_IF_ERROR(
          GatherValues(encoding.frames(), encoding.supports_dev, encoding.gathered_dev, stream));
    }
    return ChooseByBloom(BloomSpecOf(spec_), encoding.frames(), encoding.marks, encoding.bloom,
                         stream);
  }
  if (!IsDeltaCode(spec_.index)) return OkStatus();
  TFC_RETURN_IF_ERROR(PlaceFrameKeys(encoding.frames(), encoding.keys, stream));
  const KeyLists lists = ListsOf(encoding.frames(), encoding.keys);
  if (HasPrefixedDeltas(spec_.index)) {
    return MeasurePrefixedDeltas(DeltaCodingOf(spec_), lists, encoding.supports_dev,
                                 encoding.prefixed, stream);
  }
  TFC_RETURN_IF_ERROR(MeasureDeltas(lists, encoding.supports_dev, encoding.deltas, stream));
  if (lists.num_lists == 1) return OkStatus();
  return SizeDeltas(lists, encoding.deltas, encoding.keys.num_bytes_dev, stream);
}

Status FrameEncoder::MeasureValues(const Encoding& encoding, cudaStream_t stream) const {
  if (spec_.joint.kind != JointKind::kNone)
    return PrepareGroupedSketch(encoding.frames(), encoding.sketch, stream);
  if (!IsMeasured(spec_.value.kind)) return OkStatus();
  return device::MeasureValues(spec_.value, encoding.frames(), encoding.values, stream);
}

Status FrameEncoder::EncodeIndices(const Encoding& encoding, cudaStream_t stream) const {
  const Parts<EncodedFrame> frames = encoding.frames();
  const bool is_alone = frames.size() == 1;
  switch (spec_.index) {
    case IndexKind::kImplied:
      return OkStatus();
    case IndexKind::kRaw:
      return WriteIndices(frames, stream);
    case IndexKind::kBitmap:
      // topk has marked candidates; the other sparsifiers have marked their support.
      if (spec_.sparsifier == SparsifierKind::kTopK) {
        TFC_RETURN_IF_ERROR(ClearMarks(encoding.marks, stream));
        TFC_RETURN_IF_ERROR(MarkSupports(frames, stream));
      }
      return WriteBitmaps(frames, stream);
    case IndexKind::kDeltaBinary:
      return EncodeDeltas(ListsOf(frames, encoding.keys), encoding.supports_dev, encoding.deltas,
                          frames, stream);
    case IndexKind::kDeltaAdaptive:
    case IndexKind::kDeltaFlag:
      TFC_RETURN_IF_ERROR(ClearSections(frames, stream));
      TFC_RETURN_IF_ERROR(WritePrefixedDeltas(
          ListsOf(frames, encoding.keys), encoding.supports_dev, encoding.prefixed,
          is_alone ? nullptr : encoding.keys.code_begins_dev, stream));
      return StoreSections(frames, stream);
    case IndexKind::kBloom:
      return WriteBlooms(BloomSpecOf(spec_), frames, encoding.bloom, stream);
  }
  return OkStatus();
}

Status FrameEncoder::EncodeSections(const Encoding& encoding, cudaStream_t stream) const {
  if (encodes_in_one_pass()) return OkStatus();
  if (spec_.joint.kind != JointKind::kNone) {
    TFC_RETURN_IF_ERROR(WriteGroupedSketch(encoding.frames(), encoding.sketch, stream));
  } else {
    TFC_RETURN_IF_ERROR(EncodeIndices(encoding, stream));
    TFC_RETURN_IF_ERROR(EncodeValues(spec_.value, encoding.frames(), encoding.values, stream));
  }
  return ForgetSent(encoding.frames(), stream);
}

}  // namespace device
}  // namespace tfcompress
