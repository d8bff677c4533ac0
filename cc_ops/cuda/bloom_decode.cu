#include <algorithm>
#include <vector>

#include "core/byte_io.h"
#include "cuda/bloom.h"
#include "cuda/launch.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// The space of the i-th section for the selection of what has most priority.
TFC_HOST_DEVICE SelectSpace SpaceOf(uint64_t i, const BloomPlace& place, const Marks& marks,
                                    const Marks& all, const SelectSpace& select) {
  const uint64_t first_tile = static_cast<uint64_t>(marks.words_dev - all.words_dev) / kTileWords;
  return select.Slice(i, first_tile, place.first_candidate, place.sample);
}

// Those from which the section selects by priority, of no elements if it does not.
TFC_HOST_DEVICE Marks MarksToSelectFrom(const SupportSection& section, const BloomPlace& place,
                                        const Marks& all) {
  if (ChoosesByPriority(place.policy)) return section.marks;
  return {0, all.words_dev, all.ends_dev};
}

// Reads the shape; returns false if the section is broken.
__device__ bool ReadHeader(const SupportSection& section, BloomPolicy policy, BloomPart* part) {
  const unsigned char* const data = section.data_dev;
  if (section.num_bytes < kBloomHeaderBytes || static_cast<int>(policy) >= kNumBloomPolicies)
    return false;
  const BloomShape shape = {LoadUnaligned<uint32_t>(data + 2), data[1]};
  if (shape.num_bits < kMinBloomBits || shape.num_hashes < 1 || shape.num_hashes > kMaxBloomHashes)
    return false;
  const uint64_t end = kBloomHeaderBytes + shape.num_bytes();
  const uint32_t num_last_bits = shape.num_bits % 8;
  if (end != section.num_bytes || (num_last_bits != 0 && data[end - 1] >> num_last_bits != 0))
    return false;
  part->shape = shape;
  part->policy = policy;
  part->k = section.k;
  part->num_bytes = shape.num_bytes();
  part->filter_dev = data + kBloomHeaderBytes;
  return true;
}

__global__ void ReadHeadersKernel(const SupportSection* sections, const BloomPlace* places,
                                  uint64_t num_sections, Marks marks, BloomReadBuffers buffers,
                                  uint32_t bits) {
  for (uint64_t i = ThisThread(); i < num_sections; i += NumThreads()) {
    const SupportSection& section = sections[i];
    const BloomPlace& place = places[i];
    BloomPart part{};
    if (section.k > 0) {
      part.seed = section.seed;
      part.marks = section.marks;
      part.chosen_dev = section.indices_dev;
      if (!ReadHeader(section, place.policy, &part)) atomicOr(section.error_dev, bits);
    }
    if (buffers.priorities.vectors_dev != nullptr) {
      const Marks own = MarksToSelectFrom(section, place, marks);
      buffers.priorities.Place(i, own, marks, SpaceOf(i, place, own, marks, buffers.select),
                               buffers.priorities.set_sizes_dev + place.first_size_word, &part);
    }
    buffers.parts_dev[i] = part;
  }
}

// Counts no bits if the section is broken.
__global__ void CountSetBitsKernel(BloomPart* parts) {
  BloomPart& part = parts[blockIdx.y];
  const unsigned char* const filter = part.filter_dev;
  const uint64_t num_bytes = part.num_bytes;
  uint32_t count = 0;
  for (uint64_t i = ThisThread(); i < num_bytes; i += NumThreads())
    count += static_cast<uint32_t>(__popc(filter[i]));
  count = SumOfLanes(count);
  if (ThisLane() == 0 && count != 0) atomicAdd(&part.num_set, count);
}

// Checks the number of set bits (k keys set at most num_hashes each) and that there are as many
// positives as the policy needs.
__device__ bool IsValid(const BloomPart& part, uint64_t num_positives) {
  const bool is_p0 = part.policy == BloomPolicy::kP0;
  const bool is_too_full =
      part.num_set > uint64_t{part.k} * static_cast<uint64_t>(part.shape.num_hashes);
  return !is_too_full && num_positives >= part.k && !(is_p0 && num_positives > part.k) &&
         part.shape.IsFor(part.k, /*or_fewer_keys=*/is_p0);
}

__global__ void ChooseValidKernel(const SupportSection* sections, uint64_t num_sections,
                                  uint32_t bits, BloomPart* parts) {
  for (uint64_t i = ThisThread(); i < num_sections; i += NumThreads()) {
    if (parts[i].k == 0) continue;
    const uint64_t num_positives = parts[i].marks.NumMarked();
    if (IsValid(parts[i], num_positives)) {
      BeginChoice(num_positives, &parts[i]);
    } else {
      parts[i].k = 0;
      atomicOr(sections[i].error_dev, bits);
    }
  }
}

