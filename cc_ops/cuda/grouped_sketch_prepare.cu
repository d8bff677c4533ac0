#include <cmath>

#include "core/bit_io.h"
#include "core/entropy/delta_bytes.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/sketch_groups.h"
#include "cuda/sketch_writing.h"
#include "cuda/write_parts.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Sketches ----------------------------------------------------------------------------------

// Places the sketches of the lists of a frame, one thread for each frame: there are few lists.
__global__ void ShapeSketchesKernel(SketchWriting sketch) {
  const GroupedSketchConfig& config = sketch.config;
  for (uint64_t frame = ThisThread(); frame < sketch.num_frames; frame += NumThreads()) {
    uint64_t first_cell = sketch.places[frame].first_cell;
    const auto first_list = static_cast<uint32_t>(frame * sketch.lists_per_frame());
    for (uint32_t i = 0; i < sketch.lists_per_frame(); ++i) {
      const uint32_t list = first_list + i, number = i % config.groups;
      const QuantizerPart& quantized = sketch.SignOf(list);
      const BucketGroups groups(quantized.state_dev->num_buckets, config.groups);
      SketchGroup group{};
      if (number < groups.num_groups) {
        group.part = static_cast<uint32_t>(frame);
        group.sign = i / config.groups;
        group.seed = GroupSketchSeed(group.sign, number, sketch.frames[frame].header.seed);
        group.width = groups.Width(number);
        group.first_bucket = groups.FirstBucket(number);
        group.first_symbol = quantized.first_code + group.first_bucket;
        group.num_columns = NumSketchColumns(config.columns, sketch.lists.SizeOf(list));
        group.num_cells = uint64_t{config.rows} * group.num_columns;
        group.first_cell = first_cell;
        first_cell += group.num_cells;
      }
      sketch.groups[list] = group;
    }
  }
}

__global__ void InsertKernel(SketchWriting sketch, const uint32_t* offsets) {
  ForEachKey(sketch.lists, sketch.max_tiles, [&](uint64_t i, uint32_t list) {
    const SketchGroup& group = sketch.groups[list];
    for (uint32_t row = 0; row < sketch.config.rows; ++row) {
      const uint64_t cell = CellOf(group, row, sketch.keys[i]);
      atomicMin(&sketch.cells[group.first_cell + cell], offsets[i]);
    }
  });
}

// ---- Lengths -----------------------------------------------------------------------------------

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

// Where the keys of each list are written to; those that the kind of codec does not need are null.
struct KeyPlaces {
  __device__ void Set(uint32_t list, unsigned char* front, uint64_t position) const {
    if (begins != nullptr) begins[list] = position;
    if (places != nullptr) places[list] = front + position;
  }

  uint64_t* begins;        // kSkcompress
  unsigned char** places;  // kSketchml
};

// Sets the positions of all parts of the section of a frame, one thread for each frame.
__global__ void PlaceGroupsKernel(SketchWriting sketch, const CodeListSize* key_sizes,
                                  KeyPlaces keys, uint64_t* num_bytes) {
  for (uint64_t i = ThisThread(); i < sketch.num_frames; i += NumThreads()) {
    const auto frame = static_cast<uint32_t>(i);
    const uint32_t first_list = frame * sketch.lists_per_frame();
    const uint64_t begin = sketch.places[frame].first_byte;
    uint64_t position = begin + kSketchHeaderBytes;
    for (uint32_t list = first_list; list < first_list + sketch.lists_per_frame(); ++list) {
      if (list % sketch.config.groups == 0) {
        const uint64_t num_buckets = sketch.SignOf(list).state_dev->num_buckets;
        position += sizeof(uint32_t) + sizeof(float) * num_buckets;
      }
      SketchGroup& group = sketch.groups[list];
      group.keys_begin = position + kGroupHeaderBytes;
      keys.Set(list, sketch.FrontOf(frame), group.keys_begin);
      if (group.width == 0) continue;
      if (key_sizes != nullptr) group.num_key_bytes = key_sizes[list].num_bytes;
      group.cells_begin = group.keys_begin + group.num_key_bytes;
      position = group.cells_begin + group.num_cell_bytes;
    }
    num_bytes[frame] = position - begin;
  }
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

// Finds where what each frame has begins, and returns where the end is.
SketchPlace PlaceFrames(const JointSpec& spec, Span<const SketchSize> sizes,
                        std::vector<SketchPlace>* places) {
  const GroupedSketchConfig& config = spec.sketch;
  SketchPlace place{};
  places->clear();
  for (const SketchSize& size : sizes) {
    places->push_back(place);
    place.first_key += size.max_k;
    place.first_tile += static_cast<uint32_t>(NumTiles(size.max_k));
    // Each group rounds its number of columns up.
    place.first_cell +=
        config.rows *
        (static_cast<uint64_t>(std::ceil(config.columns * size.max_k)) + kNumSigns * config.groups);
    if (spec.kind == JointKind::kSkcompress) place.first_byte += CeilDiv(size.max_bytes, 4) * 4;
  }
  return place;
}

}  // namespace

