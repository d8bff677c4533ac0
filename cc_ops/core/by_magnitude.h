// Sparsifiers that select by magnitude alone: elements are looked at once, where they are made.
#ifndef TFCOMPRESS_CORE_BY_MAGNITUDE_H_
#define TFCOMPRESS_CORE_BY_MAGNITUDE_H_

#include <cstdint>
#include <functional>

#include "core/codec.h"
#include "core/collect.h"

namespace tfcompress {

// Stores the elements at `positions`.
using ReadElements = std::function<void(Span<const uint32_t> positions, float* elements)>;
// Of a vector that exists already, and outlives what is returned.
ReadElements ReadFrom(Span<const float> dense);

class SparsifierByMagnitude : public Sparsifier {
 public:
  const SparsifierByMagnitude* by_magnitude() const final { return this; }

  // The least magnitude, at most 2^31, that an element of the vector needs to be a candidate. A
  // guess will do.
  virtual uint32_t LeastMagnitude(int64_t n, const ReadElements& read) const = 0;
  // Upper bound of the elements that are chosen of n.
  virtual size_t MostChosen(size_t n) const { return n; }
  // Makes the support of the candidates, which are all elements of `dense` of that magnitude.
  virtual void Choose(Span<const float> /*dense*/, uint32_t /*least_magnitude*/,
                      Executor* /*executor*/, Candidates* /*candidates*/) const {}

  Status Select(Span<const float> dense, const CodecContext& context,
                std::vector<uint32_t>* indices) const final;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_BY_MAGNITUDE_H_
