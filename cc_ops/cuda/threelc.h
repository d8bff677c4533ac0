// The joint codec threelc on the device (3LC, section 3; FORMAT.md, "threelc"): digits of the dense
// vector, five in a byte, and runs of zeros, which lanes find side by side from where they begin.
#ifndef TFCOMPRESS_CUDA_THREELC_H_
#define TFCOMPRESS_CUDA_THREELC_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/joint/quartic.h"
#include "core/status.h"
#include "cuda/encode_state.h"
#include "cuda/sent_slots.h"
#include "cuda/value_statistics.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

struct ThreelcState {
  ThreeValues values;
  uint32_t num_sent;         // Digits that are not 0.
  uint64_t num_value_bytes;  // Of the section.
};

// For vectors of n elements.
struct ThreelcBuffers {
  ThreelcState* state_dev;
  Extremes* extremes_dev;
  unsigned char* quartic_dev;  // Whole tiles.
  uint32_t* lasts_dev;         // Of each tile: the bytes up to the last one that is no five zeros.
  uint64_t* ends_dev;          // Coded bytes of each tile, then before it.
  DeviceBuffer scan_storage;
};
Status TakeThreelcBuffers(uint32_t n, Workspace* workspace, ThreelcBuffers* buffers);

// Makes digits of the vector that `values` are chosen from, and zeros of what is not chosen; sets
// state_dev->k to the digits that are not 0, and the length of the section in buffers.state_dev.
Status PrepareThreelc(const SelectedValues& values, uint32_t max_k, double multiplier,
                      const ThreelcBuffers& buffers, EncodeState* state_dev, cudaStream_t stream);
// Writes the section, and takes what it decodes to out of the slots.
Status WriteThreelc(uint32_t n, const ThreelcBuffers& buffers, const EncodeState* state_dev,
                    const SentSlots& slots, unsigned char* frame_dev, cudaStream_t stream);

// For decoding sections of up to max_bytes.
struct ThreelcDecodeBuffers {
  ThreelcState* state_dev;
  uint64_t* ends_dev;  // Quartic bytes of each tile of coded ones, then before it.
  DeviceBuffer scan_storage;
};
Status TakeThreelcDecodeBuffers(uint64_t max_bytes, Workspace* workspace,
                                ThreelcDecodeBuffers* buffers);

// Adds scale times the k elements of a section of a vector of n to sum_dev. Sets bits of *error_dev
// where it is none; does nothing where one is set before. A section has no more than
// MaxThreelcBytes(n) bytes, and more than those of its scale.
Status AddThreelc(const unsigned char* section_dev, uint64_t num_bytes, uint32_t n, uint32_t k,
                  float scale, const ThreelcDecodeBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, float* sum_dev, cudaStream_t stream);

inline uint64_t MaxThreelcBytes(uint32_t n) {
  return sizeof(float) + static_cast<uint64_t>(NumQuarticBytes(n));
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_THREELC_H_
