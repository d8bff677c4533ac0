#include "access_checks.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

extern "C" __attribute__((weak)) unsigned char __start_tfc_shared[];
extern "C" __attribute__((weak)) unsigned char __stop_tfc_shared[];
// Around the writable static data of the program.
extern "C" unsigned char __data_start[];
extern "C" unsigned char _end[];

namespace emulator {

bool checks_accesses = false;
thread_local Running running = Running::kNothing;

namespace {

// When a thread accessed a byte. A phase is what a block does between two of its barriers; a warp
// phase, what a warp does between two of its own. Their numbers are not used again; 0 is never.
struct Moment {
  uint32_t phase = 0;
  uint32_t warp_phase = 0;
  uint16_t thread = 0;
};

struct ByteState {
  Moment written, read;
  bool is_written = false;
  bool was_atomic = false;      // The write.
  bool several_lanes = false;   // Others of the warp that read last read it in the same warp phase.
  bool several_warps = false;   // Others of the block that read last read it in the same phase.
  bool several_blocks = false;  // Others of the launch read it, and nothing ordered them.
};

struct Region {
  uintptr_t begin = 0, end = 0;
  std::unique_ptr<ByteState[]> bytes;
  bool is_shared = false;         // Of a block.
  bool is_written_first = false;  // By what is not checked.
};

constexpr uintptr_t kPageBytes = 4096;

// Regions of device memory by their begins, and which one each page was last found in.
class Regions {
 public:
  void Add(uintptr_t begin, size_t num_bytes) {
    Region& region = regions_[begin];
    region = {begin, begin + num_bytes, std::make_unique<ByteState[]>(num_bytes)};
    if (begin < lowest_) lowest_ = begin;
    if (region.end > highest_) highest_ = region.end;
    pages_.fill({});
  }
  void Remove(uintptr_t begin) {
    regions_.erase(begin);
    pages_.fill({});
  }
  Region* Find(uintptr_t address) {
    if (address < lowest_ || address >= highest_) return nullptr;
    auto& [page, cached] = pages_[address / kPageBytes % pages_.size()];
    if (page == address / kPageBytes && cached != nullptr && Holds(*cached, address)) return cached;
    auto after = regions_.upper_bound(address);
    if (after == regions_.begin()) return nullptr;
    Region& found = std::prev(after)->second;
    if (!Holds(found, address)) return nullptr;
    page = address / kPageBytes;
    cached = &found;
    return cached;
  }

 private:
  static bool Holds(const Region& region, uintptr_t address) {
    return address >= region.begin && address < region.end;
  }

