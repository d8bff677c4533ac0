// The joint codec threelc on the device (3LC, section 3; FORMAT.md, "threelc"): digits of the dense
// vector, five in a byte, and runs of zeros, which lanes find in parallel.
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
  uint64_t num_value_bytes;  // Length of the section.
};

// Buffers for encoding vectors of n elements.
struct ThreelcBuffers {
  ThreelcState* state_dev;
  Extremes* extremes_dev;
  unsigned char* quartic_dev;  // Padded to whole tiles.
  uint32_t* lasts_dev;         // Bytes of each tile up to the last one that is not five zeros.
  uint64_t* ends_dev;          // Coded bytes of each tile; after the scan, before it.
  DeviceBuffer scan_storage;
};
Status TakeThreelcBuffers(uint32_t n, Workspace* workspace, ThreelcBuffers* buffers);

// Quantizes the vector to digits, with 0 for elements outside `values`; sets state_dev->k to the
// number of digits that are not 0, and the length of the section in buffers.state_dev.
Status PrepareThreelc(const SelectedValues& values, uint32_t max_k, double multiplier,
                      const ThreelcBuffers& buffers, EncodeState* state_dev, cudaStream_t stream);
// Writes the section, and subtracts its decoded values from the slots.
Status WriteThreelc(uint32_t n, const ThreelcBuffers& buffers, const EncodeState* state_dev,
                    const SentSlots& slots, unsigned char* frame_dev, cudaStream_t stream);

// Buffers for decoding sections of up to max_bytes.
struct ThreelcDecodeBuffers {
  ThreelcState* state_dev;
  uint64_t* ends_dev;  // Quartic bytes of each tile of coded ones; after the scan, before it.
  DeviceBuffer scan_storage;
};
Status TakeThreelcDecodeBuffers(uint64_t max_bytes, Workspace* workspace,
                                ThreelcDecodeBuffers* buffers);

// Adds scale times the k elements of a section, of a vector of n, to sum_dev. Sets bits of
// *error_dev if the section is invalid; does nothing if an error is set before. The section must
// have more bytes than its scale, and at most MaxThreelcBytes(n).
Status AddThreelc(const unsigned char* section_dev, uint64_t num_bytes, uint32_t n, uint32_t k,
                  float scale, const ThreelcDecodeBuffers& buffers, uint32_t bits,
                  uint32_t* error_dev, float* sum_dev, cudaStream_t stream);

inline uint64_t MaxThreelcBytes(uint32_t n) {
  return sizeof(float) + static_cast<uint64_t>(NumQuarticBytes(n));
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_THREELC_H_
