#include "core/entropy/adaptive_delta.h"

namespace tfcompress {
namespace {

constexpr const char* kWhat = "adaptive deltas";
constexpr int kNumIntervalChoices = 4;
constexpr uint8_t kHuffmanFlag = 4;  // Over two bits for log_intervals.

// Widths of 1 to m intervals.
std::vector<int> WidthsOf(const DeltaPrefix& prefix) {
  const auto m = static_cast<int>(prefix.num_intervals());
  std::vector<int> widths;
  for (int num_intervals = 1; num_intervals <= m; ++num_intervals)
    widths.push_back(num_intervals * kMaxDeltaBits / m);
  return widths;
}

// How many deltas take 1, 2, ..., m intervals.
std::vector<uint64_t> CountIntervals(const DeltaBitCounts& counts, const DeltaPrefix& prefix) {
  const int interval_bits = kMaxDeltaBits / static_cast<int>(prefix.num_intervals());
  std::vector<uint64_t> intervals(prefix.num_intervals());
  for (int bits = 1; bits <= kMaxDeltaBits; ++bits)
    intervals[static_cast<size_t>((bits - 1) / interval_bits)] += counts[bits];
  return intervals;
}

HuffmanCode PrefixesOf(const std::vector<uint64_t>& intervals, const DeltaPrefix& prefix) {
  return prefix.is_huffman ? HuffmanCode::FromCounts(intervals)
                           : HuffmanCode::Fixed(prefix.log_intervals + 1);
}

}  // namespace

DeltaCost CostOf(const DeltaBitCounts& counts, const DeltaPrefix& prefix) {
  const std::vector<uint64_t> intervals = CountIntervals(counts, prefix);
  const HuffmanCode prefixes = PrefixesOf(intervals, prefix);
  const std::vector<int> widths = WidthsOf(prefix);
  DeltaCost cost = {0, prefixes.NumBits(intervals), 0};
  if (prefix.is_huffman) cost.lengths = 8 * BytesOfBits(prefixes.NumLengthBits());
  for (size_t i = 0; i < widths.size(); ++i)
    cost.payload += intervals[i] * static_cast<uint64_t>(widths[i]);
  return cost;
}

DeltaPrefix ChooseDeltaPrefix(const DeltaBitCounts& counts) {
  DeltaPrefix best = {0, false};
  uint64_t best_cost = CostOf(counts, best).total();
  for (int log_intervals = 0; log_intervals < kNumIntervalChoices; ++log_intervals) {
    for (const bool is_huffman : {false, true}) {
      const DeltaPrefix candidate = {log_intervals, is_huffman};
      const uint64_t cost = CostOf(counts, candidate).total();
      if (cost >= best_cost) continue;
      best = candidate;
      best_cost = cost;
    }
  }
  return best;
}

void EncodeAdaptiveDeltas(Span<const uint32_t> keys, Executor* executor, Bytes* out) {
  if (keys.empty()) return;
  const std::vector<DeltaBitCounts> blocks = CountDeltaBits(keys, executor);
  const DeltaBitCounts counts = Sum(blocks);
  const DeltaPrefix prefix = ChooseDeltaPrefix(counts);
  const DeltaScheme scheme = {WidthsOf(prefix), PrefixesOf(CountIntervals(counts, prefix), prefix)};
  ByteWriter(out).Write(
      static_cast<uint8_t>(prefix.log_intervals | (prefix.is_huffman ? kHuffmanFlag : 0)));
  if (prefix.is_huffman) scheme.prefixes.WriteLengths(out);
  EncodePrefixedDeltas(keys, blocks, scheme, executor, out);
}

Status DecodeAdaptiveDeltas(uint64_t k, uint32_t n, Executor* executor, ByteReader* reader,
                            std::vector<uint32_t>* keys) {
  keys->clear();
  if (k == 0) return OkStatus();
  uint8_t kind = 0;
  TFC_RETURN_IF_ERROR(reader->Read("adaptive deltas prefix", &kind));
  if (kind >= 2 * kHuffmanFlag) return DataLoss(kWhat, ": no prefix is of kind ", int{kind});
  const DeltaPrefix prefix = {kind % kHuffmanFlag, kind >= kHuffmanFlag};
  Result<HuffmanCode> prefixes = prefix.is_huffman
                                     ? HuffmanCode::ReadLengths(prefix.num_intervals(), reader)
                                     : HuffmanCode::Fixed(prefix.log_intervals + 1);
  if (!prefixes.ok()) return prefixes.status();
  const DeltaScheme scheme = {WidthsOf(prefix), std::move(prefixes.value())};
  return DecodePrefixedDeltas(kWhat, k, n, scheme, executor, reader, keys);
}

}  // namespace tfcompress
