#include "core/float_mode.h"
#include "core/frame_codecs.h"
#include "core/pipeline.h"
#include "core/product_codec.h"
#include "core/registry.h"
#include "core/seeded_support.h"

namespace tfcompress {

Result<FrameCodecs> FindCodecs(const FrameHeader& header) {
  static const SeededSupportCodec seeded;
  FrameCodecs codecs = {nullptr, DecoderById<ValueCodec>(header.value_id)};
  if (header.support == SupportKind::kSeeded) {
    codecs.index = &seeded;
  } else if (header.support != SupportKind::kEverything) {
    codecs.index = DecoderById<IndexCodec>(header.index_id);
    if (codecs.index == nullptr) return DataLoss("unknown index codec id ", int{header.index_id});
  }
  if (codecs.value == nullptr) return DataLoss("unknown value codec id ", int{header.value_id});
  return codecs;
}

Status OpenFrame(const Frame& frame, ChunkDecoder* decoder) {
  const FrameHeader& header = frame.header;
  if (header.support != SupportKind::kEverything || header.k == 0) return OkStatus();
  TFC_RETURN_IF_ERROR(VerifyChecksum(frame));
  TFC_ASSIGN_OR_RETURN(const FrameCodecs codecs, FindCodecs(header));
  TFC_RETURN_IF_ERROR(
      CheckSections(nullptr, *codecs.value, frame.sections, header.n, header.k, header.k));
  return codecs.value->Open(frame.sections.values, header.k, decoder).WithContext("value section");
}

Status DecodeFrame(const Frame& frame, Executor* executor, SparseTensor* out) {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(VerifyChecksum(frame));
  const FrameHeader& header = frame.header;
  if (header.support == SupportKind::kRows) {
    return DataLoss("a frame of rows, expected one of a dense tensor");
  }
  out->n = header.n;
  out->everything = header.support == SupportKind::kEverything && header.k > 0;
  out->indices.clear();
  out->values.clear();
  if (header.k == 0) return OkStatus();

  const CodecContext context{header.seed, executor};
  if (header.support == SupportKind::kJoint) {
    const SparseCodec* joint = DecoderById<SparseCodec>(header.value_id);
    if (joint == nullptr) return DataLoss("unknown joint codec id ", int{header.value_id});
    TFC_RETURN_IF_ERROR(CheckSectionBytes("value section", frame.sections.values,
                                          joint->MinEncodedBytes(header.n, header.k)));
    return joint->Decode(frame.sections, header.k, context, out);
  }
  TFC_ASSIGN_OR_RETURN(const FrameCodecs codecs, FindCodecs(header));
  return ProductCodec(codecs.index, codecs.value).Decode(frame.sections, header.k, context, out);
}

}  // namespace tfcompress
