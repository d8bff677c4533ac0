#include <algorithm>

#include "core/bit_io.h"
#include "core/byte_io.h"
#include "core/entropy/delta_bytes.h"
#include "cuda/grouped_sketch.h"
#include "cuda/launch.h"
#include "cuda/sketch_groups.h"
#include "cuda/value_codes.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Layout ------------------------------------------------------------------------------------

// Reads numbers and bytes from the front of a section. Past the end it returns zeros.
class SectionReader {
 public:
  __device__ SectionReader(const unsigned char* data, uint64_t num_bytes)
      : data_(data), num_bytes_(num_bytes) {}

  __device__ uint64_t position() const { return position_; }
  __device__ bool at_end() const { return !failed_ && position_ == num_bytes_; }

  __device__ bool Skip(uint64_t num_bytes) {
    failed_ = failed_ || num_bytes > num_bytes_ - position_;
    if (!failed_) position_ += num_bytes;
    return !failed_;
  }
  __device__ uint32_t Read() {
    const uint64_t begin = position_;
    return Skip(sizeof(uint32_t)) ? At(begin) : 0;
  }
  // The number at a position that has been read past.
  __device__ uint32_t At(uint64_t position) const {
    return LoadUnaligned<uint32_t>(data_ + position);
  }

 private:
  const unsigned char* data_;
  uint64_t num_bytes_;
  uint64_t position_ = 0;
  bool failed_ = false;
};

// Keys and cells of the groups read so far.
struct Counts {
  uint32_t num_keys;
  uint64_t num_cells;
};

// Places the keys and cells of a group between its columns and its end. Delta bytes end where the
// numbers begin; the end of adaptive deltas is not known yet.
__device__ bool PlaceContent(JointKind kind, uint32_t num_keys, uint64_t end, SketchGroup* group) {
  group->num_cell_bytes =
      kind == JointKind::kSketchml ? PackedBytes(group->num_cells, BitsFor(group->width)) : 0;
  const uint64_t min_key_bytes =
      kind == JointKind::kSketchml ? NumFlagBytes(num_keys) + num_keys : 0;
  if (group->keys_begin + min_key_bytes + group->num_cell_bytes > end) return false;
  group->cells_begin = end - group->num_cell_bytes;
  group->num_key_bytes = group->cells_begin - group->keys_begin;
  return true;
}

// Reads one group of at most max_keys keys; false if it is invalid.
__device__ bool ReadGroup(JointKind kind, uint32_t num_rows, uint32_t max_keys,
                          SectionReader* reader, SketchGroup* group, uint32_t* num_keys) {
  const uint32_t num_bytes = reader->Read();
  const uint64_t begin = reader->position();
  if (!reader->Skip(num_bytes) || num_bytes < 2 * sizeof(uint32_t)) return false;
  *num_keys = reader->At(begin);
  group->num_columns = reader->At(begin + sizeof(uint32_t));
  group->num_cells = uint64_t{num_rows} * group->num_columns;
  group->keys_begin = begin + 2 * sizeof(uint32_t);
  if (group->num_columns == 0 || group->num_columns > *num_keys || *num_keys > max_keys)
    return false;
  return PlaceContent(kind, *num_keys, reader->position(), group);
}

// Reads the groups of one sign, and counts their keys and cells. Absent groups get the position at
// which they would begin.
__device__ bool ReadSign(const SketchSectionView& section, const SketchDecodeBuffers& buffers,
                         uint32_t sign, uint32_t max_groups, SectionReader* reader,
                         Counts* counts) {
  SketchLayout* layout = buffers.layout_dev;
  const uint32_t num_buckets = reader->Read();
  if (num_buckets > section.k || num_buckets > kMaxSketchBuckets) return false;
  layout->num_buckets[sign] = num_buckets;
  layout->means_begin[sign] = reader->position();
  if (!reader->Skip(sizeof(float) * uint64_t{num_buckets})) return false;
  const BucketGroups groups(num_buckets, max_groups);
  for (uint32_t number = 0; number < kMaxSketchGroups; ++number) {
    const uint32_t list = sign * kMaxSketchGroups + number;
    SketchGroup group{};
    group.keys_begin = reader->position();
    uint32_t size = 0;
    if (number < groups.num_groups) {
      group.seed = GroupSketchSeed(sign, number, section.seed);
      group.width = groups.Width(number);
      group.first_bucket = groups.FirstBucket(number);
      group.first_symbol = sign * buffers.max_buckets + group.first_bucket;
      group.first_cell = counts->num_cells;
      if (!ReadGroup(section.kind, layout->num_rows, section.k - counts->num_keys, reader, &group,
                     &size))
        return false;
    }
    buffers.groups_dev[list] = group;
    buffers.key_begins_dev[list] = group.keys_begin;
    buffers.num_key_bytes_dev[list] = group.num_key_bytes;
    buffers.lists.begins_dev[list] = counts->num_keys;
    buffers.lists.sizes_dev[list] = size;
    counts->num_keys += size;
    counts->num_cells += group.num_cells;
  }
  return true;
}

