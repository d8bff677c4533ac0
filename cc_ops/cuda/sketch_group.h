// The groups of a sketch, for kernels and for the code that sizes their buffers.
#ifndef TFCOMPRESS_CUDA_SKETCH_GROUP_H_
#define TFCOMPRESS_CUDA_SKETCH_GROUP_H_

#include <cstdint>

#include "core/float_order.h"
#include "core/host_device.h"
#include "core/joint/bucket_groups.h"
#include "cuda/ceil_div.h"

namespace tfcompress {
namespace device {

// A list of keys and its sketch. Lists are numbered section after section, sign after sign.
struct SketchGroup {
  uint64_t seed;
  uint32_t part;  // Of those side by side, the section that has the group.
  uint32_t sign;
  uint32_t width;         // Number of buckets; 0 if the group is absent.
  uint32_t first_bucket;  // First bucket, among those of its sign.
  uint64_t first_symbol;  // First bucket, among those of all signs and sections.
  uint32_t num_columns;
  uint64_t num_cells;
  uint64_t first_cell;      // First cell, among those of all groups.
  uint64_t num_key_bytes;   // Length of the written keys.
  uint64_t num_cell_bytes;  // Length of the written cells.
  uint64_t keys_begin;      // Positions of keys and cells.
  uint64_t cells_begin;
  bool has_code;              // Whether the cells are words of a Huffman code.
  uint32_t num_length_bytes;  // Bytes of the word lengths before the cells.
};

// Where what a frame may have begins in the buffers of all frames that are encoded side by side.
struct SketchPlace {
  uint32_t first_key;
  uint32_t first_tile;  // Of its elements.
  uint64_t first_cell;
  uint64_t first_byte;  // Of the section, in words; 0 for kSketchml.
};

// Upper bound of the lists in a section of k elements: each has a key, and a header.
TFC_HOST_DEVICE inline uint32_t MaxSketchLists(uint32_t k, uint64_t section_bytes) {
  constexpr uint32_t kMost = kNumSigns * kMaxSketchGroups;
  const uint64_t with_headers = section_bytes / kGroupHeaderBytes;
  const uint32_t with_keys = k < kMost ? k : kMost;
  return with_headers < with_keys ? static_cast<uint32_t>(with_headers) : with_keys;
}

// Upper bound of a sign's buckets in a section of k elements.
TFC_HOST_DEVICE inline uint32_t MaxSketchBuckets(uint32_t k) {
  return k < kMaxSketchBuckets ? k : kMaxSketchBuckets;
}

// What sections side by side have at most, and so, where what the next section has begins.
struct SketchExtent {
  // Grows by a section of k elements, in that many bytes.
  void Add(uint32_t k, uint64_t section_bytes) {
    ++num_sections;
    if (k == 0) return;
    num_lists += MaxSketchLists(k, section_bytes);
    num_keys += k;
    num_symbols += uint64_t{kNumSigns} * MaxSketchBuckets(k);
    num_bytes += CeilDiv(section_bytes, 4) * 4;
  }
  uint32_t num_sections;
  uint32_t num_lists;
  uint32_t num_keys;
  uint64_t num_symbols;  // Buckets of both signs.
  uint64_t num_bytes;    // Of sections in whole words.
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SKETCH_GROUP_H_
