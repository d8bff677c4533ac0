// Joins the outputs of blocks that were computed in parallel, in the order of the blocks.
#ifndef TFCOMPRESS_CORE_CONCATENATE_H_
#define TFCOMPRESS_CORE_CONCATENATE_H_

#include <cstddef>
#include <vector>

namespace tfcompress {

// Appends every part to `out`.
template <typename Vector>
void Concatenate(const std::vector<Vector>& parts, Vector* out) {
  size_t size = out->size();
  for (const Vector& part : parts) size += part.size();
  out->reserve(size);
  for (const Vector& part : parts) out->insert(out->end(), part.begin(), part.end());
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_CONCATENATE_H_
