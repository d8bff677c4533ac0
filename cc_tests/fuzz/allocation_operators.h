// Replaces the global operators of a program by those of AllocationMeter: include it in one source
// file.
#ifndef TFCOMPRESS_CC_TESTS_FUZZ_ALLOCATION_OPERATORS_H_
#define TFCOMPRESS_CC_TESTS_FUZZ_ALLOCATION_OPERATORS_H_

#include "allocation_meter.h"

void* operator new(size_t num_bytes) { return tfcompress::AllocationMeter::Allocate(num_bytes); }
void* operator new[](size_t num_bytes) { return tfcompress::AllocationMeter::Allocate(num_bytes); }
// The standard library and the sanitizers have nothrow operators of their own, whose blocks have no
// size in front.
void* operator new(size_t num_bytes, const std::nothrow_t&) noexcept {
  return tfcompress::AllocationMeter::TryToAllocate(num_bytes);
}
void* operator new[](size_t num_bytes, const std::nothrow_t&) noexcept {
  return tfcompress::AllocationMeter::TryToAllocate(num_bytes);
}
void operator delete(void* pointer) noexcept { tfcompress::AllocationMeter::Free(pointer); }
void operator delete[](void* pointer) noexcept { tfcompress::AllocationMeter::Free(pointer); }
void operator delete(void* pointer, size_t) noexcept { tfcompress::AllocationMeter::Free(pointer); }
void operator delete[](void* pointer, size_t) noexcept {
  tfcompress::AllocationMeter::Free(pointer);
}

#endif  // TFCOMPRESS_CC_TESTS_FUZZ_ALLOCATION_OPERATORS_H_
