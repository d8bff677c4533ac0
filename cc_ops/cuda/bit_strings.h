// Bit strings in words, written and read by one thread from front to back.
#ifndef TFCOMPRESS_CUDA_BIT_STRINGS_H_
#define TFCOMPRESS_CUDA_BIT_STRINGS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/bit_stream.h"
#include "cuda/bit_words.h"

namespace tfcompress {
namespace device {

// Appends to words that are zero.
struct WordWriter {
  uint32_t* words;
  uint64_t position = 0;

  __device__ void Write(uint64_t bits, int num_bits) {
    OrBits(words, position, bits);
    position += static_cast<uint64_t>(num_bits);
  }
};

// Reads a part of the words up to `end`. Bits past the end have unspecified values; Finish returns
// false if any was read.
struct WordReader {
  const uint32_t* words;
  uint64_t end;  // In bytes.
  uint64_t position;

  __device__ uint64_t Peek() const { return position < 8 * end ? PeekBits(words, position) : 0; }
  __device__ void Skip(int num_bits) { position += static_cast<uint64_t>(num_bits); }
  // Skips to the end of the byte. Returns false if bits past `end` were read, or if a padding bit
  // is set.
  __device__ bool Finish() {
    if (position > 8 * end || !EndsItsByte(words, position)) return false;
    position = 8 * BytesOfBits(position);
    return true;
  }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_BIT_STRINGS_H_
