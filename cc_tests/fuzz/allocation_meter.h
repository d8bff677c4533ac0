// Counts what operator new hands out in this process; one source file of the program includes
// allocation_operators.h.
#ifndef TFCOMPRESS_CC_TESTS_FUZZ_ALLOCATION_METER_H_
#define TFCOMPRESS_CC_TESTS_FUZZ_ALLOCATION_METER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tfcompress {

// The bytes that are allocated, and the most that were since the last Restart.
class AllocationMeter {
 public:
  static void Restart() { most_ = now_.load(); }
  // Bytes allocated at once since `Restart`, beyond what was allocated then.
  static uint64_t Peak(uint64_t at_restart) { return most_ - std::min(at_restart, most_.load()); }
  static uint64_t Now() { return now_; }
  // All bytes that were ever allocated, and how often.
  static uint64_t Total() { return total_; }
  static uint64_t Count() { return count_; }

  // A size stands in front of each block.
  static void* Allocate(size_t num_bytes) {
    if (void* memory = TryToAllocate(num_bytes)) return memory;
    throw std::bad_alloc();
  }
  static void* TryToAllocate(size_t num_bytes) noexcept {
    auto* block = static_cast<unsigned char*>(std::malloc(num_bytes + kPrefix));
    if (block == nullptr) return nullptr;
    *reinterpret_cast<size_t*>(block) = num_bytes;
    total_ += num_bytes;
    ++count_;
    const uint64_t now = now_ += num_bytes;
    uint64_t most = most_;
    while (most < now && !most_.compare_exchange_weak(most, now)) {
    }
    return block + kPrefix;
  }
  static void Free(void* pointer) noexcept {
    if (pointer == nullptr) return;
    unsigned char* block = static_cast<unsigned char*>(pointer) - kPrefix;
    now_ -= *reinterpret_cast<size_t*>(block);
    std::free(block);
  }

 private:
  static constexpr size_t kPrefix = alignof(std::max_align_t);
  static inline std::atomic<uint64_t> now_{0};
  static inline std::atomic<uint64_t> most_{0};
  static inline std::atomic<uint64_t> total_{0};
  static inline std::atomic<uint64_t> count_{0};
};

// The most bytes that `body` had allocated at once.
template <typename Body>
uint64_t PeakAllocation(const Body& body) {
  AllocationMeter::Restart();
  const uint64_t before = AllocationMeter::Now();
  body();
  return AllocationMeter::Peak(before);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_FUZZ_ALLOCATION_METER_H_
