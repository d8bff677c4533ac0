#include "core/entropy/delta_bytes.h"
#include "cuda/bit_words.h"
#include "cuda/launch.h"
#include "cuda/raw_bytes.h"
#include "cuda/scan.h"
#include "cuda/sketch_reading.h"

namespace tfcompress {
namespace device {
namespace {

// Brings sections to whole words; padding after the last one.
__global__ void LoadSectionsKernel(const SupportSection* sections, uint32_t* words) {
  const SupportSection& section = sections[blockIdx.y];
  const uint64_t num_bytes = section.k == 0 ? 0 : section.num_bytes;
  const uint64_t num_words =
      CeilDiv(num_bytes, 4) + (blockIdx.y + 1 == gridDim.y ? kPaddingWords : 0);
  LoadBytes(section.data_dev, num_bytes, num_words, words + section.before.num_bytes / 4);
}

// Reads numbers and bytes from the front of a section. Past the end it returns zeros.
class SectionReader {
 public:
  __device__ SectionReader(const unsigned char* codes, uint64_t begin, uint64_t num_bytes)
      : codes_(codes), position_(begin), end_(begin + num_bytes) {}

  __device__ uint64_t position() const { return position_; }
  __device__ bool at_end() const { return !failed_ && position_ == end_; }

  __device__ bool Skip(uint64_t num_bytes) {
    failed_ = failed_ || num_bytes > end_ - position_;
    if (!failed_) position_ += num_bytes;
    return !failed_;
  }
  __device__ uint32_t Read() {
    const uint64_t begin = position_;
    return Skip(sizeof(uint32_t)) ? At(begin) : 0;
  }
  // The number at a position that has been read past.
  __device__ uint32_t At(uint64_t position) const {
    return LoadUnaligned<uint32_t>(codes_ + position);
  }