__device__ bool ReadSigns(const SketchSectionView& section, const SketchDecodeBuffers& buffers) {
  SectionReader reader(section.data_dev, section.num_bytes);
  const uint32_t num_rows = buffers.layout_dev->num_rows = reader.Read();
  const uint32_t max_groups = reader.Read();
  if (num_rows < 1 || num_rows > kMaxSketchRows || max_groups < 1 || max_groups > kMaxSketchGroups)
    return false;
  Counts counts = {0, 0};
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    if (!ReadSign(section, buffers, sign, max_groups, &reader, &counts)) return false;
  }
  return counts.num_keys == section.k && reader.at_end();
}

// One thread: there are few lists. An invalid section gets no keys.
__global__ void ReadLayoutKernel(SketchSectionView section, SketchDecodeBuffers buffers,
                                 uint32_t bits, uint32_t* error) {
  if (ThisThread() != 0) return;
  const KeyLists& lists = buffers.lists;
  *buffers.layout_dev = {};
  if (!ReadSigns(section, buffers)) {
    atomicOr(error, bits);
    *buffers.layout_dev = {};
    for (uint32_t list = 0; list < kMaxSketchLists; ++list) {
      buffers.groups_dev[list] = {};
      lists.begins_dev[list] = lists.sizes_dev[list] = 0;
      buffers.key_begins_dev[list] = buffers.num_key_bytes_dev[list] = 0;
    }
  }
  PlaceLists(lists.sizes_dev, kMaxSketchLists, lists.first_tiles_dev);
}

// Used only to load.
__device__ BitPacking CellsOf(const unsigned char* section, const SketchGroup& group) {
  return BitPacking(const_cast<unsigned char*>(section) + group.cells_begin, BitsFor(group.width));
}

// ---- Checks ------------------------------------------------------------------------------------

__global__ void CheckMeansKernel(const unsigned char* section, const SketchLayout* layout,
                                 uint32_t bits, uint32_t* error) {
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    const unsigned char* means = section + layout->means_begin[sign];
    for (uint64_t i = ThisThread(); i < layout->num_buckets[sign]; i += NumThreads()) {
      // The bits of a negative number are greater than those of infinity.
      if (LoadUnaligned<uint32_t>(means + sizeof(float) * i) >= kFloatInfinityBits)
        atomicOr(error, bits);
    }
  }
}

// Checks cells that are numbers: words of a code are never out of range.
__global__ void CheckCellsKernel(KeyLists lists, uint64_t max_tiles, const unsigned char* section,
                                 const SketchGroup* groups, uint32_t bits, uint32_t* error) {
  if (*error != 0) return;
  const auto num_cells = [&](uint32_t list) {
    // With one bucket, numbers have no bits.
    return groups[list].width <= 1 || groups[list].has_code ? 0 : groups[list].num_cells;
  };
  ForEachOfLists(lists, max_tiles, num_cells, [&](uint64_t i, uint32_t list) {
    if (CellsOf(section, groups[list]).Load(i) >= groups[list].width) atomicOr(error, bits);
  });
}

// Checks that the keys of a list increase strictly and are below n, and that no key is in two
// lists.
__global__ void CheckKeysKernel(KeyLists lists, uint64_t max_tiles, const uint32_t* keys,
                                uint32_t n, uint32_t bits, uint32_t* error, uint32_t* words) {
  if (*error != 0) return;
  ForEachKey(lists, max_tiles, [&](uint64_t i, uint32_t list) {
    const uint32_t key = keys[i];
    bool valid = key < n && (i == lists.begins_dev[list] || keys[i - 1] < key);
    if (valid) {
      const uint32_t bit = 1u << (key % 32);
      valid = (atomicOr(&words[key / 32], bit) & bit) == 0;
    }
    if (!valid) atomicOr(error, bits);
  });
}

// ---- The sum -----------------------------------------------------------------------------------

