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

// Takes numbers and bytes off the front of a section. Once there are too few, all is zero.
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
  // The number at a position that was passed.
  __device__ uint32_t At(uint64_t position) const {
    return LoadUnaligned<uint32_t>(data_ + position);
  }

 private:
  const unsigned char* data_;
  uint64_t num_bytes_;
  uint64_t position_ = 0;
  bool failed_ = false;
};

// What a section says of its lists.
struct ListTables {
  SketchGroup* groups;
  uint32_t* begins;
  uint32_t* sizes;
  uint32_t* first_tiles;
  uint64_t* key_begins;
  uint64_t* num_key_bytes;
};

// Reads one group, whose keys are no more than max_keys; false where there is none.
__device__ bool ReadGroup(uint32_t num_rows, uint32_t max_keys, SectionReader* reader,
                          SketchGroup* group, uint32_t* num_keys, uint64_t* num_key_bytes) {
  const uint32_t num_bytes = reader->Read();
  const uint64_t begin = reader->position();
  if (!reader->Skip(num_bytes) || num_bytes < 2 * sizeof(uint32_t)) return false;
  const uint64_t end = reader->position();
  *num_keys = reader->At(begin);
  group->num_columns = reader->At(begin + sizeof(uint32_t));
  group->keys_begin = begin + 2 * sizeof(uint32_t);
  if (group->num_columns == 0 || group->num_columns > *num_keys || *num_keys > max_keys)
    return false;
  const uint64_t num_cell_bytes = PackedBytes(NumCells(*group, num_rows), BitsFor(group->width));
  if (group->keys_begin + NumFlagBytes(*num_keys) + *num_keys + num_cell_bytes > end) return false;
  group->cells_begin = end - num_cell_bytes;
  *num_key_bytes = group->cells_begin - group->keys_begin;
  return true;
}

// Reads the groups of one sign, and adds up how many keys they have.
__device__ bool ReadSign(const SketchSectionView& section, uint32_t sign, uint32_t max_groups,
                         SectionReader* reader, SketchLayout* layout, const ListTables& tables,
                         uint32_t* num_keys) {
  const uint32_t num_buckets = reader->Read();
  if (num_buckets > section.k || num_buckets > kMaxSketchBuckets) return false;
  layout->num_buckets[sign] = num_buckets;
  layout->means_begin[sign] = reader->position();
  if (!reader->Skip(sizeof(float) * uint64_t{num_buckets})) return false;
  const BucketGroups groups(num_buckets, max_groups);
  for (uint32_t number = 0; number < groups.num_groups; ++number) {
    const uint32_t list = sign * kMaxSketchGroups + number;
    SketchGroup group{};
    group.seed = GroupSketchSeed(sign, number, section.seed);
    group.width = groups.Width(number);
    group.first_bucket = groups.FirstBucket(number);
    uint32_t size = 0;
    if (!ReadGroup(layout->num_rows, section.k - *num_keys, reader, &group, &size,
                   &tables.num_key_bytes[list]))
      return false;
    tables.groups[list] = group;
    tables.key_begins[list] = group.keys_begin;
    tables.begins[list] = *num_keys;
    tables.sizes[list] = size;
    *num_keys += size;
  }
  return true;
}

__device__ bool ReadSigns(const SketchSectionView& section, SketchLayout* layout,
                          const ListTables& tables) {
  SectionReader reader(section.data_dev, section.num_bytes);
  layout->num_rows = reader.Read();
  const uint32_t max_groups = reader.Read();
  if (layout->num_rows < 1 || layout->num_rows > kMaxSketchRows || max_groups < 1 ||
      max_groups > kMaxSketchGroups)
    return false;
  uint32_t num_keys = 0;
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    if (!ReadSign(section, sign, max_groups, &reader, layout, tables, &num_keys)) return false;
  }
  return num_keys == section.k && reader.at_end();
}

// One thread: there are few lists. A section that is none has no keys.
__global__ void ReadLayoutKernel(SketchSectionView section, uint32_t bits, uint32_t* error,
                                 SketchLayout* layout, ListTables tables) {
  if (ThisThread() != 0) return;
  *layout = {};
  for (uint32_t list = 0; list < kMaxSketchLists; ++list) {
    tables.groups[list] = {};
    tables.sizes[list] = 0;
    tables.begins[list] = 0;
    tables.key_begins[list] = 0;
    tables.num_key_bytes[list] = 0;
  }
  if (!ReadSigns(section, layout, tables)) {
    atomicOr(error, bits);
    *layout = {};
    for (uint32_t list = 0; list < kMaxSketchLists; ++list) {
      tables.groups[list] = {};
      tables.sizes[list] = 0;
    }
  }
  PlaceLists(tables.sizes, kMaxSketchLists, tables.first_tiles);
}

// For loading: nothing is stored to it here.
__device__ BitPacking CellsOf(const unsigned char* section, const SketchGroup& group) {
  return BitPacking(const_cast<unsigned char*>(section) + group.cells_begin, BitsFor(group.width));
}

// ---- Checks ------------------------------------------------------------------------------------

