// What sources call at each access that are compiled with the flags of checked_accesses in
// CMakeLists.txt. This file is not one of them. Names and parameters are those of GCC's thread
// sanitizer, of which nothing is linked.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "access_checks.h"

using emulator::Access;
using emulator::CheckAccess;

namespace {

[[maybe_unused]] const bool is_linked = emulator::checks_accesses = true;

}  // namespace

#define TFC_HOOK(name, num_bytes, access)                                 \
  void name(const void* address) {                                        \
    CheckAccess(address, num_bytes, access, __builtin_return_address(0)); \
  }
#define TFC_HOOKS(num_bytes)                                                  \
  TFC_HOOK(__tsan_read##num_bytes, num_bytes, Access::kRead)                  \
  TFC_HOOK(__tsan_write##num_bytes, num_bytes, Access::kWrite)                \
  TFC_HOOK(__tsan_volatile_read##num_bytes, num_bytes, Access::kVolatileRead) \
  TFC_HOOK(__tsan_volatile_write##num_bytes, num_bytes, Access::kWrite)

// Atomic operations of the host's own library; kernels have those of cuda_runtime.h.
#define TFC_ATOMICS(num_bits)                                                                 \
  uint##num_bits##_t __tsan_atomic##num_bits##_load(const uint##num_bits##_t* address, int) { \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                        \
  }                                                                                           \
  void __tsan_atomic##num_bits##_store(uint##num_bits##_t* address, uint##num_bits##_t value, \
                                       int) {                                                 \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                       \
  }                                                                                           \
  uint##num_bits##_t __tsan_atomic##num_bits##_fetch_add(uint##num_bits##_t* address,         \
                                                         uint##num_bits##_t value, int) {     \
    return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);                              \
  }                                                                                           \
  uint##num_bits##_t __tsan_atomic##num_bits##_fetch_sub(uint##num_bits##_t* address,         \
                                                         uint##num_bits##_t value, int) {     \
    return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);                              \
  }                                                                                           \
  uint##num_bits##_t __tsan_atomic##num_bits##_exchange(uint##num_bits##_t* address,          \
                                                        uint##num_bits##_t value, int) {      \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                             \
  }

extern "C" {

TFC_HOOKS(1)
TFC_HOOKS(2)
TFC_HOOKS(4)
TFC_HOOKS(8)
TFC_HOOKS(16)
TFC_ATOMICS(8)
TFC_ATOMICS(32)
TFC_ATOMICS(64)

void __tsan_read_range(const void* address, size_t num_bytes) {
  CheckAccess(address, num_bytes, Access::kRead, __builtin_return_address(0));
}
void __tsan_write_range(const void* address, size_t num_bytes) {
  CheckAccess(address, num_bytes, Access::kWrite, __builtin_return_address(0));
}
void __tsan_vptr_update(void*, void*) {}
void __tsan_init() {}

// In place of memcpy and memset, by the linker.
void* __real_memcpy(void* to, const void* from, size_t num_bytes);
void* __real_memset(void* to, int value, size_t num_bytes);
void* __wrap_memcpy(void* to, const void* from, size_t num_bytes) {
  CheckAccess(from, num_bytes, Access::kRead, __builtin_return_address(0));
  CheckAccess(to, num_bytes, Access::kWrite, __builtin_return_address(0));
  return __real_memcpy(to, from, num_bytes);
}
void* __wrap_memset(void* to, int value, size_t num_bytes) {
  CheckAccess(to, num_bytes, Access::kWrite, __builtin_return_address(0));
  return __real_memset(to, value, num_bytes);
}

}  // extern "C"
