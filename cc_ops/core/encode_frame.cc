#include <cmath>
#include <optional>
#include <utility>

#include "core/by_magnitude.h"
#include "core/float_mode.h"
#include "core/frame_codecs.h"
#include "core/pipeline.h"

namespace tfcompress {
namespace {

// What the sparsifier chose.
struct Chosen {
  bool everything = false;
  Candidates elements;  // Unless it is everything.
};

std::vector<float> Gather(Span<const float> dense, Span<const uint32_t> indices,
                          Executor* executor) {
  std::vector<float> values(indices.size());
  ForEachBlock(executor, indices.size(), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = dense[indices[i]];
  });
  return values;
}

// Leaves out what the value codec would decode to zero.
void Narrow(const ValueCodec& value, Executor* executor, Candidates* chosen) {
  const float least = value.LeastSent(chosen->values, executor);
  if (least == 0) return;
  size_t count = 0;
  for (size_t i = 0; i < chosen->values.size(); ++i) {
    chosen->indices[count] = chosen->indices[i];
    chosen->values[count] = chosen->values[i];
    count += std::fabs(chosen->values[i]) >= least;
  }
  chosen->indices.resize(count);
  chosen->values.resize(count);
}

// One encoding: what is given, and what becomes of it. Sections go to the end of the frame; the
// memory, if it remembers, then loses what receivers decode of them.
struct Encoding {
  const Compressor& compressor;
  const MemorySlots& slots;
  const CodecContext& context;
  Span<const float> dense;
  FrameHeader header;
  Bytes* frame;

  bool remembers() const { return slots.size() > 0; }
  ByteSpan SectionFrom(size_t begin) const {
    return {frame->data() + begin, frame->size() - begin};
  }

  // Where the value codec encodes chunks of all values apart: the encoder of what it sends.
  ChunkEncoder OpenEncoder() {
    if (compressor.value() == nullptr || header.n == 0) return {};
    ChunkEncoder encoder = compressor.value()->OpenEncoder(header.n, context, frame);
    if (encoder) header.k = header.n;
    return encoder;
  }
  // Encodes what a memory makes, chunk by chunk.
  ChunkVisitor VisitorOf(const ChunkEncoder& encoder) const {
    return {encoder.chunk, [&](int64_t begin, int64_t end, const float* made) {
              encoder.encode(begin, end, made, remembers() ? slots.after[0] + begin : nullptr);
            }};
  }

  Status EncodeJoint(Span<const float> values, const Support& support) {
    const SparseCodec& joint = *compressor.joint();
    const size_t begin = frame->size();
    TFC_ASSIGN_OR_RETURN(header.k, joint.Encode(values, support, context, frame));
    if (!remembers() || header.k == 0) return OkStatus();
    SparseTensor decoded{header.n, support.everything(), {}, {}};
    TFC_RETURN_IF_ERROR(joint.Decode(SectionFrom(begin), header.k, context, &decoded));
    compressor.memory().Update(decoded.support(), decoded.values, slots, context);
    return OkStatus();
  }

  Status EncodeEverything() {
    const ValueCodec& value = *compressor.value();
    const size_t begin = frame->size();
    header.k = header.n;
    TFC_RETURN_IF_ERROR(value.Encode(dense, Support::Everything(header.n), context, frame));
    if (!remembers()) return OkStatus();
    return Memory::UpdateAll(value, SectionFrom(begin), header.n, slots, context);
  }

  // Returns the length of the index section.
  Result<uint64_t> EncodeElements(const Candidates& chosen) {
    const size_t begin = frame->size();
    DecodedIndices decoded;
    if (compressor.index() != nullptr) {
      TFC_ASSIGN_OR_RETURN(decoded,
                           compressor.index()->Encode(chosen.indices, header.n, context, frame));
    }
    const uint64_t num_index_bytes = frame->size() - begin;
    const Support sent = decoded.support(Support(header.n, chosen.indices));
    header.k = static_cast<uint32_t>(sent.size());
    std::vector<float> gathered, decoded_values;
    const bool as_chosen = decoded.sends_encoded();
    if (!as_chosen) gathered = Gather(dense, sent.indices(), context.executor);
    TFC_RETURN_IF_ERROR(EncodeValues(*compressor.value(), as_chosen ? chosen.values : gathered,
                                     sent, context, frame,
                                     remembers() ? &decoded_values : nullptr));
    compressor.memory().Update(sent, decoded_values, slots, context);
    return num_index_bytes;
  }

