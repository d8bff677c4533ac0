#include "core/crc32c.h"

#include <array>
#include <cstddef>
#include <vector>

#include "core/byte_io.h"
#include "core/simd.h"

#if defined(TFC_HAS_X86_SIMD)
#include <nmmintrin.h>
#elif defined(TFC_HAS_ARM_SIMD)
#include <arm_acle.h>
#endif

namespace tfcompress {
namespace {

std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte)
    table[byte] = ExtendCrc32cState(0, static_cast<unsigned char>(byte));
  return table;
}

// Computes the CRC by its definition, byte by byte; the instruction below must agree with it.
uint32_t ExtendByTable(ByteSpan bytes, uint32_t state) {
  static const std::array<uint32_t, 256> table = MakeTable();
  for (unsigned char byte : bytes) state = (state >> 8) ^ table[(state ^ byte) & 0xFF];
  return state;
}

#if defined(TFC_HAS_X86_SIMD)
TFC_CRC32C uint64_t ExtendBy8(uint64_t state, uint64_t bytes) {
  return _mm_crc32_u64(state, bytes);
}
TFC_CRC32C uint32_t ExtendBy1(uint32_t state, unsigned char byte) {
  return _mm_crc32_u8(state, byte);
}
#elif defined(TFC_HAS_ARM_SIMD)
TFC_CRC32C uint64_t ExtendBy8(uint64_t state, uint64_t bytes) {
  return __crc32cd(static_cast<uint32_t>(state), bytes);
}
TFC_CRC32C uint32_t ExtendBy1(uint32_t state, unsigned char byte) { return __crc32cb(state, byte); }
#endif

#ifdef TFC_CRC32C

// The instruction has a latency of three cycles and starts every cycle: three parts of a chunk are
// computed side by side.
constexpr size_t kPartBytes = 256;
constexpr int kParts = 3;

// What kPartBytes zero bytes make of a state: a linear function of its bits, looked up by bytes.
class SkipPart {
 public:
  SkipPart() {
    const std::vector<unsigned char> zeros(kPartBytes);
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; ++bit) of_bit[bit] = ExtendByTable(zeros, uint32_t{1} << bit);
    for (int byte = 0; byte < 4; ++byte) {
      for (uint32_t value = 0; value < 256; ++value) {
        uint32_t state = 0;
        for (int bit = 0; bit < 8; ++bit) state ^= value >> bit & 1 ? of_bit[8 * byte + bit] : 0;
        table_[byte][value] = state;
      }
    }
  }
  uint32_t operator()(uint64_t state) const {
    return table_[0][state & 0xFF] ^ table_[1][state >> 8 & 0xFF] ^ table_[2][state >> 16 & 0xFF] ^
           table_[3][state >> 24 & 0xFF];
  }

 private:
  uint32_t table_[4][256];
};

TFC_CRC32C uint32_t ExtendByInstruction(ByteSpan bytes, uint32_t state) {
  static const SkipPart skip;
  const unsigned char* position = bytes.data();
  const unsigned char* const end = position + bytes.size();
  uint64_t first = state;
  for (; end - position >= static_cast<std::ptrdiff_t>(kParts * kPartBytes);
       position += kParts * kPartBytes) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kPartBytes; i += 8) {
      first = ExtendBy8(first, LoadUnaligned<uint64_t>(position + i));
      second = ExtendBy8(second, LoadUnaligned<uint64_t>(position + kPartBytes + i));
      third = ExtendBy8(third, LoadUnaligned<uint64_t>(position + 2 * kPartBytes + i));
    }
    first = skip(skip(first) ^ second) ^ third;
  }
  for (; end - position >= 8; position += 8)
    first = ExtendBy8(first, LoadUnaligned<uint64_t>(position));
  state = static_cast<uint32_t>(first);
  for (; position < end; ++position) state = ExtendBy1(state, *position);
  return state;
}

#endif

}  // namespace

uint32_t Crc32c(ByteSpan bytes, uint32_t crc) {
#ifdef TFC_CRC32C
  if (CurrentSimd() != Simd::kBaseline) return ~ExtendByInstruction(bytes, ~crc);
#endif
  return ~ExtendByTable(bytes, ~crc);
}

}  // namespace tfcompress
