#include "core/byte_io.h"
#include "cuda/launch_frames.h"
#include "cuda/sketch_groups.h"
#include "cuda/sketch_writing.h"
#include "cuda/value_codes.h"

namespace tfcompress {
namespace device {
namespace {

// Drops all keys, and all cells of `cells` if there are such lists, of frames that would be too
// long.
__global__ void DropKeysKernel(SketchWriting sketch, uint32_t* num_cells) {
  for (uint64_t i = ThisThread(); i < sketch.lists.num_lists; i += NumThreads()) {
    if (sketch.FrameOf(static_cast<uint32_t>(i)).state_dev->k != 0) continue;
    sketch.lists.sizes_dev[i] = 0;
    if (num_cells != nullptr) num_cells[i] = 0;
  }
}

// Writes all but keys, cells and means. One thread per list.
__global__ void WriteHeadersKernel(SketchWriting sketch) {
  const GroupedSketchConfig& config = sketch.config;
  for (uint64_t i = ThisThread(); i < sketch.lists.num_lists; i += NumThreads()) {
    const auto list = static_cast<uint32_t>(i);
    if (sketch.FrameOf(list).state_dev->k == 0) continue;
    const SketchGroup& group = sketch.groups[list];
    const uint32_t frame = list / sketch.lists_per_frame();
    unsigned char* const front = sketch.FrontOf(frame);
    unsigned char* const header = front + group.keys_begin - kGroupHeaderBytes;
    if (list % sketch.lists_per_frame() == 0) {
      unsigned char* const section = front + sketch.places[frame].first_byte;
      StoreUnaligned(section, config.rows);
      StoreUnaligned(section + sizeof(uint32_t), config.groups);
    }
    if (list % config.groups == 0) {
      const uint32_t num_buckets = sketch.SignOf(list).state_dev->num_buckets;
      StoreUnaligned(header - sizeof(float) * uint64_t{num_buckets} - sizeof(uint32_t),
                     num_buckets);
    }
    if (group.width == 0) continue;
    StoreUnaligned(header, static_cast<uint32_t>(kGroupHeaderBytes - sizeof(uint32_t) +
                                                 group.num_key_bytes + group.num_cell_bytes));
    StoreUnaligned(header + sizeof(uint32_t), sketch.lists.SizeOf(list));
    StoreUnaligned(header + 2 * sizeof(uint32_t), group.num_columns);
  }
}

// Writes the means of a sign.
__global__ void WriteMeansKernel(SketchWriting sketch) {
  const uint32_t frame = blockIdx.y / kNumSigns;
  if (sketch.frames[frame].state_dev->k == 0) return;
  const QuantizerPart& sign = sketch.signs[blockIdx.y];
  const uint64_t num_buckets = sign.state_dev->num_buckets;
  unsigned char* const out = sketch.FrontOf(frame) +
                             sketch.groups[blockIdx.y * sketch.config.groups].keys_begin -
                             kGroupHeaderBytes - sizeof(float) * num_buckets;
  for (uint64_t i = ThisThread(); i < num_buckets; i += NumThreads())
    StoreUnaligned(out + sizeof(float) * i, sign.means_dev[i]);
}

// Packs eight cells, which fill whole bytes, per lane. Empty cells become 0.
__global__ void PackCellsKernel(SketchWriting sketch) {
  constexpr uint64_t kPart = BitPacking::kGroup;
  const auto num_parts = [&](uint32_t list) {
    return CeilDiv(sketch.groups[list].num_cells, kPart);
  };
  ForEachOfLists(sketch.lists, sketch.max_tiles, num_parts, [&](uint64_t part, uint32_t list) {
    const SketchGroup& group = sketch.groups[list];
    uint32_t codes[kPart];
    int size = 0;
    for (uint64_t i = part * kPart; i < (part + 1) * kPart && i < group.num_cells; ++i) {
      const uint32_t cell = sketch.cells[group.first_cell + i];
      codes[size++] = cell == kEmptyCell ? 0 : cell;
    }
    BitPacking(sketch.FrontOf(group.part) + group.cells_begin, BitsFor(group.width))
        .Store(part, codes, size);
  });
}

__global__ void TakeOutKernel(SketchWriting sketch) {
  ForEachKey(sketch.lists, sketch.max_tiles, [&](uint64_t i, uint32_t list) {
    const SketchGroup& group = sketch.groups[list];
    const uint32_t key = sketch.keys[i];
    const auto cell_at = [&](uint64_t cell) { return sketch.cells[group.first_cell + cell]; };
    const uint32_t bucket = group.first_bucket + Query(group, sketch.config.rows, key, cell_at);
    float* const residual = sketch.frames[group.part].compensation.slots[kResidualSlot].after_dev;
    residual[key] -= WithSign(sketch.SignOf(list).means_dev[bucket], group.sign);
  });
}

// Writes all of the sections; bytes other than keys and cells become 0.
Status WriteCompressedGroups(const Parts<EncodedFrame>& frames, const GroupedSketchBuffers& buffers,
                             cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(ClearSections(frames, stream));
  TFC_RETURN_IF_ERROR(WritePrefixedDeltas(buffers.lists.key_lists, buffers.lists.keys_dev,
                                          buffers.prefixed, buffers.key_begins_dev, stream));
  TFC_RETURN_IF_ERROR(WriteCodedCells(buffers.coded_cells, buffers.groups_dev, buffers.cells_dev,
                                      buffers.prefixed.codes.words_dev, stream));
  return StoreSections(frames, stream);
}

Status WriteGroups(const Parts<EncodedFrame>& frames, const GroupedSketchBuffers& buffers,
                   cudaStream_t stream) {
  if (buffers.kind == JointKind::kSkcompress) return WriteCompressedGroups(frames, buffers, stream);
  TFC_RETURN_IF_ERROR(EncodeDeltas(buffers.lists.key_lists, buffers.lists.keys_dev, buffers.deltas,
                                   buffers.key_places_dev, stream));
  return LaunchWarps("pack cells", PackCellsKernel, buffers.lists.max_tiles(), stream,
                     WritingOf(frames, buffers));
}

}  // namespace

Status WriteGroupedSketch(const Parts<EncodedFrame>& frames, const GroupedSketchBuffers& buffers,
                          cudaStream_t stream) {
  const GroupListsBuffers& lists = buffers.lists;
  if (lists.max_keys == 0) return OkStatus();
  const SketchWriting sketch = WritingOf(frames, buffers);
  const auto max_buckets = [](const QuantizerPart& sign) { return sign.max_used_buckets(); };
  TFC_RETURN_IF_ERROR(LaunchThreads("drop keys", DropKeysKernel, lists.key_lists.num_lists, stream,
                                    sketch, buffers.coded_cells.lists.sizes_dev));
  TFC_RETURN_IF_ERROR(WriteGroups(frames, buffers, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("write headers", WriteHeadersKernel, lists.key_lists.num_lists,
                                    stream, sketch));
  const Parts<QuantizerPart> signs = lists.quantizer.quantized();
  TFC_RETURN_IF_ERROR(LaunchParts("write means", WriteMeansKernel,
                                  CountFrameItems(signs, max_buckets), signs.size(), stream,
                                  sketch));
  if (frames.on_host[0].compensation.memory.kind == MemoryKind::kNone) return OkStatus();
  return LaunchWarps("take out", TakeOutKernel, lists.max_tiles(), stream, sketch);
}

}  // namespace device
}  // namespace tfcompress
