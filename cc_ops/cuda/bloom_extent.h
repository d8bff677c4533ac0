// What decoding index sections of `bloom` needs room for; for hosts, too.
#ifndef TFCOMPRESS_CUDA_BLOOM_EXTENT_H_
#define TFCOMPRESS_CUDA_BLOOM_EXTENT_H_

#include <cstdint>

#include "core/span.h"

namespace tfcompress {
namespace device {

// Maxima over sections of p1 and p2.
struct BloomExtent {
  uint32_t max_n = 0;
  uint32_t max_k = 0;
  uint64_t max_bits = 0;

  // Covers a section, if it is one of these.
  void Cover(ByteSpan section, uint32_t n, uint32_t k);
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BLOOM_EXTENT_H_
