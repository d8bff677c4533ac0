#include <algorithm>
#include <numeric>

#include "cuda/ceil_div.h"
#include "cuda/frame_group.h"
#include "cuda/index_sections.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {
namespace {

uint64_t WholeWords(uint64_t num_bytes) { return CeilDiv(num_bytes, 4) * 4; }

// Sums up of(task) over frames that have elements.
template <typename Of>
uint64_t SumOver(Span<const FrameTask> frames, const Of& of) {
  return std::accumulate(frames.begin(), frames.end(), uint64_t{0},
                         [&](uint64_t sum, const FrameTask& task) {
                           return task.frame.header.k == 0 ? sum : sum + of(task);
                         });
}

uint64_t KeysOf(const FrameTask& task) { return task.frame.header.k; }
uint64_t IndexBytesOf(const FrameTask& task) { return task.frame.sections.indices.size(); }
uint64_t ValueBytesOf(const FrameTask& task) { return task.frame.sections.values.size(); }
BloomPlace PlaceOf(const FrameTask& task, BloomExtent* extent) {
  const FrameHeader& header = task.frame.header;
  return extent->Place(task.frame.sections.indices, header.n, header.k);
}
uint64_t PackedIndexBytesOf(const FrameTask& task) { return WholeWords(IndexBytesOf(task)); }
uint64_t MarkTilesOf(const FrameTask& task) { return NumTiles(task.frame.header.n); }
uint64_t TableSizeOf(const FrameTask& task) {
  return TableSize(task.decoder.value, task.frame.header.k, ValueBytesOf(task));
}

}  // namespace

// Where a frame's parts of the group's buffers begin.
struct FrameGroup::Places {
  uint64_t num_keys;
  uint64_t num_tiles;
  uint64_t num_table_elements;
  SketchExtent sketches;

  void Pass(const FrameTask& task) {
    const uint32_t k = task.frame.header.k;
    sketches.Add(k, ValueBytesOf(task));
    if (k == 0) return;
    num_keys += k;
    num_tiles += MarkTilesOf(task);
    num_table_elements += TableSizeOf(task);
  }
};

bool HasSameKinds(const DeviceDecoder& a, const DeviceDecoder& b) {
  return a.joint == b.joint && a.index == b.index && a.value == b.value &&
         a.is_seeded == b.is_seeded;
}

FrameTables FrameTables::From(size_t frame, size_t group) const {
  FrameTables tables = *this;
  tables.values += frame;
  tables.sections += frame;
  tables.begins += frame;
  tables.sizes += frame;
  tables.first_tiles += frame + group;
  tables.sources += frame;
  tables.packed += frame;
  tables.num_bytes += frame;
  tables.filters += frame;
  return tables;
}

FrameTables TakeFrameTables(size_t num_frames, size_t num_groups, bool have_supports,
                            bool have_filters, Workspace* workspace) {
  FrameTables tables;
  tables.values = workspace->Take<AddedValues>(num_frames);
  const size_t num_supports = have_supports ? num_frames : 0;
  tables.sections = workspace->Take<SupportSection>(num_supports);
  tables.begins = workspace->Take<uint32_t>(num_supports);
  tables.sizes = workspace->Take<uint32_t>(num_supports);
  tables.first_tiles = workspace->Take<uint32_t>(have_supports ? num_frames + num_groups : 0);
  tables.sources = workspace->Take<uint64_t>(num_supports);
  tables.packed = workspace->Take<uint64_t>(num_supports);
  tables.num_bytes = workspace->Take<uint64_t>(num_supports);
  tables.filters = workspace->Take<BloomPlace>(have_filters ? num_frames : 0);
  return tables;
}

FrameGroup::FrameGroup(Span<const FrameTask> frames) : frames_(frames) {
  const auto coded = std::find_if(frames.begin(), frames.end(),
                                  [](const FrameTask& task) { return task.frame.header.k > 0; });
  has_elements_ = coded != frames.end();
  if (has_elements_) kinds_ = coded->decoder;
}

bool FrameGroup::HasKindsOf(const FrameGroup& other) const {
  return !has_elements_ || !other.has_elements_ || HasSameKinds(kinds_, other.kinds_);
}

ValueKind FrameGroup::value_kind() const {
  return !has_elements_ || is_joint() ? ValueKind::kRaw : kinds_.value;
}

bool FrameGroup::has_supports() const {
  return has_elements_ && (is_joint() || kinds_.is_seeded || kinds_.index != IndexKind::kImplied);
}

