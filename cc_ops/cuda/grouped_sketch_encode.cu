#include <cmath>

#include "core/bit_io.h"
#include "core/entropy/delta_bytes.h"
#include "core/frame.h"
#include "core/memory/momentum_step.h"
#include "cuda/cuda_status.h"
#include "cuda/grouped_sketch.h"
#include "cuda/launch.h"
#include "cuda/sketch_groups.h"
#include "cuda/value_codes.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Sketches ----------------------------------------------------------------------------------

// One thread: there are few groups.
__global__ void ShapeSketchesKernel(GroupedSketchConfig config, uint32_t max_buckets,
                                    const uint32_t* num_buckets, const uint32_t* sizes,
                                    uint64_t seed, SketchGroup* groups) {
  if (ThisThread() != 0) return;
  uint64_t num_cells = 0;
  for (uint32_t list = 0; list < kNumSigns * config.groups; ++list) {
    const uint32_t sign = list / config.groups, number = list % config.groups;
    const BucketGroups of_sign(num_buckets[sign], config.groups);
    SketchGroup group{};
    if (number < of_sign.num_groups) {
      group.seed = GroupSketchSeed(sign, number, seed);
      group.width = of_sign.Width(number);
      group.first_bucket = of_sign.FirstBucket(number);
      group.first_symbol = sign * max_buckets + group.first_bucket;
      group.num_columns = NumSketchColumns(config.columns, sizes[list]);
      group.num_cells = uint64_t{config.rows} * group.num_columns;
      group.first_cell = num_cells;
      num_cells += group.num_cells;
    }
    groups[list] = group;
  }
}

__global__ void InsertKernel(KeyLists lists, uint64_t max_tiles, const uint32_t* keys,
                             const uint32_t* offsets, const SketchGroup* groups, uint32_t num_rows,
                             uint32_t* cells) {
  ForEachKey(lists, max_tiles, [&](uint64_t i, uint32_t list) {
    const SketchGroup& group = groups[list];
    for (uint32_t row = 0; row < num_rows; ++row)
      atomicMin(&cells[group.first_cell + CellOf(group, row, keys[i])], offsets[i]);
  });
}

// ---- The section -------------------------------------------------------------------------------

// Lengths of delta bytes and of numbers. One thread per list.
__global__ void SizeGroupsKernel(KeyLists lists, const uint64_t* ends, SketchGroup* groups) {
  for (uint64_t i = ThisThread(); i < lists.num_lists; i += NumThreads()) {
    const auto list = static_cast<uint32_t>(i);
    SketchGroup& group = groups[list];
    group.num_key_bytes = NumFlagBytes(lists.SizeOf(list)) + ends[lists.EndTileOf(list)] -
                          ends[lists.FirstTileOf(list)];
    group.num_cell_bytes = PackedBytes(group.num_cells, BitsFor(group.width));
  }
}

// Sets the positions of all parts of the section. Runs on one thread.
__global__ void PlaceGroupsKernel(GroupedSketchConfig config, const uint32_t* num_buckets,
                                  const CodeListSize* key_sizes, SketchGroup* groups,
                                  uint64_t* key_begins, uint64_t* num_bytes) {
  if (ThisThread() != 0) return;
  uint64_t position = kSketchHeaderBytes;
  for (uint32_t list = 0; list < kNumSigns * config.groups; ++list) {
    if (list % config.groups == 0)
      position += sizeof(uint32_t) + sizeof(float) * uint64_t{num_buckets[list / config.groups]};
    SketchGroup& group = groups[list];
    group.keys_begin = position + kGroupHeaderBytes;
    key_begins[list] = group.keys_begin;
    if (group.width == 0) continue;
    if (key_sizes != nullptr) group.num_key_bytes = key_sizes[list].num_bytes;
    group.cells_begin = group.keys_begin + group.num_key_bytes;
    position = group.cells_begin + group.num_cell_bytes;
  }
  *num_bytes = position;
}

