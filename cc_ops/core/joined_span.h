// Several float vectors viewed as one, end to end, without a copy.
#ifndef TFCOMPRESS_CORE_JOINED_SPAN_H_
#define TFCOMPRESS_CORE_JOINED_SPAN_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/executor.h"
#include "core/finite.h"
#include "core/span.h"

namespace tfcompress {

class JoinedSpan {
 public:
  JoinedSpan(Span<const float> whole) : JoinedSpan(std::vector{whole}) {}                // NOLINT
  JoinedSpan(const std::vector<float>& whole) : JoinedSpan(Span<const float>(whole)) {}  // NOLINT
  explicit JoinedSpan(std::vector<Span<const float>> parts) : parts_(std::move(parts)) {
    for (const Span<const float>& part : parts_) {
      begins_.push_back(size_);
      size_ += static_cast<int64_t>(part.size());
    }
  }

  int64_t size() const { return size_; }

  // Calls body(first, piece) for the piece of each part that is in [begin, end), in order; piece[0]
  // is element `first`, and no piece is empty.
  template <typename Body>
  void ForEachPiece(int64_t begin, int64_t end, const Body& body) const {
    if (begin >= end) return;
    // The last part that begins at or before `begin`; empty ones share their begin with the next.
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
    for (auto i = static_cast<size_t>(after - begins_.begin()) - 1; begin < end; ++i) {
      const int64_t part_end = begins_[i] + static_cast<int64_t>(parts_[i].size());
      const int64_t piece_end = std::min(end, part_end);
      if (begin == piece_end) continue;
      body(begin, parts_[i].subspan(static_cast<size_t>(begin - begins_[i]),
                                    static_cast<size_t>(piece_end - begin)));
      begin = piece_end;
    }
  }

  // The largest MagnitudeBits of all elements, 0 if there are none.
  uint32_t MaxMagnitude(Executor* executor) const {
    uint32_t max = 0;
    for (const Span<const float>& part : parts_) {
      max = std::max(max, tfcompress::MaxMagnitude(part, executor));
    }
    return max;
  }

  bool AllFinite(Executor* executor) const {
    return std::all_of(parts_.begin(), parts_.end(), [&](const Span<const float>& part) {
      return tfcompress::AllFinite(part, executor);
    });
  }

 private:
  std::vector<Span<const float>> parts_;
  std::vector<int64_t> begins_;  // First element of each part.
  int64_t size_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_JOINED_SPAN_H_