  std::map<uintptr_t, Region> regions_;
  uintptr_t lowest_ = UINTPTR_MAX, highest_ = 0;
  std::array<std::pair<uintptr_t, Region*>, 1024> pages_{};
};

Regions regions;
// Variables that are declared __shared__: in templates, which have no section of their own, they
// lie among all static data.
Region shared, statics;
uint32_t last_phase = 0, last_warp_phase = 0;
uint32_t first_phase_of_launch = 1;
std::vector<unsigned> blocks_of_phases;  // Of the launch.
std::vector<uint32_t> warp_phases;       // Of the block's warps.
// What a thread had done when it released a word, after a fence.
struct Release {
  unsigned block;
  uint32_t phase;
  uint16_t thread;
};
// What is behind a release: what the thread that acquired the word did next, and, after its
// barrier, its block.
struct Order {
  Release release;
  uint32_t phase;
  uint16_t thread;
};
std::unordered_map<uintptr_t, std::vector<Release>> releases;  // By word.
std::unordered_map<unsigned, std::vector<Order>> orders;  // Of the running block, by the other.
unsigned this_block = 0;
bool has_fenced = false;
std::set<std::pair<const void*, int>> reported;
bool has_errors = false;

uint32_t WarpOf(uint16_t thread) { return thread / kWarpThreads; }

unsigned BlockOf(const Moment& moment) {
  return blocks_of_phases[moment.phase - first_phase_of_launch];
}

Moment Now() {
  const auto thread = static_cast<uint16_t>(threadIdx.x);
  return {last_phase, warp_phases[WarpOf(thread)], thread};
}

bool IsOfLaunch(const Moment& moment) { return moment.phase >= first_phase_of_launch; }

// Whether what a thread did in a phase is before the next in its block, by a barrier or its own
// order.
bool IsBefore(uint32_t phase, uint16_t thread, uint32_t next_phase, uint16_t next_thread) {
  return phase < next_phase || (phase == next_phase && thread == next_thread);
}

// Whether another block did something in this launch that is not ordered before now.
bool IsOfUnorderedBlock(const Moment& moment, const Moment& now) {
  if (!IsOfLaunch(moment) || BlockOf(moment) == this_block) return false;
  const auto found = orders.find(BlockOf(moment));
  if (found == orders.end()) return true;
  return std::none_of(found->second.begin(), found->second.end(), [&](const Order& order) {
    return IsBefore(moment.phase, moment.thread, order.release.phase, order.release.thread) &&
           IsBefore(order.phase, order.thread, now.phase, now.thread);
  });
}

// Whether nothing orders that moment before this one.
bool Races(const Moment& moment, const Moment& now) {
  if (IsOfUnorderedBlock(moment, now)) return true;
  if (moment.phase != now.phase || moment.thread == now.thread) return false;
  return WarpOf(moment.thread) != WarpOf(now.thread) || moment.warp_phase == now.warp_phase;
}

bool RacesWithReads(const ByteState& byte, const Moment& now) {
  if (!IsOfLaunch(byte.read)) return false;
  if ((byte.several_blocks && orders.empty()) || Races(byte.read, now)) return true;
  if (byte.read.phase != now.phase) return false;
  return byte.several_warps || (byte.several_lanes && byte.read.warp_phase == now.warp_phase);
}

void NoteRead(ByteState* byte, const Moment& now) {
  const Moment& last = byte->read;
  if (!IsOfLaunch(last)) byte->several_blocks = false;
  if (IsOfUnorderedBlock(last, now)) byte->several_blocks = true;
  if (last.phase != now.phase) {
    byte->several_warps = byte->several_lanes = false;
  } else if (last.thread != now.thread) {
    const bool is_same_warp = WarpOf(last.thread) == WarpOf(now.thread);
    if (!is_same_warp) byte->several_warps = true;
    byte->several_lanes = is_same_warp && last.warp_phase == now.warp_phase;
  } else if (last.warp_phase != now.warp_phase) {
    byte->several_lanes = false;
  }
  byte->read = now;
}

void Report(const char* what, const void* address, const void* where, int kind) {
  has_errors = true;
  if (!reported.insert({where, kind}).second) return;
  std::fprintf(
      stderr,
      "CUDA emulator: %s at %p (block %u, row %u, thread %u): addr2line -fCie <program> %p\n", what,
      address, blockIdx.x, blockIdx.y, threadIdx.x,
      static_cast<const void*>(static_cast<const char*>(where) - 1));
}

bool IsOfThisBlock(const Moment& moment) {
  return IsOfLaunch(moment) && BlockOf(moment) == this_block;
}

void CheckByte(Region* region, uintptr_t address, Access access, const Moment& now,
               const void* where) {
  ByteState& byte = region->bytes[address - region->begin];
  // Shared memory has nothing of other blocks.
  if (region->is_shared && !IsOfThisBlock(byte.written) && !IsOfThisBlock(byte.read)) byte = {};
  const auto* const pointer = reinterpret_cast<const void*>(address);
  const bool reads = access == Access::kRead || access == Access::kVolatileRead;
  if (access != Access::kWrite && !byte.is_written && !region->is_written_first)
    Report("a read of what nothing has written", pointer, where, 0);
  const bool is_plain = access == Access::kRead || access == Access::kWrite;
  const bool are_atomic = !is_plain && byte.was_atomic;
  if (byte.is_written && !are_atomic && Races(byte.written, now)) {
    Report(reads ? "a race of a read with a write" : "a race of two writes", pointer, where, 1);
  }
  if (access == Access::kRead) return NoteRead(&byte, now);
  if (access == Access::kVolatileRead) return;
  if (RacesWithReads(byte, now)) Report("a race of a write with a read", pointer, where, 2);
  byte.written = now;
  byte.is_written = true;
  byte.was_atomic = access == Access::kAtomic;
}

// Of an operation that is no kernel, such as a sort.
void CheckOperation(Region* region, const void* address, size_t num_bytes, Access access,
                    const void* where) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address) - region->begin;
  for (size_t i = begin; i < begin + num_bytes && i < region->end - region->begin; ++i) {
    if (access != Access::kWrite && !region->bytes[i].is_written && !region->is_written_first)
      Report("a read of what nothing has written", address, where, 0);
    if (access == Access::kWrite) region->bytes[i].is_written = true;
  }
}