bool FrameGroup::goes_through_marks() const {
  return has_supports() &&
         (is_joint() || kinds_.is_seeded || kinds_.index == IndexKind::kBitmap || has_filters());
}

bool FrameGroup::has_filters() const {
  return has_supports() && !is_joint() && kinds_.index == IndexKind::kBloom;
}

bool FrameGroup::has_lists() const { return has_supports() && IsDeltaCode(kinds_.index); }

uint64_t FrameGroup::num_keys() const { return has_supports() ? SumOver(frames_, KeysOf) : 0; }

uint64_t FrameGroup::workspace_bytes() const {
  Workspace measure;
  GroupBuffers buffers{};
  Take(&measure, &buffers);
  return measure.num_bytes();
}

void FrameGroup::Take(Workspace* workspace, GroupBuffers* buffers) const {
  if (!has_elements_) return;
  if (IsCoded(value_kind())) {
    buffers->params_dev = workspace->Take<ValueParams>(frames_.size());
    buffers->tables_dev = workspace->Take<float>(SumOver(frames_, TableSizeOf));
  }
  if (!has_supports()) return;
  const auto num_lists = static_cast<uint32_t>(frames_.size());
  const auto num_keys = static_cast<uint32_t>(this->num_keys());
  buffers->indices_dev = workspace->Take<uint32_t>(num_keys);
  if (is_joint()) buffers->values_dev = workspace->Take<float>(num_keys);
  if (goes_through_marks())
    TakeMarks(SumOver(frames_, MarkTilesOf) * kTileElements, workspace, &buffers->marks);
  if (is_joint()) {
    SketchExtent extent{};
    for (const FrameTask& task : frames_) extent.Add(task.frame.header.k, ValueBytesOf(task));
    TakeSketchDecodeBuffers(kinds_.joint, extent, workspace, &buffers->sketch);
  } else if (has_filters()) {
    BloomExtent extent;
    for (const FrameTask& task : frames_) PlaceOf(task, &extent);
    buffers->bloom = TakeBloomReadBuffers(extent, buffers->marks, workspace);
  } else if (kinds_.index == IndexKind::kDeltaBinary) {
    TakeDeltaBuffers(num_lists, num_keys, workspace, &buffers->deltas);
  } else if (HasPrefixedDeltas(kinds_.index)) {
    const CodeExtent extent = ExtentOf(num_lists, num_keys, SumOver(frames_, PackedIndexBytesOf));
    TakeDeltaReadBuffers(num_lists, extent, workspace, &buffers->prefixed);
  }
}

void FrameGroup::Fill(const unsigned char* packets_dev, const GroupBuffers& buffers,
                      const FrameTables& tables) const {
  Places places{};
  BloomExtent filters;
  for (size_t i = 0; i < frames_.size(); ++i) {
    const FrameTask& task = frames_[i];
    const Frame& frame = task.frame;
    const unsigned char* const sections_dev = packets_dev + task.offset + kFrameHeaderBytes;
    AddedValues& added = tables.values[i];
    added.section = {value_kind(), sections_dev + IndexBytesOf(task), ValueBytesOf(task),
                     frame.header.k};
    added.n = frame.header.n;
    if (has_supports())
      FillSupport(task, sections_dev, places, buffers, &tables.sections[i], &added);
    if (frame.header.k > 0 && IsCoded(value_kind())) {
      added.params_dev = buffers.params_dev + i;
      added.table_dev = buffers.tables_dev + places.num_table_elements;
    }
    if (has_filters()) tables.filters[i] = PlaceOf(task, &filters);
    places.Pass(task);
  }
  if (has_lists()) FillLists(tables);
}

void FrameGroup::FillSupport(const FrameTask& task, const unsigned char* sections_dev,
                             const Places& places, const GroupBuffers& buffers,
                             SupportSection* section, AddedValues* added) const {
  const FrameHeader& header = task.frame.header;
  *section = {};
  section->before = places.sketches;
  if (header.k == 0) return;
  section->data_dev = sections_dev;
  section->num_bytes = is_joint() ? ValueBytesOf(task) : IndexBytesOf(task);
  section->seed = header.seed;
  section->n = header.n;
  section->k = header.k;
  section->error_dev = added->error_dev;
  section->indices_dev = buffers.indices_dev + places.num_keys;
  added->indices_dev = section->indices_dev;
  if (goes_through_marks()) section->marks = buffers.marks.Slice(places.num_tiles, header.n);
  if (!is_joint()) return;
  section->values_dev = buffers.values_dev + places.num_keys;
  added->section.data_dev = reinterpret_cast<const unsigned char*>(section->values_dev);
  added->section.num_bytes = header.k * sizeof(float);
}