 private:
  const unsigned char* codes_;
  uint64_t position_;
  uint64_t end_;
  bool failed_ = false;
};

// Lists, keys and cells before a group, of all sections.
struct ListCounts {
  uint32_t num_lists;
  uint32_t num_keys;
  uint64_t num_cells;
};

__device__ ListCounts CountsBefore(const SupportSection& section) {
  // A sketch has no more columns than keys.
  return {section.before.num_lists, section.before.num_keys,
          uint64_t{kMaxSketchRows} * section.before.num_keys};
}

__device__ void SetList(const SketchDecodeBuffers& buffers, const ListCounts& before,
                        const SketchGroup& group, uint32_t num_keys) {
  buffers.groups_dev[before.num_lists] = group;
  buffers.key_begins_dev[before.num_lists] = group.keys_begin;
  buffers.num_key_bytes_dev[before.num_lists] = group.num_key_bytes;
  buffers.lists.Set(before.num_lists, before.num_keys, num_keys);
}

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

// Reads the groups of one sign, and counts what they have.
__device__ bool ReadSign(const SketchReading& sketch, uint32_t part, uint32_t sign,
                         uint32_t max_groups, SectionReader* reader, ListCounts* counts) {
  const SupportSection& section = sketch.sections[part];
  SketchLayout* layout = &sketch.buffers.layouts_dev[part];
  const uint32_t num_buckets = reader->Read();
  const uint32_t max_buckets = MaxSketchBuckets(section.k);
  if (num_buckets > max_buckets) return false;
  layout->num_buckets[sign] = num_buckets;
  layout->means_begin[sign] = reader->position();
  if (!reader->Skip(sizeof(float) * uint64_t{num_buckets})) return false;
  const BucketGroups groups(num_buckets, max_groups);
  const uint32_t end_key = section.before.num_keys + section.k;
  for (uint32_t number = 0; number < groups.num_groups; ++number) {
    SketchGroup group{};
    group.seed = GroupSketchSeed(sign, number, section.seed);
    group.part = part;
    group.sign = sign;
    group.width = groups.Width(number);
    group.first_bucket = groups.FirstBucket(number);
    group.first_symbol = section.before.num_symbols + sign * max_buckets + group.first_bucket;
    group.first_cell = counts->num_cells;
    uint32_t num_keys = 0;
    if (!ReadGroup(sketch.kind, layout->num_rows, end_key - counts->num_keys, reader, &group,
                   &num_keys))
      return false;
    SetList(sketch.buffers, *counts, group, num_keys);
    ++counts->num_lists;
    counts->num_keys += num_keys;
    counts->num_cells += group.num_cells;
  }
  return true;
}

__device__ bool ReadSigns(const SketchReading& sketch, uint32_t part, SectionReader* reader,
                          ListCounts* counts) {
  const SupportSection& section = sketch.sections[part];
  const uint32_t num_rows = sketch.buffers.layouts_dev[part].num_rows = reader->Read();
  const uint32_t max_groups = reader->Read();
  if (num_rows < 1 || num_rows > kMaxSketchRows || max_groups < 1 || max_groups > kMaxSketchGroups)
    return false;
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    if (!ReadSign(sketch, part, sign, max_groups, reader, counts)) return false;
  }
  return counts->num_keys == section.before.num_keys + section.k && reader->at_end();
}

// Reads the layout of a section, on one thread: there are few groups. Returns what there is up to
// its end, which is its beginning if it is invalid.
__device__ ListCounts ReadLayout(const SketchReading& sketch, uint32_t part, uint64_t* end) {
  const SupportSection& section = sketch.sections[part];
  ListCounts counts = CountsBefore(section);
  sketch.buffers.layouts_dev[part] = {};
  if (section.k == 0) return counts;
  *end = sketch.BeginOf(section);
  if (*section.error_dev != 0) return counts;
  SectionReader reader(sketch.codes, *end, section.num_bytes);
  if (ReadSigns(sketch, part, &reader, &counts)) {
    *end = reader.position();
    return counts;
  }
  sketch.SetError(part);
  sketch.buffers.layouts_dev[part] = {};
  return CountsBefore(section);
}

// One warp per section. Lists that it may have and has not are empty and stand at its end.
__global__ void ReadLayoutsKernel(SketchReading sketch) {
  for (uint64_t i = ThisWarp(); i < sketch.num_sections; i += NumWarps()) {
    const auto part = static_cast<uint32_t>(i);
    const SupportSection& section = sketch.sections[part];
    ListCounts counts{};
    SketchGroup absent{};
    if (ThisLane() == 0) counts = ReadLayout(sketch, part, &absent.keys_begin);
    counts.num_lists = __shfl_sync(kAllLanes, counts.num_lists, 0) + ThisLane();
    counts.num_keys = __shfl_sync(kAllLanes, counts.num_keys, 0);
    absent.keys_begin = __shfl_sync(kAllLanes, absent.keys_begin, 0);
    __syncwarp();
    const uint32_t end = section.before.num_lists + MaxSketchLists(section.k, section.num_bytes);
    for (; counts.num_lists < end; counts.num_lists += kWarpThreads)
      SetList(sketch.buffers, counts, absent, 0);
  }
}

}  // namespace

Status ReadLayouts(const SketchReading& sketch, const Parts<SupportSection>& sections,
                   cudaStream_t stream) {
  if (sketch.kind == JointKind::kSkcompress) {
    const auto num_words = [](const SupportSection& section) {
      return section.k == 0 ? 0 : NumSectionWords(section.num_bytes);
    };
    TFC_RETURN_IF_ERROR(LaunchParts(
        "load sections", LoadSectionsKernel, CountItems(sections.on_host, num_words),
        sections.size(), stream, sections.data_dev, sketch.buffers.prefixed.codes.words_dev));
  }
  TFC_RETURN_IF_ERROR(
      LaunchWarps("read layouts", ReadLayoutsKernel, sections.size(), stream, sketch));
  const KeyLists& lists = sketch.buffers.lists;
  return ScanCounts(lists.first_tiles_dev, lists.num_lists, stream);
}

}  // namespace device
}  // namespace tfcompress
