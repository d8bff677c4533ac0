// Listing the elements whose magnitude reaches a bound: what `nonzero`, `threshold` and `topk`
// share.
#ifndef TFCOMPRESS_CORE_COLLECT_H_
#define TFCOMPRESS_CORE_COLLECT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "core/executor.h"
#include "core/span.h"

namespace tfcompress {

struct FloatFilter;
struct FloatList;

// Elements of a vector, ascending.
struct Candidates {
  std::vector<uint32_t> indices;
  std::vector<float> values;
};

// Lists every element with MagnitudeBits >= min_magnitude, which is at most 2^31, chunk by chunk,
// while the vector is made: no pass of its own over memory. What it finds lies in a few slabs,
// whatever n, each twice as large as the one before.
class Collector {
 public:
  static constexpr int64_t kChunk = 4096;  // 16 KiB of floats: they stay in a core's L1.

  Collector(int64_t n, uint32_t min_magnitude);

  // What is looked for.
  FloatFilter filter() const;
  // Copies what was found in chunk [begin, end), whose elements are values[0], values[1], ... and
  // stay where and what they are until Take. `begin` is a multiple of kChunk. From several threads
  // at once.
  void Keep(int64_t begin, int64_t end, const float* values, const FloatList& found);
  // The number of elements found.
  size_t size() const;
  Candidates Take();

 private:
  struct Slab {
    std::unique_ptr<uint32_t[]> indices;
    std::unique_ptr<float[]> values;
  };
  // What was found in some consecutive elements; borrows from a slab, or, where all of them are
  // listed, from the vector, without indices.
  struct Piece {
    size_t count = 0;
    const uint32_t* indices = nullptr;
    const float* values = nullptr;
  };

  Piece Copy(const FloatList& found);

  uint32_t min_magnitude_;
  std::mutex mutex_;        // Of the slabs.
  std::deque<Slab> slabs_;  // Which stay where they are.
  size_t num_free_ = 0;     // Of the last slab, in front.
  size_t next_slab_size_;
  std::vector<Piece> pieces_;
};

// The same for a vector that exists already.
Candidates CollectAtLeast(Span<const float> dense, uint32_t min_magnitude, Executor* executor);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_COLLECT_H_
