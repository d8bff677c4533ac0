// What the kernels of one encoding tell each other, and at the end the host.
#ifndef TFCOMPRESS_CUDA_ENCODE_STATE_H_
#define TFCOMPRESS_CUDA_ENCODE_STATE_H_

#include <cstdint>

namespace tfcompress {
namespace device {

struct EncodeState {
  uint32_t nonfinite;        // Not 0: the vector holds NaN or Inf, and nothing is selected.
  uint32_t too_long;         // Not 0: the frame would be longer than any may be.
  uint32_t k;                // Elements of the support; 0 in both of these cases.
  uint32_t min_magnitude;    // Elements from this magnitude on are marked.
  uint32_t prefix;           // The digits of the k-th largest magnitude that are known,
  uint32_t num_wanted;       // and which of those that share them it is, from the largest on.
  uint32_t num_index_bytes;  // Of the sections, of the whole frame; set before they are written.
  uint32_t num_value_bytes;
  uint64_t num_bytes;
  uint32_t section_crc;  // See crc32c.h.
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_ENCODE_STATE_H_
