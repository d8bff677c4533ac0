#include "core/crc32c.h"

#include <array>

#include "core/byte_io.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
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

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(ByteSpan bytes, uint32_t state) {
  const size_t num_words = bytes.size() / 8;
  uint64_t wide = state;
  for (size_t i = 0; i < num_words; ++i)
    wide = _mm_crc32_u64(wide, LoadUnaligned<uint64_t>(bytes.data() + 8 * i));
  state = static_cast<uint32_t>(wide);
  for (size_t i = 8 * num_words; i < bytes.size(); ++i) state = _mm_crc32_u8(state, bytes[i]);
  return state;
}
#endif

}  // namespace

uint32_t Crc32c(ByteSpan bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~ExtendByInstruction(bytes, ~crc);
#endif
  return ~ExtendByTable(bytes, ~crc);
}

}  // namespace tfcompress
