#include "cuda/for_each_marked.h"
#include "cuda/launch.h"
#include "cuda/sketch_groups.h"
#include "cuda/sketch_reading.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Checks ------------------------------------------------------------------------------------

__global__ void CheckMeansKernel(SketchReading sketch) {
  const SketchLayout& layout = sketch.buffers.layouts_dev[blockIdx.y];
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    const unsigned char* means = sketch.codes + layout.means_begin[sign];
    for (uint64_t i = ThisThread(); i < layout.num_buckets[sign]; i += NumThreads()) {
      // The bits of a negative number are greater than those of infinity.
      if (LoadUnaligned<uint32_t>(means + sizeof(float) * i) >= kFloatInfinityBits)
        sketch.SetError(blockIdx.y);
    }
  }
}

// Checks cells that are numbers: words of a code are never out of range.
__global__ void CheckCellsKernel(SketchReading sketch) {
  const auto num_cells = [&](uint32_t list) -> uint64_t {
    const SketchGroup& group = sketch.buffers.groups_dev[list];
    // With one bucket, numbers have no bits.
    return group.width <= 1 || group.has_code || sketch.HasError(group) ? 0 : group.num_cells;
  };
  ForEachOfLists(sketch.buffers.lists, sketch.max_tiles, num_cells, [&](uint64_t i, uint32_t list) {
    const SketchGroup& group = sketch.buffers.groups_dev[list];
    if (sketch.NumbersOf(group).Load(i) >= group.width) sketch.SetError(group.part);
  });
}

// Checks that the keys of a list increase strictly and are below n, and that no key is in two
// lists. Marks them.
__global__ void CheckKeysKernel(SketchReading sketch) {
  ForEachKey(sketch.buffers.lists, sketch.max_tiles, [&](uint64_t i, uint32_t list) {
    const uint32_t part = sketch.buffers.groups_dev[list].part;
    const SupportSection& section = sketch.sections[part];
    const uint32_t* key = sketch.buffers.keys_dev + i;
    bool is_valid = *sketch.common_error == 0 && *key < section.n &&
                    (i == sketch.buffers.lists.begins_dev[list] || key[-1] < *key);
    if (is_valid) is_valid = SetMark(*key, section.marks.words_dev);
    if (!is_valid) sketch.SetError(part);
  });
}

// ---- Values ------------------------------------------------------------------------------------

// Puts the value of each key where its index is listed.
__global__ void PlaceValuesKernel(SketchReading sketch) {
  ForEachKey(sketch.buffers.lists, sketch.max_tiles, [&](uint64_t i, uint32_t list) {
    const SketchGroup& group = sketch.buffers.groups_dev[list];
    if (sketch.HasError(group)) return;
    const uint32_t key = sketch.buffers.keys_dev[i];
    const uint32_t num_rows = sketch.buffers.layouts_dev[group.part].num_rows;
    uint32_t bucket = group.first_bucket;
    if (group.has_code) {
      const uint16_t* cells = sketch.buffers.coded_cells.cells_dev + group.first_cell;
      bucket += Query(group, num_rows, key, [&](uint64_t cell) { return cells[cell]; });
    } else if (group.width > 1) {
      const BitPacking cells = sketch.NumbersOf(group);
      bucket += Query(group, num_rows, key, [&](uint64_t cell) { return cells.Load(cell); });
    }
    const SupportSection& section = sketch.sections[group.part];
    section.values_dev[RankOf(key, section.marks)] =
        WithSign(sketch.MeanAt(group, bucket), group.sign);
  });
}

// ---- All steps ---------------------------------------------------------------------------------

// Decodes the keys of all lists and, for kSkcompress, the cells that have a code.
Status DecodeGroups(const SketchReading& sketch, uint64_t num_bytes, cudaStream_t stream) {
  const SketchDecodeBuffers& buffers = sketch.buffers;
  const KeyLists& lists = buffers.lists;
  CodeSections sections = {sketch.codes, num_bytes, buffers.key_begins_dev,
                           buffers.num_key_bytes_dev};
  if (sketch.kind == JointKind::kSketchml) {
    return DecodeDeltas(lists, sections, buffers.deltas, sketch.bits, sketch.common_error,
                        buffers.keys_dev, stream);
  }
  sections.data_dev = nullptr;
  TFC_RETURN_IF_ERROR(DecodePrefixedDeltas(true, lists, sections, buffers.prefixed, sketch.bits,
                                           sketch.common_error, buffers.keys_dev, stream));
  return ReadCodedCells({lists.num_lists, lists.max_keys, num_bytes}, buffers.prefixed.codes,
                        buffers.coded_cells, sketch.bits, sketch.common_error, buffers.groups_dev,
                        stream);
}

