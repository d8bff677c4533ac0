// State that the kernels of one encoding share with each other, and at the end with the host.
#ifndef TFCOMPRESS_CUDA_ENCODE_STATE_H_
#define TFCOMPRESS_CUDA_ENCODE_STATE_H_

#include <cstdint>

namespace tfcompress {
namespace device {

// The sum of the remainders that blocks find, and how many have; 0 before. See crc32c.h.
struct SectionRemainder {
  uint32_t crc;
  uint32_t num_done;
};

struct EncodeState {
  uint32_t nonfinite;        // Not 0 if the vector holds NaN or Inf; nothing is selected then.
  uint32_t too_long;         // Not 0 if the frame would exceed the maximum length.
  uint32_t k;                // Elements of the support; 0 if nonfinite or too_long.
  uint32_t min_magnitude;    // Elements of at least this magnitude are marked.
  uint32_t prefix;           // Known digits of the k-th largest magnitude.
  uint32_t num_wanted;       // Its rank among the magnitudes with that prefix, largest first.
  uint32_t num_index_bytes;  // Lengths of the sections and the frame; set before they are written.
  uint32_t num_value_bytes;
  uint64_t num_bytes;
  SectionRemainder sections;
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_ENCODE_STATE_H_