// Drops all keys if the frame would be too long.
__global__ void DropKeysKernel(const EncodeState* state, KeyLists lists) {
  if (state->k != 0) return;
  for (uint64_t list = ThisThread(); list < lists.num_lists; list += NumThreads())
    lists.sizes_dev[list] = 0;
}

struct SketchMeans {
  const float* of_sign[kNumSigns];
  const uint32_t* num_buckets;
};

// Writes all but keys, cells and means. One thread per list.
__global__ void WriteHeadersKernel(KeyLists lists, GroupedSketchConfig config, SketchMeans means,
                                   const SketchGroup* groups, const EncodeState* state,
                                   unsigned char* section) {
  if (state->k == 0) return;
  if (ThisThread() == 0) {
    StoreUnaligned(section, config.rows);
    StoreUnaligned(section + sizeof(uint32_t), config.groups);
  }
  for (uint64_t i = ThisThread(); i < lists.num_lists; i += NumThreads()) {
    const auto list = static_cast<uint32_t>(i);
    const SketchGroup& group = groups[list];
    unsigned char* header = section + group.keys_begin - kGroupHeaderBytes;
    if (list % config.groups == 0) {
      const uint32_t num_buckets = means.num_buckets[list / config.groups];
      StoreUnaligned(header - sizeof(float) * uint64_t{num_buckets} - sizeof(uint32_t),
                     num_buckets);
    }
    if (group.width == 0) continue;
    StoreUnaligned(header, static_cast<uint32_t>(kGroupHeaderBytes - sizeof(uint32_t) +
                                                 group.num_key_bytes + group.num_cell_bytes));
    StoreUnaligned(header + sizeof(uint32_t), lists.SizeOf(list));
    StoreUnaligned(header + 2 * sizeof(uint32_t), group.num_columns);
  }
}

__global__ void WriteMeansKernel(GroupedSketchConfig config, SketchMeans means,
                                 const SketchGroup* groups, const EncodeState* state,
                                 unsigned char* section) {
  if (state->k == 0) return;
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    const uint64_t num_buckets = means.num_buckets[sign];
    unsigned char* out = section + groups[sign * config.groups].keys_begin - kGroupHeaderBytes -
                         sizeof(float) * num_buckets;
    for (uint64_t i = ThisThread(); i < num_buckets; i += NumThreads())
      StoreUnaligned(out + sizeof(float) * i, means.of_sign[sign][i]);
  }
}

// Packs eight cells, which fill whole bytes, per lane. Empty cells become 0.
__global__ void PackCellsKernel(KeyLists lists, uint64_t max_tiles, const SketchGroup* groups,
                                const uint32_t* cells, const EncodeState* state,
                                unsigned char* section) {
  if (state->k == 0) return;
  constexpr uint64_t kPart = BitPacking::kGroup;
  const auto num_parts = [&](uint32_t list) { return CeilDiv(groups[list].num_cells, kPart); };
  ForEachOfLists(lists, max_tiles, num_parts, [&](uint64_t part, uint32_t list) {
    const SketchGroup& group = groups[list];
    uint32_t codes[kPart];
    int size = 0;
    for (uint64_t i = part * kPart; i < (part + 1) * kPart && i < group.num_cells; ++i) {
      const uint32_t cell = cells[group.first_cell + i];
      codes[size++] = cell == kEmptyCell ? 0 : cell;
    }
    BitPacking(section + group.cells_begin, BitsFor(group.width)).Store(part, codes, size);
  });
}

