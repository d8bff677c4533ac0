#include "core/entropy/rans.h"

#include <algorithm>

namespace tfcompress {
namespace {

constexpr int kLengthBits = 6;
// The encoder's first state and the decoder's last. A single lane that holds less than a word takes
// none, as there is none; among several the words may be another one's.
uint32_t EmptyState(size_t num_lanes) { return num_lanes == 1 ? 1 : kLeastRansState; }

// Read where a code is too short for its states.
constexpr unsigned char kNothing[sizeof(uint16_t)] = {};

// 2^63 by each frequency, rounded up: a product's upper half is the quotient of any state.
struct Reciprocals {
  uint64_t of[kProbabilityScale] = {};

  constexpr Reciprocals() {
    for (uint64_t f = 1; f < kProbabilityScale; ++f) of[f] = ((uint64_t{1} << 63) + f - 1) / f;
  }
};
constexpr Reciprocals kReciprocals;

uint32_t Divide(uint32_t state, uint32_t frequency) {
  const auto twice = static_cast<unsigned __int128>(uint64_t{state} << 1);
  return static_cast<uint32_t>(twice * kReciprocals.of[frequency] >> 64);
}

}  // namespace

void RansEncoder::PutNumber(uint32_t value) {
  const uint64_t above_zero = uint64_t{value} + 1;
  const int num_bits = 63 - __builtin_clzll(above_zero);
  PutBits(static_cast<uint32_t>(num_bits), kLengthBits);
  PutBits(static_cast<uint32_t>(above_zero - (uint64_t{1} << num_bits)), num_bits);
}

uint32_t RansDecoder::GetNumber() {
  const int num_bits = static_cast<int>(GetBits(kLengthBits));
  if (num_bits > 32) return 0;
  return static_cast<uint32_t>((uint64_t{1} << num_bits) + GetBits(num_bits) - 1);
}

RansEncoder::Room RansEncoder::Grow(Bytes* out, size_t begin, unsigned char* next) {
  const size_t size = static_cast<size_t>(next - out->data());
  constexpr size_t kLeast = 64;
  const size_t spare = out->capacity() - size;
  const size_t more = std::max(size - begin, std::max(kLeast, spare));
  out->resize(size + more / sizeof(uint32_t) * sizeof(uint32_t));
  return {out->data() + size, out->data() + out->size()};
}

template <size_t kLanes>
void RansEncoder::FinishLanes() {
  uint32_t states[kLanes];
  std::fill_n(states, kLanes, EmptyState(kLanes));
  // The words of the last symbol come first. They end where the ranges do, and need less space.
  unsigned char* const ranges = out_->data() + begin_;
  unsigned char* first = next_;
  const auto code = [&first](const unsigned char* bytes, uint32_t state) {
    const auto range = LoadUnaligned<uint32_t>(bytes);
    const uint32_t frequency = range & 0xFFFF;
    // Without a branch, which could not be foretold.
    const bool is_full = state >= uint64_t{frequency} << (32 - kProbabilityBits);
    const uint32_t num_bits = (0 - uint32_t{is_full}) & 16;
    StoreUnaligned(first - sizeof(uint16_t), static_cast<uint16_t>(state));
    first -= num_bits / 8;
    state >>= num_bits;
    // (state / frequency) 2^kProbabilityBits + state % frequency + start.
    return state + (range >> 16) + Divide(state, frequency) * (kProbabilityScale - frequency);
  };
  const unsigned char* range = next_;
  const auto num_ranges = static_cast<size_t>(next_ - ranges) / sizeof(uint32_t);
  for (size_t lane = num_ranges % kLanes; lane-- > 0;)
    states[lane] = code(range -= sizeof(uint32_t), states[lane]);
  uint32_t local[kLanes];  // Which a compiler keeps in registers.
  for (size_t lane = 0; lane < kLanes; ++lane) local[lane] = states[lane];
  while (range > ranges) {
    for (size_t lane = kLanes; lane-- > 0;)
      local[lane] = code(range -= sizeof(uint32_t), local[lane]);
  }
  const auto num_bytes = static_cast<size_t>(next_ - first);
  if (num_bytes > 0) std::memmove(ranges, first, num_bytes);  // Else there may be no memory.
  out_->resize(begin_ + num_bytes);
  ByteWriter(out_).WriteArray(Span<const uint32_t>(local, kLanes));
}

void RansEncoder::Finish(int num_lanes) {
  num_lanes == 1 ? FinishLanes<1>() : FinishLanes<kMaxRansLanes>();
}

RansDecoder::RansDecoder(int num_lanes, ByteSpan bytes)
    : lane_mask_(static_cast<uint32_t>(num_lanes - 1)), next_(kNothing), end_(kNothing) {
  const size_t num_state_bytes = sizeof(uint32_t) * static_cast<size_t>(num_lanes);
  is_whole_ = bytes.size() >= num_state_bytes && bytes.size() % sizeof(uint16_t) == 0;
  if (!is_whole_) return;
  next_ = bytes.data();
  end_ = bytes.data() + (bytes.size() - num_state_bytes);
  std::memcpy(states_, end_, num_state_bytes);
}

Status RansDecoder::ExpectEnd(const char* what) const {
  const size_t num_lanes = lane_mask_ + size_t{1};
  const bool empty = std::all_of(states_, states_ + num_lanes,
                                 [&](uint32_t state) { return state == EmptyState(num_lanes); });
  if (is_whole_ && next_ == end_ && empty) return OkStatus();
  return DataLoss(what, ": the code does not end with its symbols");
}

}  // namespace tfcompress
