// Binary search by one thread.
#ifndef TFCOMPRESS_CUDA_BINARY_SEARCH_H_
#define TFCOMPRESS_CUDA_BINARY_SEARCH_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace tfcompress {
namespace device {

// Returns the first i of [begin, end) with is_after(i), or `end` if there is none. is_after() must
// be monotonic: false up to some i, true from there on.
template <typename IsAfter>
__device__ uint64_t FirstAfter(uint64_t begin, uint64_t end, const IsAfter& is_after) {
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    if (is_after(middle)) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BINARY_SEARCH_H_
