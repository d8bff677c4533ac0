// CRC-32C of a frame in device memory. The remainder of a message is the sum of those of its
// pieces, each shifted by the bytes that follow it: lanes take pieces, and the sum is a XOR.
#ifndef TFCOMPRESS_CUDA_CRC32C_H_
#define TFCOMPRESS_CUDA_CRC32C_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/crc32c.h"
#include "core/host_device.h"
#include "core/status.h"
#include "core/wire_header.h"
#include "cuda/encode_state.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

// Multiplies polynomials modulo the CRC's. Bits are reversed: the highest bit is the coefficient of
// 1.
TFC_HOST_DEVICE inline uint32_t MultiplyModPolynomial(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    if (a >> bit & 1) product ^= b;
    b = (b >> 1) ^ ((b & 1) ? kCrc32cPolynomial : 0);
  }
  return product;
}

// Shifts remainders over zero bytes, with one multiplication for each hexadecimal digit of their
// number.
class CrcShift {
 public:
  CrcShift();
  // Returns the remainder of a message followed by `num_bytes` < 2^32 zeros, from the remainder of
  // the message.
  TFC_HOST_DEVICE uint32_t operator()(uint32_t remainder, uint64_t num_bytes) const {
    for (int digit = 0; digit < kNumDigits; ++digit) {
      const uint32_t value = static_cast<uint32_t>(num_bytes >> (4 * digit)) & 15;
      if (value != 0) remainder = MultiplyModPolynomial(remainder, powers_[digit][value]);
    }
    return remainder;
  }

 private:
  static constexpr int kNumDigits = 8;
  uint32_t powers_[kNumDigits][16];  // x^8 to the power of value * 16^digit.
};

// A frame whose length is known to the host, or only to the device.
struct FrameBytes {
  const unsigned char* data_dev;
  uint64_t num_bytes;             // An upper bound if num_bytes_dev is set.
  const uint64_t* num_bytes_dev;  // Null if the host knows the length.

  __device__ uint64_t size() const { return num_bytes_dev == nullptr ? num_bytes : *num_bytes_dev; }
};

// A frame to check, and where the result goes.
struct CheckedFrame {
  FrameBytes bytes;                 // Of a length that the host knows.
  SectionRemainder* remainder_dev;  // Of the whole words of the sections.
  uint32_t* error_dev;
};

// The address of the word that holds this byte.
__device__ inline uintptr_t WordOf(const unsigned char* byte) {
  return reinterpret_cast<uintptr_t>(byte) / sizeof(uint32_t) * sizeof(uint32_t);
}

// Computes the frame's checksum, over all but the checksum itself, from that remainder. Runs on one
// thread.
__device__ inline uint32_t FrameChecksum(const unsigned char* frame, uint64_t num_bytes,
                                         uint32_t remainder, const CrcShift& shift) {
  uint32_t state = 0xFFFFFFFFu;
  for (uint64_t i = 0; i < kChecksumOffset; ++i) state = ExtendCrc32cState(state, frame[i]);
  const auto sections = reinterpret_cast<uintptr_t>(frame + kFrameHeaderBytes);
  const uintptr_t words_end = WordOf(frame + num_bytes);
  uint64_t i = kFrameHeaderBytes;
  if (words_end > sections) {
    state = shift(state, words_end - sections) ^ remainder;
    i += words_end - sections;
  }
  for (; i < num_bytes; ++i) state = ExtendCrc32cState(state, frame[i]);
  return ~state;
}

// Sets bits of the errors of the frames that do not hold their checksum. Their remainders are 0
// before.
Status CheckChecksums(const Parts<CheckedFrame>& frames, const CrcShift& shift, uint32_t bits,
                      cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CRC32C_H_