__global__ void AddKeysKernel(KeyLists lists, uint64_t max_tiles, const uint32_t* keys,
                              const unsigned char* section, const uint16_t* coded_cells,
                              const SketchLayout* layout, const SketchGroup* groups, float scale,
                              const uint32_t* error, float* sum) {
  if (*error != 0) return;
  ForEachKey(lists, max_tiles, [&](uint64_t i, uint32_t list) {
    const SketchGroup& group = groups[list];
    const uint32_t sign = list / kMaxSketchGroups;
    uint32_t bucket = group.first_bucket;
    if (group.has_code) {
      const uint16_t* cells = coded_cells + group.first_cell;
      bucket += Query(group, layout->num_rows, keys[i], [&](uint64_t cell) { return cells[cell]; });
    } else if (group.width > 1) {
      const BitPacking cells = CellsOf(section, group);
      bucket +=
          Query(group, layout->num_rows, keys[i], [&](uint64_t cell) { return cells.Load(cell); });
    }
    const auto mean =
        LoadUnaligned<float>(section + layout->means_begin[sign] + sizeof(float) * bucket);
    sum[keys[i]] += scale * WithSign(mean, sign);
  });
}

// Decodes the keys of all lists and, for kSkcompress, the cells that have a code.
Status DecodeGroups(const SketchSectionView& section, const KeyLists& lists,
                    const SketchDecodeBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                    cudaStream_t stream) {
  const CodeSections sections = {section.data_dev, section.num_bytes, buffers.key_begins_dev,
                                 buffers.num_key_bytes_dev};
  if (section.kind == JointKind::kSketchml) {
    return DecodeDeltas(lists, sections, buffers.deltas, bits, error_dev, buffers.keys_dev, stream);
  }
  TFC_RETURN_IF_ERROR(DecodePrefixedDeltas(true, lists, sections, buffers.prefixed, bits, error_dev,
                                           buffers.keys_dev, stream));
  return ReadCodedCells({kMaxSketchLists, section.k, section.num_bytes}, buffers.prefixed.codes,
                        buffers.coded_cells, bits, error_dev, buffers.groups_dev, stream);
}

}  // namespace

void TakeSketchDecodeBuffers(const SketchExtent& extent, Workspace* workspace,
                             SketchDecodeBuffers* buffers) {
  const uint32_t max_k = extent.max_k;
  buffers->layout_dev = workspace->Take<SketchLayout>(1);
  buffers->groups_dev = workspace->Take<SketchGroup>(kMaxSketchLists);
  buffers->lists = TakeKeyLists(kMaxSketchLists, max_k, workspace);
  buffers->key_begins_dev = workspace->Take<uint64_t>(kMaxSketchLists);
  buffers->num_key_bytes_dev = workspace->Take<uint64_t>(kMaxSketchLists);
  buffers->keys_dev = workspace->Take<uint32_t>(max_k);
  buffers->max_buckets = std::min(max_k, kMaxSketchBuckets);
  if (extent.max_compressed.num_streams > 0) {
    // A sketch has no more columns than keys.
    TakeCellReadBuffers(kMaxSketchLists, buffers->max_buckets, uint64_t{kMaxSketchRows} * max_k,
                        workspace, &buffers->coded_cells);
    TakeDeltaReadBuffers(kMaxSketchLists, extent.max_compressed, workspace, &buffers->prefixed);
  }
  TakeDeltaBuffers(kMaxSketchLists, max_k, workspace, &buffers->deltas);
}

Status AddGroupedSketch(const SketchSectionView& section, float scale, const Marks& marks,
                        const SketchDecodeBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                        float* sum_dev, cudaStream_t stream) {
  KeyLists lists = buffers.lists;
  lists.max_keys = section.k;
  const uint64_t max_tiles = MaxKeyTiles(kMaxSketchLists, section.k);
  TFC_RETURN_IF_ERROR(Launch("read layout", ReadLayoutKernel, 1, kWarpThreads, stream, section,
                             buffers, bits, error_dev));
  TFC_RETURN_IF_ERROR(LaunchThreads("check means", CheckMeansKernel, section.k, stream,
                                    section.data_dev, buffers.layout_dev, bits, error_dev));
  TFC_RETURN_IF_ERROR(DecodeGroups(section, lists, buffers, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("check cells", CheckCellsKernel, max_tiles, stream, lists,
                                  max_tiles, section.data_dev, buffers.groups_dev, bits,
                                  error_dev));
  TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("check keys", CheckKeysKernel, max_tiles, stream, lists,
                                  max_tiles, buffers.keys_dev, section.n, bits, error_dev,
                                  marks.words_dev));
  return LaunchWarps("add keys", AddKeysKernel, max_tiles, stream, lists, max_tiles,
                     buffers.keys_dev, section.data_dev, buffers.coded_cells.cells_dev,
                     buffers.layout_dev, buffers.groups_dev, scale, error_dev, sum_dev);
}

}  // namespace device
}  // namespace tfcompress
