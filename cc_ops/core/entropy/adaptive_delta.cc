#include "core/entropy/adaptive_delta.h"

#include <algorithm>

#include "core/entropy/huffman.h"

namespace tfcompress {
namespace {

constexpr const char* kWhat = "adaptive deltas";

}  // namespace

DeltaCost CostOf(const DeltaBitCounts& counts, const DeltaPrefix& prefix) {
  AdaptiveSpace space;
  return CostOf(counts.data(), prefix, &space);
}

DeltaPrefix ChooseDeltaPrefix(const DeltaBitCounts& counts) {
  uint64_t costs[kNumDeltaPrefixes];
  for (int i = 0; i < kNumDeltaPrefixes; ++i)
    costs[i] = CostOf(counts, DeltaPrefix::Candidate(i)).total();
  return DeltaPrefix::Candidate(CheapestCandidate(costs));
}

void EncodeAdaptiveDeltas(Span<const uint32_t> keys, Executor* executor, Bytes* out) {
  if (keys.empty()) return;
  const std::vector<DeltaBitCounts> blocks = CountDeltaBits(keys, executor);
  const DeltaBitCounts counts = Sum(blocks);
  const DeltaPrefix prefix = ChooseDeltaPrefix(counts);
  AdaptiveSpace space;
  FindPrefixes(counts.data(), prefix, &space);
  DeltaScheme scheme;
  SetAdaptiveScheme(prefix.num_intervals(), &space, &scheme);
  ByteWriter writer(out);
  writer.Write(prefix.kind());
  if (prefix.is_huffman) {
    const size_t num_bytes = BytesOfBits(NumLengthBits(scheme.lengths, scheme.num_classes));
    unsigned char* bytes = writer.Extend(num_bytes);
    BitWriter bits(bytes, bytes + num_bytes);
    WriteLengthRuns(scheme.lengths, scheme.num_classes, &bits);
  }
  EncodePrefixedDeltas(keys, blocks, scheme, executor, out);
}

Status DecodeAdaptiveDeltas(uint64_t k, uint32_t n, Executor* executor, ByteReader* reader,
                            std::vector<uint32_t>* keys) {
  keys->clear();
  if (k == 0) return OkStatus();
  uint8_t kind = 0;
  TFC_RETURN_IF_ERROR(reader->Read("adaptive deltas prefix", &kind));
  if (kind >= kNumDeltaPrefixes) return DataLoss(kWhat, ": no prefix is of kind ", int{kind});
  const DeltaPrefix prefix = DeltaPrefix::OfKind(kind);
  const Result<HuffmanCode> prefixes =
      prefix.is_huffman ? HuffmanCode::ReadLengths(prefix.num_intervals(), reader)
                        : HuffmanCode::Fixed(prefix.log_intervals + 1);
  if (!prefixes.ok()) return prefixes.status();
  AdaptiveSpace space;
  const std::vector<uint8_t>& lengths = prefixes.value().lengths();
  std::copy(lengths.begin(), lengths.end(), space.lengths);
  DeltaScheme scheme;
  SetAdaptiveScheme(prefix.num_intervals(), &space, &scheme);
  return DecodePrefixedDeltas(kWhat, k, n, scheme, executor, reader, keys);
}

}  // namespace tfcompress
