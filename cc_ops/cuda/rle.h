// The index codec rle on the device: run lengths of the bitmap as Rice codes. core/index/rle.cc.
//
// Reading: a code may be longer than any tile of bits, but a tile can be read knowing only whether
// the next unary part is of a run of zeros or of ones, and how many bits of the code before precede
// it. These are at most 64 states, so each tile maps every state at its begin to the state at its
// end (state_maps.h). Then each tile counts its codes; a code belongs to the tile with the end of
// its unary part. That part begins after the last code of the last tile before that has one.
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
  uint64_t* num_starts_dev;  // Runs that begin in each tile of indices; after the scan, before it.
  DeviceBuffer scan_storage;
  uint32_t* starts_dev;      // Position of the index that begins each run of ones.
  uint32_t* bit_counts_dev;  // Numbers with each bit set: kNumberBits for zeros and for ones.
  RleHeader* header_dev;
  CodeWriteBuffers codes;

  const uint64_t* num_bytes_dev() const { return &codes.sizes_dev->num_bytes; }
};

// Takes buffers for up to max_k of n indices.
Status TakeRleWriteBuffers(uint32_t n, uint32_t max_k, Workspace* workspace,
                           RleWriteBuffers* buffers);

// Finds the runs, the parameters and the length of the section of the *k_dev indices.
Status MeasureRuns(const uint32_t* indices_dev, const uint32_t* k_dev,
                   const RleWriteBuffers& buffers, cudaStream_t stream);
// Writes the measured section. Does nothing if *k_dev is 0.
Status WriteRuns(const uint32_t* indices_dev, const uint32_t* k_dev, const RleWriteBuffers& buffers,
                 unsigned char* section_dev, cudaStream_t stream);

// ---- Reading ------------------------------------------------------------------------------------

struct RleReading {
  RleHeader header;
  uint32_t num_states;
};

// Extent of k indices in a section of num_bytes bytes: items are runs, a stream is a block of runs.
CodeExtent RleExtentOf(uint64_t k, uint64_t num_bytes);

struct RleReadBuffers {
  RleReading* reading_dev;
  CodeHead* head_dev;
  uint32_t* words_dev;
  CodeStream* streams_dev;
  StateMaps maps;
  uint32_t* code_ends_dev;  // End of the last code of each tile, in bits after the tile.
  uint64_t* counts_dev;     // Codes of each tile; after the scan, before it.
  uint64_t* zeros_dev;      // Zeros that the codes of each tile stand for.
  uint64_t* ones_dev;       // Ones that the codes of each tile stand for.
  uint32_t* run_zeros_dev;  // All zeros before each run of ones.
  uint32_t* run_ones_dev;   // All ones before each run of ones.
  DeviceBuffer scan_storage;
};

// Takes buffers for sections of that extent.
Status TakeRleReadBuffers(const CodeExtent& max_extent, Workspace* workspace,
                          RleReadBuffers* buffers);

// A section with k > 0 of n indices.
struct RleSectionView {
  const unsigned char* data_dev;
  uint64_t num_bytes;
  uint32_t n;
  uint32_t k;
};

// Decodes a section into indices_dev: they increase strictly and are below n. Sets bits of
// *error_dev if the section is invalid; does nothing if an error is set before.
Status ReadRuns(const RleSectionView& section, const RleReadBuffers& buffers, uint32_t bits,
                uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_RLE_H_
