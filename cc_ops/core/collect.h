// Listing the elements whose magnitude reaches a bound: what `nonzero`, `threshold` and `topk`
// share.
#ifndef TFCOMPRESS_CORE_COLLECT_H_
#define TFCOMPRESS_CORE_COLLECT_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/executor.h"
#include "core/host_device.h"
#include "core/span.h"

namespace tfcompress {

// |x| as an integer. Finite floats are ordered by magnitude exactly as these integers are.
TFC_HOST_DEVICE inline uint32_t MagnitudeBits(float x) {
  return LoadUnaligned<uint32_t>(&x) & 0x7FFFFFFF;
}

// Elements of a vector, ascending.
struct Candidates {
  std::vector<uint32_t> indices;
  std::vector<float> values;
};

// Lists every element with MagnitudeBits >= min_magnitude, which is at most 2^31. Is shown the
// vector chunk by chunk, right after each was made: no pass of its own over memory.
class Collector {
 public:
  Collector(int64_t n, uint32_t min_magnitude)
      : min_magnitude_(min_magnitude), parts_(static_cast<size_t>(NumBlocks(n))) {}

  // Elements [begin, end), which are values[0], values[1], ... and stay where and what they are
  // until Take. Calls within one of ForEachBlock's blocks come from one thread and ascend.
  void Look(int64_t begin, int64_t end, const float* values);
  Candidates Take();

 private:
  // What is listed of a block.
  struct Part {
    const float* values = nullptr;  // Of the block.
    int64_t num_first = 0;          // The first ones, all of which are listed, are not copied yet.
    Candidates others;
  };

  uint32_t min_magnitude_;
  std::vector<Part> parts_;
};

// The same for a vector that exists already.
Candidates CollectAtLeast(Span<const float> dense, uint32_t min_magnitude, Executor* executor);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_COLLECT_H_
