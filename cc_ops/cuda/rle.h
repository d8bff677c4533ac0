// The index codec rle on the device: run lengths of the bitmap as Rice codes. core/index/rle.cc.
//
// Reading: a code may be longer than any tile of bits. But what of it reaches into a tile is little
// to know: whether the next unary part is that of zeros or of ones, and how many bits of a last
// part are left before it. These are at most 64 states, so each tile says where it takes each of
// them (state_maps.h), and then counts its codes, a code being in the tile that has the end of its
// unary part. Where that part begins, the last tile before that has a code tells.
#ifndef TFCOMPRESS_CUDA_RLE_H_
#define TFCOMPRESS_CUDA_RLE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/index/rice.h"
#include "core/status.h"
#include "cuda/code_blocks.h"
#include "cuda/state_maps.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// ---- Writing ------------------------------------------------------------------------------------

struct RleWriteBuffers {
  uint64_t* num_starts_dev;  // Runs that begin in each tile of indices, then those before it.
  DeviceBuffer scan_storage;
  uint32_t* starts_dev;      // Which index begins each run of ones.
  uint32_t* bit_counts_dev;  // kNumberBits for zeros and for ones: numbers that have each bit set.
  RleHeader* header_dev;
  CodeWriteBuffers codes;

  const uint64_t* num_bytes_dev() const { return &codes.sizes_dev->num_bytes; }
};

// For up to max_k of n indices.
Status TakeRleWriteBuffers(uint32_t n, uint32_t max_k, Workspace* workspace,
                           RleWriteBuffers* buffers);

// Finds the runs, the parameters and the length of the section of the *k_dev indices.
Status MeasureRuns(const uint32_t* indices_dev, const uint32_t* k_dev,
                   const RleWriteBuffers& buffers, cudaStream_t stream);
// Writes the section, once it is measured. Does nothing where *k_dev is 0 by now.
Status WriteRuns(const uint32_t* indices_dev, const uint32_t* k_dev, const RleWriteBuffers& buffers,
                 unsigned char* section_dev, cudaStream_t stream);

// ---- Reading ------------------------------------------------------------------------------------

struct RleReading {
  RleHeader header;
  uint32_t num_states;
};

// Of k indices in a section of num_bytes bytes: its items are runs, and a stream is a block of
// them.
CodeExtent RleExtentOf(uint64_t k, uint64_t num_bytes);

struct RleReadBuffers {
  RleReading* reading_dev;
  CodeHead* head_dev;
  uint32_t* words_dev;
  CodeStream* streams_dev;
  StateMaps maps;
  uint32_t* code_ends_dev;  // Of each tile: where the last of its codes ends, in bits after it.
  uint64_t* counts_dev;     // Codes of each tile, then those before it,
  uint64_t* zeros_dev;      // and what they tell: how many zeros there are,
  uint64_t* ones_dev;       // and how many ones.
  uint32_t* run_zeros_dev;  // Of each run of ones: all zeros before it,
  uint32_t* run_ones_dev;   // and all ones.
  DeviceBuffer scan_storage;
};

// For sections of that extent.
Status TakeRleReadBuffers(const CodeExtent& max_extent, Workspace* workspace,
                          RleReadBuffers* buffers);

// A section of k > 0 of n indices.
struct RleSectionView {
  const unsigned char* data_dev;
  uint64_t num_bytes;
  uint32_t n;
  uint32_t k;
};

// Overwrites indices_dev with those of a section: they increase strictly and are below n. Sets bits
// of *error_dev where there are none such; does nothing where one is set before.
Status ReadRuns(const RleSectionView& section, const RleReadBuffers& buffers, uint32_t bits,
                uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_RLE_H_