void FrameGroup::FillLists(const FrameTables& tables) const {
  uint32_t num_keys = 0;
  uint64_t num_bytes = 0;
  for (size_t i = 0; i < frames_.size(); ++i) {
    const uint32_t k = frames_[i].frame.header.k;
    tables.begins[i] = num_keys;
    tables.sizes[i] = k;
    tables.sources[i] = frames_[i].offset + kFrameHeaderBytes;
    tables.packed[i] = num_bytes;
    tables.num_bytes[i] = k == 0 ? 0 : IndexBytesOf(frames_[i]);
    num_keys += k;
    num_bytes += WholeWords(tables.num_bytes[i]);
  }
  PlaceLists(tables.sizes, static_cast<uint32_t>(frames_.size()), tables.first_tiles);
}

Status FrameGroup::DecodeDeltaLists(const unsigned char* packets_dev, const FrameTables& tables_dev,
                                    const GroupBuffers& buffers, uint32_t* common_error_dev,
                                    cudaStream_t stream) const {
  const KeyLists lists = {tables_dev.begins, tables_dev.sizes, tables_dev.first_tiles,
                          static_cast<uint32_t>(frames_.size()), static_cast<uint32_t>(num_keys())};
  if (kinds_.index == IndexKind::kDeltaBinary) {
    const CodeSections in_place = {packets_dev, SumOver(frames_, IndexBytesOf), tables_dev.sources,
                                   tables_dev.num_bytes};
    return DecodeDeltas(lists, in_place, buffers.deltas, kIndexError, common_error_dev,
                        buffers.indices_dev, stream);
  }
  uint64_t most_bytes = 0;
  for (const FrameTask& task : frames_)
    if (task.frame.header.k > 0) most_bytes = std::max(most_bytes, IndexBytesOf(task));
  const CodeSections packed = {packets_dev,        SumOver(frames_, PackedIndexBytesOf),
                               tables_dev.packed,  tables_dev.num_bytes,
                               tables_dev.sources, most_bytes};
  TFC_RETURN_IF_ERROR(DecodePrefixedDeltas(kinds_.index == IndexKind::kDeltaAdaptive, lists, packed,
                                           buffers.prefixed, kIndexError, common_error_dev,
                                           buffers.indices_dev, stream));
  return CheckSectionEnds(lists, packed, buffers.prefixed.codes, kIndexError, common_error_dev,
                          stream);
}

Status FrameGroup::DecodeSupports(const unsigned char* packets_dev, const FrameTables& tables,
                                  const FrameTables& tables_dev, const GroupBuffers& buffers,
                                  uint32_t* common_error_dev, cudaStream_t stream) const {
  if (!has_supports()) return OkStatus();
  const Parts<SupportSection> sections = {{tables.sections, frames_.size()}, tables_dev.sections};
  if (is_joint()) {
    TFC_RETURN_IF_ERROR(DecodeSketches(kinds_.joint, sections, buffers.marks, buffers.sketch,
                                       kJointError, common_error_dev, stream));
  } else if (kinds_.is_seeded) {
    TFC_RETURN_IF_ERROR(ListSeeded(sections, buffers.marks, stream));
  } else if (kinds_.index == IndexKind::kRaw) {
    TFC_RETURN_IF_ERROR(ReadIndices(sections, stream));
  } else if (kinds_.index == IndexKind::kBitmap) {
    TFC_RETURN_IF_ERROR(ReadBitmaps(sections, buffers.marks, kIndexError, stream));
  } else if (has_filters()) {
    const Parts<BloomPlace> places = {{tables.filters, frames_.size()}, tables_dev.filters};
    TFC_RETURN_IF_ERROR(
        ReadBlooms(sections, places, buffers.marks, buffers.bloom, kIndexError, stream));
  } else {
    TFC_RETURN_IF_ERROR(
        DecodeDeltaLists(packets_dev, tables_dev, buffers, common_error_dev, stream));
  }
  const uint32_t bits = is_joint() ? kJointError : kIndexError;
  return CheckIndices(sections, common_error_dev, bits, stream);
}

}  // namespace device
}  // namespace tfcompress
