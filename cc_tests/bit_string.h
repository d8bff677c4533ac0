// Reads a bit string one bit at a time, as FORMAT.md describes it: for decoders that share no code
// with those under test.
#ifndef TFCOMPRESS_CC_TESTS_BIT_STRING_H_
#define TFCOMPRESS_CC_TESTS_BIT_STRING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/span.h"

namespace tfcompress {

class BitString {
 public:
  explicit BitString(ByteSpan bytes) : bytes_(bytes.begin(), bytes.end()) {}

  bool Next() {
    const bool bit = bytes_.at(position_ / 8) >> (position_ % 8) & 1;
    ++position_;
    return bit;
  }
  // Reads a number of `num_bits` bits, the least significant first.
  uint64_t Number(int num_bits) {
    uint64_t number = 0;
    for (int i = 0; i < num_bits; ++i) number |= uint64_t{Next()} << i;
    return number;
  }
  // Reads zeros up to and including the next one; returns the number of zeros.
  uint64_t Unary() {
    uint64_t zeros = 0;
    while (!Next()) ++zeros;
    return zeros;
  }
  // Reads bits as text, e.g. "0010".
  std::string Text(size_t num_bits) {
    std::string text;
    while (text.size() < num_bits) text += Next() ? '1' : '0';
    return text;
  }
  size_t num_bytes_taken() const { return (position_ + 7) / 8; }

 private:
  std::vector<unsigned char> bytes_;
  size_t position_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_BIT_STRING_H_
