// What the selection of the largest elements of a vector takes of the workspace.
#ifndef TFCOMPRESS_CUDA_SELECT_SPACE_H_
#define TFCOMPRESS_CUDA_SELECT_SPACE_H_

#include <cstdint>

namespace tfcompress {
namespace device {

struct SelectSpace {
  uint32_t* histograms_dev = nullptr;  // One for each digit (digits.h), of kMaxBuckets elements.
  uint32_t capacity = 0;               // Maximum number of candidates.
  uint32_t* indices_dev = nullptr;     // Candidates, with their magnitudes.
  uint32_t* magnitudes_dev = nullptr;
  uint64_t* kept_dev = nullptr;  // Kept elements of each tile of candidates.
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_SELECT_SPACE_H_
