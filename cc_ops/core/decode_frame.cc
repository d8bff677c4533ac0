#include "core/float_mode.h"
#include "core/frame_codecs.h"
#include "core/pipeline.h"
#include "core/registry.h"
#include "core/seeded_support.h"

namespace tfcompress {

namespace {

Status DecodeProduct(const Frame& frame, const CodecContext& context, SparseTensor* out) {
  const FrameHeader& header = frame.header;
  const FrameSections& sections = frame.sections;
  TFC_ASSIGN_OR_RETURN(const FrameCodecs codecs, FindCodecs(header));
  TFC_RETURN_IF_ERROR(CheckSections(codecs, sections, header.n, header.k, header.k));
  if (codecs.index != nullptr) {
    TFC_RETURN_IF_ERROR(
        codecs.index->Decode(sections.indices, header.n, header.k, context, &out->indices)
            .WithContext("index section"));
  } else if (!out->everything) {
    out->indices = SeededSupport(header.n, header.k, header.seed, context.executor);
  }
  out->values.resize(header.k);
  return codecs.value->Decode(sections.values, out->support(), context, Span<float>(out->values))
      .WithContext("value section");
}

}  // namespace

Status OpenFrame(const Frame& frame, ChunkDecoder* decoder) {
  const FrameHeader& header = frame.header;
  if (header.support != SupportKind::kEverything || header.k == 0) return OkStatus();
  TFC_RETURN_IF_ERROR(VerifyChecksum(frame));
  TFC_ASSIGN_OR_RETURN(const FrameCodecs codecs, FindCodecs(header));
  TFC_RETURN_IF_ERROR(CheckSections(codecs, frame.sections, header.n, header.k, header.k));
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
  // A joint codec that yields n elements yields all.
  const bool may_be_everything =
      header.support == SupportKind::kEverything || header.support == SupportKind::kJoint;
  out->everything = may_be_everything && header.k > 0 && header.k == header.n;
  out->indices.clear();
  out->values.clear();
  if (header.k == 0) return OkStatus();

  const CodecContext context{header.seed, executor};
  if (header.support == SupportKind::kJoint) {
    const SparseCodec* joint = DecoderById<SparseCodec>(header.value_id);
    if (joint == nullptr) return DataLoss("unknown joint codec id ", int{header.value_id});
    TFC_RETURN_IF_ERROR(CheckSectionBytes("value section", frame.sections.values,
                                          joint->MinEncodedBytes(header.n, header.k)));
    return joint->Decode(frame.sections.values, header.k, context, out);
  }
  return DecodeProduct(frame, context, out);
}

}  // namespace tfcompress