__global__ void TakeOutKernel(KeyLists lists, uint64_t max_tiles, const uint32_t* keys,
                              GroupedSketchConfig config, SketchMeans means,
                              const SketchGroup* groups, const uint32_t* cells,
                              const EncodeState* state, uint32_t n, SentSlots slots) {
  if (state->k == 0) return;
  const bool masks = MasksVelocity(state->k, n);
  ForEachKey(lists, max_tiles, [&](uint64_t i, uint32_t list) {
    const SketchGroup& group = groups[list];
    const uint32_t sign = list / config.groups;
    const auto cell_at = [&](uint64_t cell) { return cells[group.first_cell + cell]; };
    const uint32_t bucket = group.first_bucket + Query(group, config.rows, keys[i], cell_at);
    const float* of_sign = sign == 0 ? means.of_sign[0] : means.of_sign[1];
    slots.TakeOut(keys[i], WithSign(of_sign[bucket], sign), masks);
  });
}

// Measures keys and cells in their formats.
Status MeasureGroups(const GroupedSketchBuffers& buffers, cudaStream_t stream) {
  const KeyLists& lists = buffers.lists.key_lists;
  if (buffers.kind == JointKind::kSkcompress) {
    TFC_RETURN_IF_ERROR(
        MeasurePrefixedDeltas({true, 0}, lists, buffers.lists.keys_dev, buffers.prefixed, stream));
    return MeasureCells(buffers.coded_cells, buffers.groups_dev, buffers.cells_dev, stream);
  }
  TFC_RETURN_IF_ERROR(MeasureDeltas(lists, buffers.lists.keys_dev, buffers.deltas, stream));
  return LaunchThreads("size groups", SizeGroupsKernel, lists.num_lists, stream, lists,
                       buffers.deltas.ends_dev, buffers.groups_dev);
}

// Writes all of the section; bytes other than keys and cells become 0.
Status WriteCompressedGroups(const GroupedSketchBuffers& buffers, const EncodeState* state_dev,
                             unsigned char* section_dev, cudaStream_t stream) {
  const SectionWords words = {buffers.prefixed.codes.words_dev, buffers.num_value_bytes_dev,
                              &state_dev->k};
  const uint64_t max_items = buffers.lists.max_k;
  TFC_RETURN_IF_ERROR(ClearSection(words, max_items, stream));
  TFC_RETURN_IF_ERROR(WritePrefixedDeltas(buffers.lists.key_lists, buffers.lists.keys_dev,
                                          buffers.prefixed, buffers.key_begins_dev, stream));
  TFC_RETURN_IF_ERROR(WriteCodedCells(buffers.coded_cells, buffers.groups_dev, buffers.cells_dev,
                                      words.k_dev, words.words_dev, stream));
  return StoreSection(words, max_items, section_dev, stream);
}

Status WriteGroups(const GroupedSketchBuffers& buffers, const EncodeState* state_dev,
                   unsigned char* section_dev, cudaStream_t stream) {
  if (buffers.kind == JointKind::kSkcompress)
    return WriteCompressedGroups(buffers, state_dev, section_dev, stream);
  const KeyLists& lists = buffers.lists.key_lists;
  TFC_RETURN_IF_ERROR(EncodeDeltas(lists, buffers.lists.keys_dev, buffers.deltas, section_dev,
                                   buffers.key_begins_dev, stream));
  return LaunchWarps("pack cells", PackCellsKernel, buffers.deltas.max_tiles, stream, lists,
                     buffers.deltas.max_tiles, buffers.groups_dev, buffers.cells_dev, state_dev,
                     section_dev);
}

}  // namespace

Status TakeGroupedSketch(const JointSpec& spec, uint32_t max_k, uint64_t max_bytes,
                         Workspace* workspace, GroupedSketchBuffers* buffers) {
  const GroupedSketchConfig& config = spec.sketch;
  buffers->kind = spec.kind;
  TFC_RETURN_IF_ERROR(TakeGroupLists(config, max_k, workspace, &buffers->lists));
  const uint32_t num_lists = buffers->lists.key_lists.num_lists;
  buffers->groups_dev = workspace->Take<SketchGroup>(num_lists);
  buffers->key_begins_dev = workspace->Take<uint64_t>(num_lists);
  buffers->num_value_bytes_dev = workspace->Take<uint64_t>(1);
  // Each group rounds its number of columns up.
  buffers->max_cells =
      config.rows * (static_cast<uint64_t>(std::ceil(config.columns * max_k)) + num_lists);
  buffers->cells_dev = workspace->Take<uint32_t>(buffers->max_cells);
  if (spec.kind == JointKind::kSketchml) {
    TakeDeltaBuffers(num_lists, max_k, workspace, &buffers->deltas);
    return OkStatus();
  }
  TakeDeltaWriteBuffers(num_lists, max_k, max_bytes, workspace, &buffers->prefixed);
  return TakeCellWriteBuffers(num_lists, buffers->lists.quantizer.max_used_buckets(),
                              buffers->max_cells, workspace, &buffers->coded_cells);
}