// Marks the keys of all sections, and checks all that was read.
Status CheckSections(const SketchReading& sketch, const Parts<SupportSection>& sections,
                     const Marks& marks, cudaStream_t stream) {
  const auto num_means = [](const SupportSection& section) { return MaxSketchBuckets(section.k); };
  TFC_RETURN_IF_ERROR(LaunchParts("check means", CheckMeansKernel,
                                  CountItems(sections.on_host, num_means), sections.size(), stream,
                                  sketch));
  TFC_RETURN_IF_ERROR(
      LaunchWarps("check cells", CheckCellsKernel, sketch.max_tiles, stream, sketch));
  TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
  return LaunchWarps("check keys", CheckKeysKernel, sketch.max_tiles, stream, sketch);
}

// The array of the sections: as far as the first one that has elements.
const unsigned char* FrontOf(Span<const SupportSection> sections) {
  const unsigned char* front = nullptr;
  for (const SupportSection& section : sections) {
    if (section.k > 0 && (front == nullptr || section.data_dev < front)) front = section.data_dev;
  }
  return front;
}

}  // namespace

void TakeSketchDecodeBuffers(JointKind kind, const SketchExtent& extent, Workspace* workspace,
                             SketchDecodeBuffers* buffers) {
  const auto [num_sections, num_lists, num_keys, num_symbols, num_bytes] = extent;
  buffers->layouts_dev = workspace->Take<SketchLayout>(num_sections);
  buffers->groups_dev = workspace->Take<SketchGroup>(num_lists);
  buffers->lists = TakeKeyLists(num_lists, num_keys, workspace);
  buffers->key_begins_dev = workspace->Take<uint64_t>(num_lists);
  buffers->num_key_bytes_dev = workspace->Take<uint64_t>(num_lists);
  buffers->keys_dev = workspace->Take<uint32_t>(num_keys);
  if (kind == JointKind::kSketchml)
    return TakeDeltaBuffers(num_lists, num_keys, workspace, &buffers->deltas);
  TakeCellReadBuffers(num_lists, num_symbols, uint64_t{kMaxSketchRows} * num_keys, workspace,
                      &buffers->coded_cells);
  TakeDeltaReadBuffers(num_lists, ExtentOf(num_lists, num_keys, num_bytes), workspace,
                       &buffers->prefixed);
}

Status DecodeSketches(JointKind kind, const Parts<SupportSection>& sections, const Marks& marks,
                      const SketchDecodeBuffers& buffers, uint32_t bits, uint32_t* common_error_dev,
                      cudaStream_t stream) {
  SketchExtent extent{};
  for (const SupportSection& section : sections.on_host) extent.Add(section.k, section.num_bytes);
  if (extent.num_keys == 0) return OkStatus();
  const bool has_words = kind == JointKind::kSkcompress;
  SketchReading sketch = {
      kind,
      sections.data_dev,
      extent.num_sections,
      has_words ? reinterpret_cast<const unsigned char*>(buffers.prefixed.codes.words_dev)
                : FrontOf(sections.on_host),
      buffers,
      MaxKeyTiles(extent.num_lists, extent.num_keys),
      common_error_dev,
      bits};
  sketch.buffers.lists.num_lists = extent.num_lists;
  sketch.buffers.lists.max_keys = extent.num_keys;
  TFC_RETURN_IF_ERROR(ReadLayouts(sketch, sections, stream));
  TFC_RETURN_IF_ERROR(DecodeGroups(sketch, extent.num_bytes, stream));
  TFC_RETURN_IF_ERROR(CheckSections(sketch, sections, marks, stream));
  TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ListMarks(sections, stream));
  return LaunchWarps("place values", PlaceValuesKernel, sketch.max_tiles, stream, sketch);
}

}  // namespace device
}  // namespace tfcompress
