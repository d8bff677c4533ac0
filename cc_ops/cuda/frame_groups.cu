#include <algorithm>

#include "cuda/frame_groups.h"

namespace tfcompress {
namespace device {
namespace {

// Whether frames of these codecs are decoded side by side.
bool IsDecodedInGroups(const DeviceDecoder& decoder) {
  if (decoder.joint != JointKind::kNone || decoder.is_seeded || NeedsTables(decoder.value))
    return false;
  return decoder.index == IndexKind::kImplied || decoder.index == IndexKind::kDeltaBinary ||
         HasPrefixedDeltas(decoder.index);
}

uint64_t WholeWords(uint64_t num_bytes) { return CeilDiv(num_bytes, 4) * 4; }

}  // namespace

bool HasSameKinds(const DeviceDecoder& a, const DeviceDecoder& b) {
  return a.joint == b.joint && a.index == b.index && a.value == b.value &&
         a.is_seeded == b.is_seeded;
}

Status DecodeDeltaSections(IndexKind index, const KeyLists& lists, const CodeSections& sections,
                           const KeyBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                           uint32_t* indices_dev, cudaStream_t stream) {
  if (index == IndexKind::kDeltaBinary) {
    return DecodeDeltas(lists, sections, buffers.deltas, bits, error_dev, indices_dev, stream);
  }
  TFC_RETURN_IF_ERROR(DecodePrefixedDeltas(index == IndexKind::kDeltaAdaptive, lists, sections,
                                           buffers.prefixed, bits, error_dev, indices_dev, stream));
  return CheckSectionEnds(lists, sections, buffers.prefixed.codes, bits, error_dev, stream);
}

FrameGroups::FrameGroups(Span<const FrameTask> tasks, size_t num_tensors, uint64_t most_bytes) {
  const auto coded = std::find_if(tasks.begin(), tasks.end(),
                                  [](const FrameTask& task) { return task.frame.header.k > 0; });
  if (coded == tasks.end() || tasks.size() == 1 || num_tensors > kMaxParts) return;
  common_ = coded->decoder;
  if (!IsDecodedInGroups(common_)) return;
  for (const Group& rank : Ranks(tasks, num_tensors)) Append(rank, most_bytes);
  for (const Group& group : groups_) {
    most_.num_frames = std::max(most_.num_frames, group.num_frames);
    most_.num_keys = std::max(most_.num_keys, group.num_keys);
    most_.num_index_bytes = std::max(most_.num_index_bytes, group.num_index_bytes);
  }
}

std::vector<FrameGroups::Group> FrameGroups::Ranks(Span<const FrameTask> tasks,
                                                   size_t num_tensors) const {
  constexpr uint64_t kMostKeys = uint64_t{1} << 31;
  std::vector<Group> ranks;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (i % num_tensors == 0) ranks.push_back({i, num_tensors, 0, 0, 0});
    const Frame& frame = tasks[i].frame;
    if (frame.header.k == 0) continue;
    if (!HasSameKinds(tasks[i].decoder, common_)) return {};
    if (!has_indices()) continue;
    ranks.back().num_keys += frame.header.k;
    const uint64_t num_bytes = frame.sections.indices.size();
    ranks.back().num_index_bytes += WholeWords(num_bytes);
    ranks.back().max_index_bytes = std::max(ranks.back().max_index_bytes, num_bytes);
    if (ranks.back().num_keys >= kMostKeys) return {};
  }
  return ranks;
}

// Bytes of the workspace that frames of a group need each.
uint64_t FrameGroups::BytesOf(const Group& group) const {
  // Words, and the notes, starts and sums of the tiles that they are walked in.
  constexpr uint64_t kWalkBytes = 5;
  return sizeof(ValueParams) * group.num_frames + sizeof(uint32_t) * group.num_keys +
         (HasPrefixedDeltas(common_.index) ? kWalkBytes * group.num_index_bytes : 0);
}

void FrameGroups::Append(const Group& rank, uint64_t most_bytes) {
  if (!groups_.empty()) {
    Group joined = groups_.back();
    joined.num_frames += rank.num_frames;
    joined.num_keys += rank.num_keys;
    joined.num_index_bytes += rank.num_index_bytes;
    joined.max_index_bytes = std::max(joined.max_index_bytes, rank.max_index_bytes);
    if (joined.num_frames <= kMaxParts && BytesOf(joined) <= most_bytes) {
      groups_.back() = joined;
      return;
    }
  }
  groups_.push_back(rank);
}

ListTables FrameGroups::TakeTables(Workspace* workspace) const {
  const size_t num_lists = empty() ? 0 : groups_.back().first_frame + groups_.back().num_frames;
  ListTables lists;
  lists.begins = workspace->Take<uint32_t>(num_lists);
  lists.sizes = workspace->Take<uint32_t>(num_lists);
  lists.first_tiles = workspace->Take<uint32_t>(num_lists + size());
  lists.sources = workspace->Take<uint64_t>(num_lists);
  lists.sections = workspace->Take<uint64_t>(num_lists);
  lists.num_bytes = workspace->Take<uint64_t>(num_lists);
  return lists;
}

void FrameGroups::TakeBuffers(Workspace* workspace, KeyBuffers* buffers) const {
  if (max_keys() == 0) return;
  const auto num_lists = static_cast<uint32_t>(max_frames());
  if (common_.index == IndexKind::kDeltaBinary)
    return TakeDeltaBuffers(num_lists, max_keys(), workspace, &buffers->deltas);
  TakeDeltaReadBuffers(num_lists, ExtentOf(num_lists, max_keys(), most_.num_index_bytes), workspace,
                       &buffers->prefixed);
}

void FrameGroups::Place(Span<const FrameTask> tasks, AddedValues* values,
                        const ListTables& lists) const {
  for (size_t group = 0; group < size(); ++group) Place(group, tasks, values, lists);
}

void FrameGroups::Place(size_t group, Span<const FrameTask> tasks, AddedValues* values,
                        const ListTables& lists) const {
  const size_t first = groups_[group].first_frame, count = groups_[group].num_frames;
  uint32_t num_keys = 0;
  uint64_t num_bytes = 0;
  for (size_t i = first; i < first + count; ++i) {
    const uint32_t k = values[i].NumIndices();
    if (values[i].indices_dev != nullptr) values[i].indices_dev += num_keys;
    values[i].params_dev += i - first;
    lists.begins[i] = num_keys;
    lists.sizes[i] = k;
    lists.sources[i] = tasks[i].offset + kFrameHeaderBytes;
    lists.sections[i] = num_bytes;
    lists.num_bytes[i] = k == 0 ? 0 : tasks[i].frame.sections.indices.size();
    num_keys += k;
    num_bytes += WholeWords(lists.num_bytes[i]);
  }
  PlaceLists(lists.sizes + first, static_cast<uint32_t>(count), lists.first_tiles + first + group);
}

Status FrameGroups::DecodeKeys(size_t group, const unsigned char* packets_dev, uint64_t num_bytes,
                               const ListTables& lists_dev, const KeyBuffers& buffers,
                               uint32_t bits, uint32_t* error_dev, uint32_t* indices_dev,
                               cudaStream_t stream) const {
  const auto [first, num_frames, num_keys, num_index_bytes, max_index_bytes] = groups_[group];
  const KeyLists lists = {lists_dev.begins + first, lists_dev.sizes + first,
                          lists_dev.first_tiles + first + group, static_cast<uint32_t>(num_frames),
                          static_cast<uint32_t>(num_keys)};
  const CodeSections in_place = {packets_dev, num_bytes, lists_dev.sources + first,
                                 lists_dev.num_bytes + first};
  const CodeSections packed = {packets_dev,
                               num_index_bytes,
                               lists_dev.sections + first,
                               lists_dev.num_bytes + first,
                               lists_dev.sources + first,
                               max_index_bytes};
  const bool is_packed = HasPrefixedDeltas(common_.index);
  return DecodeDeltaSections(common_.index, lists, is_packed ? packed : in_place, buffers, bits,
                             error_dev, indices_dev, stream);
}

}  // namespace device
}  // namespace tfcompress