Status PrepareGroupedSketch(const SelectedValues& values, const uint32_t* k_dev, uint64_t seed,
                            const GroupedSketchBuffers& buffers, cudaStream_t stream) {
  const GroupListsBuffers& lists = buffers.lists;
  const GroupedSketchConfig& config = lists.config;
  TFC_RETURN_IF_ERROR(MakeGroupLists(values, k_dev, lists, stream));
  TFC_RETURN_IF_ERROR(Launch("shape sketches", ShapeSketchesKernel, 1, kWarpThreads, stream, config,
                             lists.quantizer.max_used_buckets(), lists.num_buckets_dev,
                             lists.key_lists.sizes_dev, seed, buffers.groups_dev));
  static_assert(kEmptyCell == 0xFFFFFFFFu);
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.cells_dev, 0xFF, buffers.max_cells * sizeof(uint32_t), stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("insert into sketches", InsertKernel, lists.max_tiles(), stream,
                                  lists.key_lists, lists.max_tiles(), lists.keys_dev,
                                  lists.offsets_dev, buffers.groups_dev, config.rows,
                                  buffers.cells_dev));
  TFC_RETURN_IF_ERROR(MeasureGroups(buffers, stream));
  const bool is_compressed = buffers.kind == JointKind::kSkcompress;
  return Launch("place groups", PlaceGroupsKernel, 1, kWarpThreads, stream, config,
                lists.num_buckets_dev, is_compressed ? buffers.prefixed.codes.sizes_dev : nullptr,
                buffers.groups_dev, buffers.key_begins_dev, buffers.num_value_bytes_dev);
}

Status WriteGroupedSketch(uint32_t n, const GroupedSketchBuffers& buffers,
                          const EncodeState* state_dev, const SentSlots& slots,
                          unsigned char* frame_dev, cudaStream_t stream) {
  const GroupListsBuffers& lists = buffers.lists;
  const GroupedSketchConfig& config = lists.config;
  const KeyLists& key_lists = lists.key_lists;
  const SketchMeans means = {{lists.means_dev[0], lists.means_dev[1]}, lists.num_buckets_dev};
  unsigned char* section_dev = frame_dev + kFrameHeaderBytes;
  TFC_RETURN_IF_ERROR(LaunchThreads("drop keys", DropKeysKernel, key_lists.num_lists, stream,
                                    state_dev, key_lists));
  TFC_RETURN_IF_ERROR(WriteGroups(buffers, state_dev, section_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("write headers", WriteHeadersKernel, key_lists.num_lists,
                                    stream, key_lists, config, means, buffers.groups_dev, state_dev,
                                    section_dev));
  TFC_RETURN_IF_ERROR(LaunchThreads("write means", WriteMeansKernel,
                                    lists.quantizer.max_used_buckets(), stream, config, means,
                                    buffers.groups_dev, state_dev, section_dev));
  if (slots.residual == nullptr) return OkStatus();
  return LaunchWarps("take out", TakeOutKernel, lists.max_tiles(), stream, key_lists,
                     lists.max_tiles(), lists.keys_dev, config, means, buffers.groups_dev,
                     buffers.cells_dev, state_dev, n, slots);
}

}  // namespace device
}  // namespace tfcompress