// Also passes on what the running block is behind.
void AcquireAndRelease(uintptr_t word, const Moment& now) {
  std::vector<Release>& of_word = releases[word];
  for (const Release& release : of_word)
    orders[release.block].push_back({release, now.phase, now.thread});
  of_word.clear();
  for (const auto& [block, found] : orders)
    for (const Order& order : found) of_word.push_back(order.release);
  of_word.push_back({this_block, now.phase, now.thread});
}

Region StaticRegion(unsigned char* begin, unsigned char* end, bool is_written_first) {
  const auto first = reinterpret_cast<uintptr_t>(begin), last = reinterpret_cast<uintptr_t>(end);
  return {first, last, std::make_unique<ByteState[]>(last - first), true, is_written_first};
}

Region* RegionOf(uintptr_t address) {
  if (address >= shared.begin && address < shared.end) return &shared;
  if (address >= statics.begin && address < statics.end) return &statics;
  return regions.Find(address);
}

}  // namespace

void NoteAllocation(const void* begin, size_t num_bytes) {
  if (checks_accesses) regions.Add(reinterpret_cast<uintptr_t>(begin), num_bytes);
}

void NoteFree(const void* begin) {
  if (checks_accesses) regions.Remove(reinterpret_cast<uintptr_t>(begin));
}

void NoteWritten(const void* begin, size_t num_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  Region* const region = checks_accesses && num_bytes > 0 ? regions.Find(address) : nullptr;
  if (region == nullptr) return;
  for (size_t i = 0; i < num_bytes; ++i)
    region->bytes[address - region->begin + i].is_written = true;
}

void NoteCopied(const void* to, const void* from, size_t num_bytes) {
  const auto target = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
  Region* const region = checks_accesses && num_bytes > 0 ? regions.Find(target) : nullptr;
  const Region* const other = region != nullptr ? regions.Find(source) : nullptr;
  if (other == nullptr) return NoteWritten(to, num_bytes);
  for (size_t i = 0; i < num_bytes; ++i) {
    region->bytes[target - region->begin + i].is_written =
        other->bytes[source - other->begin + i].is_written;
  }
}

void BeginLaunch() {
  if (!checks_accesses) return;
  if (statics.bytes == nullptr) {
    shared = StaticRegion(__start_tfc_shared, __stop_tfc_shared, /*is_written_first=*/false);
    statics = StaticRegion(__data_start, _end, /*is_written_first=*/true);
  }
  first_phase_of_launch = last_phase + 1;
  blocks_of_phases.clear();
  releases.clear();
}

void BeginBlock(unsigned block, unsigned num_warps) {
  if (!checks_accesses) return;
  this_block = block;
  orders.clear();
  has_fenced = false;
  warp_phases.resize(num_warps);
  for (uint32_t& phase : warp_phases) phase = ++last_warp_phase;
  NoteBarrier();
}

void NoteBarrier() {
  if (!checks_accesses) return;
  ++last_phase;
  blocks_of_phases.push_back(this_block);
}

void NoteWarpBarrier(unsigned warp) {
  if (checks_accesses) warp_phases[warp] = ++last_warp_phase;
}

void NoteFence() { has_fenced = true; }

void CheckAccess(const void* address, size_t num_bytes, Access access, const void* where) {
  if (running == Running::kNothing) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  Region* const region = RegionOf(begin);
  if (region == nullptr) return;
  if (running == Running::kOperation)
    return CheckOperation(region, address, num_bytes, access, where);
  const Moment now = Now();
  if (access == Access::kAtomic && has_fenced && !region->is_shared) AcquireAndRelease(begin, now);
  for (size_t i = 0; i < num_bytes && begin + i < region->end; ++i)
    CheckByte(region, begin + i, access, now, where);
}

bool TakeAccessErrors() { return std::exchange(has_errors, false); }

}  // namespace emulator