  Result<uint64_t> EncodeSections(Chosen chosen) {
    const bool is_joint = compressor.joint() != nullptr;
    if (chosen.everything) {
      if (header.n == 0) return uint64_t{0};
      TFC_RETURN_IF_ERROR(is_joint ? EncodeJoint(dense, Support::Everything(header.n))
                                   : EncodeEverything());
      return uint64_t{0};
    }
    auto& [indices, values] = chosen.elements;
    if (values.empty()) values = Gather(dense, indices, context.executor);
    if (compressor.index() != nullptr)
      Narrow(*compressor.value(), context.executor, &chosen.elements);
    if (indices.empty()) return uint64_t{0};
    TFC_RETURN_IF_ERROR(CheckIndices(indices, header.n));
    if (!is_joint) return EncodeElements(chosen.elements);
    TFC_RETURN_IF_ERROR(EncodeJoint(values, Support(header.n, indices)));
    return uint64_t{0};
  }
};

}  // namespace

Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   const MemorySlots& slots, const CodecContext& context, Bytes* frame) {
  const FloatModeScope mode;
  TFC_RETURN_IF_ERROR(CheckNumElements("gradient", gradient.n));
  if (slots.size() != static_cast<size_t>(compressor.memory().num_slots())) {
    return InvalidArgument("the memory of '", compressor.spec(), "' needs ",
                           compressor.memory().num_slots(), " slots, got ", slots.size());
  }
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
        by_magnitude->LeastMagnitude(n, [&](Span<const uint32_t> positions, float* elements) {
          memory.CompensateAt(positions, given, slots, elements);
        });
    collector.emplace(n, least_magnitude);
  }
  Encoding encoding{compressor, slots, context, {}, {}, frame};
  FrameHeader& header = encoding.header;
  header.dtype = gradient.dtype;
  header.support = compressor.support_kind();
  header.n = static_cast<uint32_t>(gradient.n);
  header.index_id = compressor.index_id();
  header.value_id = compressor.value_id();
  header.seed = context.seed;
  const auto append_sections = [&]() -> Result<uint64_t> {
    const size_t begin = frame->size();
    Chosen chosen;
    chosen.everything = sparsifier.implied() == Implied::kEverything;
    const ChunkEncoder encoder = chosen.everything ? encoding.OpenEncoder() : ChunkEncoder();
    ChunkVisitor visitor;
    if (encoder) {
      visitor = encoding.VisitorOf(encoder);
    } else if (collector) {
      visitor.chunk = Collector::kChunk;
      visitor.collector = &*collector;
    }
    bool finite = true;
    encoding.dense = memory.Compensate(given, slots, context, &finite, visitor);
    if (!finite) {
      header.nonfinite = true;
      header.k = 0;
      frame->resize(begin);
      return uint64_t{0};
    }
    if (encoder) return uint64_t{0};
    // Joint codecs take all elements without a list of them.
    const size_t size = encoding.dense.size();
    chosen.everything =
        chosen.everything || (compressor.joint() != nullptr && by_magnitude != nullptr &&
                              collector->size() == size && by_magnitude->MostChosen(size) == size);
    if (chosen.everything) return encoding.EncodeSections(std::move(chosen));
    if (by_magnitude != nullptr) {
      chosen.elements = collector->Take();
      by_magnitude->Choose(encoding.dense, least_magnitude, context.executor, &chosen.elements);
    } else {
      TFC_RETURN_IF_ERROR(sparsifier.Select(encoding.dense, context, &chosen.elements.indices));
    }
    return encoding.EncodeSections(std::move(chosen));
  };
  return AppendFrame(append_sections, &header, frame);
}

Status EncodeFrame(const Compressor& compressor, const GradientView& gradient,
                   Span<float* const> slots, const CodecContext& context, Bytes* frame) {
  return EncodeFrame(compressor, gradient, {slots, slots}, context, frame);
}

}  // namespace tfcompress