// Words of marks, and bytes of filters.
PartItems WordsOf(Span<const SupportSection> sections) {
  return CountItems(sections, [](const SupportSection& section) {
    return section.k == 0 ? 0 : NumTiles(section.n) * kTileWords;
  });
}
PartItems BytesOf(Span<const SupportSection> sections) {
  return CountItems(sections, [](const SupportSection& section) {
    return section.k == 0 ? 0 : section.num_bytes;
  });
}

// Chooses what ChooseValidKernel has begun to choose.
Status Choose(const Parts<SupportSection>& sections, Span<const BloomPlace> places,
              const BloomParts& parts, const BloomReadBuffers& buffers, cudaStream_t stream) {
  const auto has = [&](auto is_such) {
    for (size_t i = 0; i < places.size(); ++i)
      if (sections.on_host[i].k > 0 && is_such(places[i].policy)) return true;
    return false;
  };
  const bool has_random = has([](BloomPolicy policy) { return policy == BloomPolicy::kP1; });
  const bool has_weighed = has([](BloomPolicy policy) { return policy == BloomPolicy::kP2; });
  // First: the selection overwrites the numbers of all marks.
  if (has([](BloomPolicy policy) { return !ChoosesByPriority(policy); }))
    TFC_RETURN_IF_ERROR(ListChosen(parts, stream));
  if (!has_random && !has_weighed) return OkStatus();
  std::vector<EncodedFrame> vectors;
  for (size_t i = 0; i < sections.size(); ++i) {
    const SupportSection& section = sections.on_host[i];
    const Marks own = MarksToSelectFrom(section, places[i], parts.marks);
    const SelectSpace space = SpaceOf(i, places[i], own, parts.marks, buffers.select);
    vectors.push_back(buffers.priorities.VectorOf(i, own, parts.marks, space, section.indices_dev));
  }
  return ChooseByPriority(parts, has_random, has_weighed, buffers.priorities, vectors, stream);
}

}  // namespace

BloomPlace BloomExtent::Place(ByteSpan section, uint32_t n, uint32_t k) {
  ++num_sections;
  BloomPlace place;
  if (section.size() < kBloomHeaderBytes || k == 0) return place;
  place.policy = static_cast<BloomPolicy>(section[0]);
  if (!ChoosesByPriority(place.policy)) return place;
  has_priorities = true;
  place.sample = SampleSizeOf(n, k);
  place.first_candidate = num_candidates;
  num_candidates += place.sample.capacity;
  place.first_size_word = num_size_words;
  if (place.policy == BloomPolicy::kP2) {
    const uint64_t most_bits = 8 * (section.size() - kBloomHeaderBytes);
    num_size_words += CeilDiv(most_bits, sizeof(uint32_t));
  }
  return place;
}

BloomReadBuffers TakeBloomReadBuffers(const BloomExtent& extent, const Marks& marks,
                                      Workspace* workspace) {
  BloomReadBuffers buffers;
  buffers.parts_dev = workspace->Take<BloomPart>(extent.num_sections);
  if (!extent.has_priorities) return buffers;
  buffers.select =
      TakeSelectSpaces(extent.num_sections, marks.num_tiles(), extent.num_candidates, workspace);
  buffers.priorities =
      TakeBloomPriorityBuffers(extent.num_sections, marks, extent.num_size_words, workspace);
  return buffers;
}

Status ReadBlooms(const Parts<SupportSection>& sections, const Parts<BloomPlace>& places,
                  const Marks& marks, const BloomReadBuffers& buffers, uint32_t bits,
                  cudaStream_t stream) {
  const size_t count = sections.size();
  const BloomParts parts = {buffers.parts_dev, count, WordsOf(sections.on_host), marks};
  TFC_RETURN_IF_ERROR(LaunchThreads("read bloom headers", ReadHeadersKernel, count, stream,
                                    sections.data_dev, places.data_dev, count, marks, buffers,
                                    bits));
  TFC_RETURN_IF_ERROR(LaunchParts("count set bits", CountSetBitsKernel, BytesOf(sections.on_host),
                                  count, stream, parts.data_dev));
  TFC_RETURN_IF_ERROR(MarkPositives(parts, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("choose valid", ChooseValidKernel, count, stream,
                                    sections.data_dev, count, bits, parts.data_dev));
  return Choose(sections, places.on_host, parts, buffers, stream);
}

}  // namespace device
}  // namespace tfcompress