Status TakeGroupedSketch(const JointSpec& spec, Span<const SketchSize> sizes, Workspace* workspace,
                         GroupedSketchBuffers* buffers) {
  buffers->kind = spec.kind;
  std::vector<uint32_t> max_sizes;
  for (const SketchSize& size : sizes) max_sizes.push_back(size.max_k);
  TFC_RETURN_IF_ERROR(TakeGroupLists(spec.sketch, max_sizes, workspace, &buffers->lists));
  const SketchPlace end = PlaceFrames(spec, sizes, &buffers->places);
  const uint32_t num_lists = buffers->lists.key_lists.num_lists;
  buffers->places_dev = workspace->Take<SketchPlace>(sizes.size());
  buffers->groups_dev = workspace->Take<SketchGroup>(num_lists);
  buffers->num_value_bytes_dev = workspace->Take<uint64_t>(sizes.size());
  buffers->num_cells = end.first_cell;
  buffers->cells_dev = workspace->Take<uint32_t>(buffers->num_cells);
  if (spec.kind == JointKind::kSketchml) {
    buffers->key_places_dev = workspace->Take<unsigned char*>(num_lists);
    TakeDeltaBuffers(num_lists, end.first_key, workspace, &buffers->deltas);
    return OkStatus();
  }
  buffers->key_begins_dev = workspace->Take<uint64_t>(num_lists);
  TakeDeltaWriteBuffers(num_lists, end.first_key, end.first_byte, workspace, &buffers->prefixed);
  return TakeCellWriteBuffers(num_lists, buffers->lists.num_symbols(), buffers->num_cells,
                              workspace, &buffers->coded_cells);
}

Status PrepareGroupedSketch(const Parts<EncodedFrame>& frames, const GroupedSketchBuffers& buffers,
                            cudaStream_t stream) {
  const GroupListsBuffers& lists = buffers.lists;
  if (lists.max_keys == 0) return OkStatus();
  const Parts<SketchPlace> places = {buffers.places, buffers.places_dev};
  TFC_RETURN_IF_ERROR(
      WriteParts("place frames", places.on_host, BeginNothing(), buffers.places_dev, stream));
  TFC_RETURN_IF_ERROR(MakeGroupLists(frames, places, lists, stream));
  const SketchWriting sketch = WritingOf(frames, buffers);
  TFC_RETURN_IF_ERROR(
      LaunchThreads("shape sketches", ShapeSketchesKernel, frames.size(), stream, sketch));
  static_assert(kEmptyCell == 0xFFFFFFFFu);
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.cells_dev, 0xFF, buffers.num_cells * sizeof(uint32_t), stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("insert into sketches", InsertKernel, lists.max_tiles(), stream,
                                  sketch, lists.offsets_dev));
  TFC_RETURN_IF_ERROR(MeasureGroups(buffers, stream));
  return LaunchThreads("place groups", PlaceGroupsKernel, frames.size(), stream, sketch,
                       buffers.prefixed.codes.sizes_dev,
                       KeyPlaces{buffers.key_begins_dev, buffers.key_places_dev},
                       buffers.num_value_bytes_dev);
}

}  // namespace device
}  // namespace tfcompress
