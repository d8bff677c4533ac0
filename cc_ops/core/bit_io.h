// Fixed-width packing of small integers, least significant bit first.
#ifndef TFCOMPRESS_CORE_BIT_IO_H_
#define TFCOMPRESS_CORE_BIT_IO_H_

#include <cstdint>

#include "core/executor.h"
#include "core/host_device.h"
#include "core/span.h"

namespace tfcompress {

// Smallest number of bits that holds every value in [0, count): ceil(log2 count), 0 for count <= 1.
TFC_HOST_DEVICE inline int BitsFor(uint64_t count) {
  int num_bits = 0;
  while (num_bits < 64 && (uint64_t{1} << num_bits) < count) ++num_bits;
  return num_bits;
}

// Bytes that `count` values of `num_bits` bits occupy.
TFC_HOST_DEVICE inline uint64_t PackedBytes(uint64_t count, int num_bits) {
  return (count * static_cast<uint64_t>(num_bits) + 7) / 8;
}

// Packs values[i] < 2^num_bits, 0 <= num_bits <= 32, into PackedBytes(values.size(), num_bits)
// bytes: value i occupies bits [i * num_bits, (i + 1) * num_bits) of the stream; bit b of the
// stream is bit b % 8 of byte b / 8. The bits after the last value are zero.
void PackBits(Span<const uint32_t> values, int num_bits, Executor* executor, unsigned char* packed);

// Inverse of PackBits; `packed` holds exactly PackedBytes(values.size(), num_bits) bytes.
void UnpackBits(ByteSpan packed, int num_bits, Executor* executor, Span<uint32_t> values);

// Values of at most that many bits may be bytes, which are packed and unpacked in fewer steps.
inline constexpr int kMaxByteBits = 8;

// The same for bytes, on the calling thread.
void PackBits(ByteSpan values, int num_bits, unsigned char* packed);
void UnpackBits(ByteSpan packed, int num_bits, Span<unsigned char> values);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_BIT_IO_H_
