#include "core/float_mode.h"
#include "core/pipeline.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

// Appends the sections and sets the header fields that describe them.
Status EncodeSections(const Compressor& compressor, Span<const float> dense,
                      const MemorySlots& slots, const CodecContext& context, FrameHeader* header,
                      uint64_t* num_index_bytes, Bytes* frame) {
  std::vector<uint32_t> indices;
  Support support = Support::Everything(header->n);
  if (compressor.sparsifier().implied() != Implied::kEverything) {
    TFC_RETURN_IF_ERROR(compressor.sparsifier().Select(dense, context, &indices));
    support = Support(header->n, indices);
  }
  if (support.size() == 0) return OkStatus();

  const bool remembers = compressor.memory().num_slots() > 0;
  const bool sends_all = support.everything() && compressor.value() != nullptr;
  const size_t begin = frame->size();
  SparseTensor decoded;
  TFC_RETURN_IF_ERROR(compressor.codec().Encode({dense, support}, context, frame, num_index_bytes,
                                                &header->k,
                                                remembers && !sends_all ? &decoded : nullptr));
  if (!remembers) return OkStatus();
  if (sends_all) {
    const ByteSpan section(frame->data() + begin, frame->size() - begin);
    return Memory::UpdateAll(*compressor.value(), section, header->n, slots, context);
  }
  compressor.memory().Update(decoded, slots, context);
  return OkStatus();
}

}  // namespace

Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   const MemorySlots& slots, const CodecContext& context, Bytes* frame) {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckNumElements("gradient", gradient.n));
  if (slots.size() != static_cast<size_t>(compressor.memory().num_slots())) {
    return InvalidArgument("the memory of '", compressor.spec(), "' needs ",
                           compressor.memory().num_slots(), " slots, got ", slots.size());
  }
  FrameHeader header;
  header.dtype = gradient.dtype;
  header.support = compressor.support_kind();
  header.n = static_cast<uint32_t>(gradient.n);
  header.index_id = compressor.index_id();
  header.value_id = compressor.value_id();
  header.seed = context.seed;

  std::vector<float> widened;
  const Span<const float> given =
      ViewAsFloat(gradient.data, gradient.dtype, gradient.n, context.executor, &widened);
  bool finite = true;
  const Span<const float> dense = compressor.memory().Compensate(given, slots, context, &finite);
  header.nonfinite = !finite;

  const auto append_sections = [&](uint64_t* num_index_bytes) {
    return EncodeSections(compressor, dense, slots, context, &header, num_index_bytes, frame);
  };
  return AppendFrame(append_sections, &header, frame);
}

Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   Span<float* const> slots, const CodecContext& context, Bytes* frame) {
  return EncodeFrame(compressor, gradient, {slots, slots}, context, frame);
}

}  // namespace tfcompress
