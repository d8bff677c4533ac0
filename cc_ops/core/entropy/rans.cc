#include "core/entropy/rans.h"

namespace tfcompress {
namespace {

constexpr int kLengthBits = 6;
// The encoder's first state and the decoder's last.
constexpr uint32_t kEmpty = 1;

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

void RansEncoder::Finish(Bytes* out) const {
  // The words of the last symbol come first.
  std::vector<uint16_t> words;
  words.reserve(symbols_.size() / 2 + 2);
  uint64_t state = kEmpty;
  for (size_t i = symbols_.size(); i-- > 0;) {
    const uint32_t frequency = symbols_[i] & 0xFFFF;
    const uint32_t start = symbols_[i] >> 16;
    if (state >= uint64_t{frequency} << (32 - kProbabilityBits)) {
      words.push_back(static_cast<uint16_t>(state));
      state >>= 16;
    }
    const auto x = static_cast<uint32_t>(state);
    state = (uint64_t{x / frequency} << kProbabilityBits) + x % frequency + start;
  }
  ByteWriter writer(out);
  writer.Write(static_cast<uint32_t>(state));
  unsigned char* bytes = writer.Extend(2 * words.size());
  for (size_t i = 0; i < words.size(); ++i)
    StoreUnaligned(bytes + 2 * i, words[words.size() - 1 - i]);
}

RansDecoder::RansDecoder(ByteSpan bytes) : bytes_(bytes), position_(sizeof(state_)) {
  if (bytes.size() >= sizeof(state_)) state_ = LoadUnaligned<uint32_t>(bytes.data());
}

Status RansDecoder::ExpectEnd(const char* what) const {
  if (position_ == bytes_.size() && state_ == kEmpty) return OkStatus();
  return DataLoss(what, ": the code of ", bytes_.size(), " bytes does not end with its symbols");
}

}  // namespace tfcompress
