#include <optional>

#include "core/by_magnitude.h"
#include "core/float_mode.h"
#include "core/pipeline.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

// What the sparsifier chose: the values too, where it came by them.
struct Chosen {
  bool everything = false;
  Candidates elements;
};

// Appends the sections and sets the header fields that describe them.
Status EncodeSections(const Compressor& compressor, Span<const float> dense, const Chosen& chosen,
                      const MemorySlots& slots, const CodecContext& context, FrameHeader* header,
                      uint64_t* num_index_bytes, Bytes* frame) {
  const Support support = chosen.everything ? Support::Everything(header->n)
                                            : Support(header->n, chosen.elements.indices);
  if (support.size() == 0) return OkStatus();
  const SparseInput input = {dense, support, chosen.elements.values};

  const bool remembers = compressor.memory().num_slots() > 0;
  const bool sends_all = support.everything() && compressor.value() != nullptr;
  const size_t begin = frame->size();
  SparseTensor decoded;
  TFC_RETURN_IF_ERROR(compressor.codec().Encode(input, context, frame, num_index_bytes, &header->k,
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
  const Memory& memory = compressor.memory();
  const Sparsifier& sparsifier = compressor.sparsifier();
  const SparsifierByMagnitude* by_magnitude = sparsifier.by_magnitude();
  const auto n = static_cast<int64_t>(gradient.n);
  uint32_t least_magnitude = 0;
  std::optional<Collector> collector;
  if (by_magnitude != nullptr) {
    least_magnitude =
        by_magnitude->LeastMagnitude(n, [&](int64_t begin, int64_t count, float* elements) {
          memory.CompensateSome(given, slots, begin, count, elements);
        });
    collector.emplace(n, least_magnitude);
  }
  bool finite = true;
  const Span<const float> dense =
      memory.Compensate(given, slots, context, &finite, collector ? &*collector : nullptr);
  header.nonfinite = !finite;

  const auto append_sections = [&](uint64_t* num_index_bytes) {
    Chosen chosen;
    chosen.everything = sparsifier.implied() == Implied::kEverything;
    if (by_magnitude != nullptr) {
      chosen.elements = collector->Take();
      by_magnitude->Choose(dense, least_magnitude, context.executor, &chosen.elements);
    } else if (!chosen.everything) {
      TFC_RETURN_IF_ERROR(sparsifier.Select(dense, context, &chosen.elements.indices));
    }
    return EncodeSections(compressor, dense, chosen, slots, context, &header, num_index_bytes,
                          frame);
  };
  return AppendFrame(append_sections, &header, frame);
}

Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   Span<float* const> slots, const CodecContext& context, Bytes* frame) {
  return EncodeFrame(compressor, gradient, {slots, slots}, context, frame);
}

}  // namespace tfcompress