__global__ void CheckMeansKernel(const unsigned char* section, const SketchLayout* layout,
                                 uint32_t bits, uint32_t* error) {
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    const unsigned char* means = section + layout->means_begin[sign];
    for (uint64_t i = ThisThread(); i < layout->num_buckets[sign]; i += NumThreads()) {
      // The bits of a number with a sign are greater than those of infinity.
      if (LoadUnaligned<uint32_t>(means + sizeof(float) * i) >= kFloatInfinityBits)
        atomicOr(error, bits);
    }
  }
}

__global__ void CheckCellsKernel(KeyLists lists, uint64_t max_tiles, const unsigned char* section,
                                 const SketchLayout* layout, const SketchGroup* groups,
                                 uint32_t bits, uint32_t* error) {
  const auto num_cells = [&](uint32_t list) {
    // Numbers of one bucket take no bits.
    return groups[list].width <= 1 ? 0 : NumCells(groups[list], layout->num_rows);
  };
  ForEachOfLists(lists, max_tiles, num_cells, [&](uint64_t i, uint32_t list) {
    if (CellsOf(section, groups[list]).Load(i) >= groups[list].width) atomicOr(error, bits);
  });
}

// The keys of a list increase strictly and are below n; none is in two lists.
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
                              const unsigned char* section, const SketchLayout* layout,
                              const SketchGroup* groups, float scale, const uint32_t* error,
                              float* sum) {
  if (*error != 0) return;
  ForEachKey(lists, max_tiles, [&](uint64_t i, uint32_t list) {
    const SketchGroup& group = groups[list];
    const uint32_t sign = list / kMaxSketchGroups;
    uint32_t bucket = group.first_bucket;
    if (group.width > 1) {
      const BitPacking cells = CellsOf(section, group);
      bucket +=
          Query(group, layout->num_rows, keys[i], [&](uint64_t cell) { return cells.Load(cell); });
    }
    const auto mean =
        LoadUnaligned<float>(section + layout->means_begin[sign] + sizeof(float) * bucket);
    sum[keys[i]] += scale * WithSign(mean, sign);
  });
}

}  // namespace

Status TakeSketchDecodeBuffers(uint32_t max_k, Workspace* workspace, SketchDecodeBuffers* buffers) {
  buffers->layout_dev = workspace->Take<SketchLayout>(1);
  buffers->groups_dev = workspace->Take<SketchGroup>(kMaxSketchLists);
  buffers->list_begins_dev = workspace->Take<uint32_t>(kMaxSketchLists);
  buffers->list_sizes_dev = workspace->Take<uint32_t>(kMaxSketchLists);
  buffers->list_first_tiles_dev = workspace->Take<uint32_t>(kMaxSketchLists + 1);
  buffers->key_begins_dev = workspace->Take<uint64_t>(kMaxSketchLists);
  buffers->num_key_bytes_dev = workspace->Take<uint64_t>(kMaxSketchLists);
  buffers->keys_dev = workspace->Take<uint32_t>(max_k);
  return TakeDeltaBuffers(kMaxSketchLists, max_k, workspace, &buffers->deltas);
}

Status AddGroupedSketch(const SketchSectionView& section, float scale, const Marks& marks,
                        const SketchDecodeBuffers& buffers, uint32_t bits, uint32_t* error_dev,
                        float* sum_dev, cudaStream_t stream) {
  const ListTables tables = {buffers.groups_dev,     buffers.list_begins_dev,
                             buffers.list_sizes_dev, buffers.list_first_tiles_dev,
                             buffers.key_begins_dev, buffers.num_key_bytes_dev};
  const KeyLists lists = {buffers.list_begins_dev, buffers.list_sizes_dev,
                          buffers.list_first_tiles_dev, kMaxSketchLists, section.k};
  const uint64_t max_tiles = MaxKeyTiles(kMaxSketchLists, section.k);
  TFC_RETURN_IF_ERROR(Launch("read layout", ReadLayoutKernel, 1, kWarpThreads, stream, section,
                             bits, error_dev, buffers.layout_dev, tables));
  TFC_RETURN_IF_ERROR(LaunchThreads("check means", CheckMeansKernel, section.k, stream,
                                    section.data_dev, buffers.layout_dev, bits, error_dev));
  TFC_RETURN_IF_ERROR(LaunchWarps("check cells", CheckCellsKernel, max_tiles, stream, lists,
                                  max_tiles, section.data_dev, buffers.layout_dev,
                                  buffers.groups_dev, bits, error_dev));
  TFC_RETURN_IF_ERROR(
      DecodeDeltas(lists, {section.data_dev, 0, buffers.key_begins_dev, buffers.num_key_bytes_dev},
                   buffers.deltas, bits, error_dev, buffers.keys_dev, stream));
  TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("check keys", CheckKeysKernel, max_tiles, stream, lists,
                                  max_tiles, buffers.keys_dev, section.n, bits, error_dev,
                                  marks.words_dev));
  return LaunchWarps("add keys", AddKeysKernel, max_tiles, stream, lists, max_tiles,
                     buffers.keys_dev, section.data_dev, buffers.layout_dev, buffers.groups_dev,
                     scale, error_dev, sum_dev);
}

}  // namespace device
}  // namespace tfcompress
