// Large temporaries in large pages. The first touch of each page of 4 KiB costs the system about as
// much time as a codec takes for the floats in it; most of that is the same for a page of 2 MiB.
#ifndef TFCOMPRESS_CORE_HUGE_PAGES_H_
#define TFCOMPRESS_CORE_HUGE_PAGES_H_

#include <cstddef>
#include <vector>

namespace tfcompress {

// Asks for large pages where memory that was just allocated has room for some; where the system
// has none, nothing changes. Call before the memory is written.
void PreferHugePages(void* memory, size_t num_bytes);

// Reserves room for `size` elements, in large pages.
template <typename T>
void ReserveHuge(size_t size, std::vector<T>* vector) {
  if (size <= vector->capacity()) return;
  vector->reserve(size);
  PreferHugePages(vector->data(), vector->capacity() * sizeof(T));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_HUGE_PAGES_H_
