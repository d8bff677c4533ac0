// What all memories share: the passes over the vectors.
#include <algorithm>
#include <array>
#include <atomic>

#include "core/codec.h"
#include "core/collect.h"
#include "core/float_filter.h"

namespace tfcompress {
namespace {

// Sent elements ahead of the one that is subtracted: each is in another line of memory.
constexpr int64_t kPrefetchDistance = 32;

// The pointers from element `begin` on.
template <typename T, size_t kSize>
std::array<T*, kSize> From(int64_t begin, Span<T* const> vectors) {
  std::array<T*, kSize> pointers{};
  for (size_t i = 0; i < vectors.size(); ++i) pointers[i] = vectors[i] + begin;
  return pointers;
}

}  // namespace

bool Memory::AddChunk(const float* gradient, const float* const* before, float* const* after,
                      int64_t count, uint32_t first, FloatList* list) {
  const auto add = [=, pending = before[0], sum = after[0]](int64_t i) {
    return sum[i] = gradient[i] + pending[i];
  };
  return MakeElements(add, after[0], count, first, list);
}

bool Memory::MakeChunk(const MemorySlots& slots, const float* gradient, const float* const* before,
                       float* const* after, int64_t count, uint32_t first, FloatList* list) const {
  if (slots.compensation == Compensation::kOfGradient)
    return CompensateChunk(gradient, before, after, count, first, list);
  for (size_t i = 1; i < slots.size(); ++i) {
    if (after[i] != before[i]) std::copy_n(before[i], count, after[i]);
  }
  return AddChunk(gradient, before, after, count, first, list);
}

void Memory::CompensateRange(Span<const float> gradient, const MemorySlots& slots, int64_t begin,
                             int64_t count) const {
  if (slots.size() == 0) return;
  const auto before = From<const float, kMaxSlots>(begin, slots.before);
  const auto after = From<float, kMaxSlots>(begin, slots.after);
  MakeChunk(slots, gradient.data() + begin, before.data(), after.data(), count);
}

void Memory::CompensateAt(Span<const uint32_t> positions, Span<const float> gradient,
                          const MemorySlots& slots, float* elements) const {
  const auto size = static_cast<int64_t>(positions.size());
  for (int64_t first = 0; first < size; first += kCompensateChunk) {
    const int64_t count = std::min(size - first, kCompensateChunk);
    const uint32_t* at = positions.data() + first;
    // Nothing but loads: many of them wait for memory at the same time.
    const auto gather = [=](const float* from, float* to) {
      for (int64_t i = 0; i < count; ++i) to[i] = from[at[i]];
    };
    gather(gradient.data(), elements + first);
    if (slots.size() == 0) continue;
    float gathered[kMaxSlots][kCompensateChunk], unused[kMaxSlots - 1][kCompensateChunk];
    for (size_t i = 0; i < slots.size(); ++i) gather(slots.before[i], gathered[i]);
    const float* const before[kMaxSlots] = {gathered[0], gathered[1]};
    float* const after[kMaxSlots] = {elements + first, unused[0]};
    MakeChunk(slots, elements + first, before, after, count);
  }
}

Span<const float> Memory::Compensate(Span<const float> gradient, const MemorySlots& slots,
                                     const CodecContext& context, bool* finite,
                                     const ChunkVisitor& visitor) const {
  const auto n = static_cast<int64_t>(gradient.size());
  std::atomic<bool> all_finite{true};
  const auto for_each_chunk = [&](int64_t chunk, const auto& body) {
    ForEachChunk(context.executor, n, chunk, body);
    return *finite = all_finite;
  };
  // In place, check before writing, since a non-finite step must leave the slots unchanged.
  bool in_place = false;
  for (size_t i = 0; i < slots.size(); ++i) in_place |= slots.before[i] == slots.after[i];
  const auto check = [&](int64_t begin, int64_t end) {
    float scratch[kMaxSlots][kCompensateChunk];
    const auto before = From<const float, kMaxSlots>(begin, slots.before);
    float* const after[kMaxSlots] = {scratch[0], scratch[1]};
    if (!MakeChunk(slots, gradient.data() + begin, before.data(), after, end - begin)) {
      all_finite = false;
    }
  };
  if (in_place && !for_each_chunk(kCompensateChunk, check)) return {};

  const float* const result = slots.size() == 0 ? gradient.data() : slots.after[0];
  const auto make = [&](int64_t begin, int64_t end) {
    const auto before = From<const float, kMaxSlots>(begin, slots.before);
    const auto after = From<float, kMaxSlots>(begin, slots.after);
    const auto make_chunk = [&](FloatList* list) {
      return MakeChunk(slots, gradient.data() + begin, before.data(), after.data(), end - begin,
                       static_cast<uint32_t>(begin), list);
    };
    if (visitor.collector != nullptr) {
      uint32_t found[Collector::kChunk];
      float values[Collector::kChunk];
      FloatList list{visitor.collector->filter(), found, values};
      if (!make_chunk(&list)) return void(all_finite = false);
      visitor.collector->Keep(begin, end, result + begin, list);
    } else if (!make_chunk(nullptr)) {
      all_finite = false;
    } else if (visitor.visit) {
      visitor.visit(begin, end, result + begin);
    }
  };
  if (for_each_chunk(visitor.chunk, make)) return {result, gradient.size()};
  for (size_t i = 0; i < slots.size(); ++i) std::copy_n(slots.before[i], n, slots.after[i]);
  return {};
}

void Memory::Update(const Support& sent, Span<const float> values, const MemorySlots& slots,
                    const CodecContext& context) const {
  if (slots.size() == 0) return;
  float* const pending = slots.after[0];
  ForEachBlock(context.executor, sent.size(), [&](int64_t, int64_t begin, int64_t end) {
    const float* decoded = values.data();
    if (sent.everything()) {
      for (int64_t i = begin; i < end; ++i) pending[i] -= decoded[i];
      return;
    }
    const uint32_t* indices = sent.indices().data();
    for (int64_t i = begin; i < end; ++i) {
      __builtin_prefetch(pending + indices[std::min(i + kPrefetchDistance, end - 1)], 1);
      pending[indices[i]] -= decoded[i];
    }
  });
  ForgetSent(sent, slots, context);
}

Status Memory::UpdateAll(const ValueCodec& value, ByteSpan section, uint32_t n,
                         const MemorySlots& slots, const CodecContext& context) {
  ChunkDecoder decode;
  std::vector<float> all;
  TFC_RETURN_IF_ERROR(value.Open(section, n, &decode));
  if (!decode) {
    all.resize(n);
    TFC_RETURN_IF_ERROR(value.Decode(section, Support::Everything(n), context, Span<float>(all)));
    decode = [&](int64_t begin, int64_t end, float* values) {
      std::copy(all.begin() + begin, all.begin() + end, values);
      return OkStatus();
    };
  }
  return ForEachDecodeChunk(n, context.executor, [&](int64_t begin, int64_t end) {
    float values[kDecodeChunk];
    TFC_RETURN_IF_ERROR(decode(begin, end, values));
    Subtract(values, end - begin, slots.after[0] + begin);
    return OkStatus();
  });
}

}  // namespace tfcompress
