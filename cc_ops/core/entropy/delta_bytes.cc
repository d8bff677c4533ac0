#include "core/entropy/delta_bytes.h"

#include <cstring>

#include "core/count_bits.h"

namespace tfcompress {
namespace {

constexpr uint32_t kByteMask[4] = {0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF};

// Payload bytes of `num_keys` keys: one each, plus their flags. Flags past the last key are zero.
uint64_t PayloadBytes(const unsigned char* flags, int64_t num_keys) {
  constexpr uint64_t kHighBits = 0xAAAAAAAAAAAAAAAA;
  const ByteSpan bytes(flags, static_cast<size_t>(NumFlagBytes(static_cast<uint64_t>(num_keys))));
  uint64_t sum = static_cast<uint64_t>(num_keys);
  for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t)) {
    const uint64_t word = LoadWord(bytes, offset);
    sum += CountBits(word) + CountBits(word & kHighBits);  // A flag's high bit counts twice.
  }
  return sum;
}

// Packs the flags of one block and returns its payload bytes.
uint64_t EncodeFlags(const uint32_t* keys, int64_t num_keys, unsigned char* flags) {
  uint32_t previous = 0;
  auto next_flag = [&](int64_t i) {
    const uint32_t flag = DeltaFlag(keys[i] - previous);
    previous = keys[i];
    return flag;
  };
  int64_t i = 0;
  for (; i + 4 <= num_keys; i += 4) {
    uint32_t packed = next_flag(i);  // Separate statements, since the calls must be in order.
    packed |= next_flag(i + 1) << 2;
    packed |= next_flag(i + 2) << 4;
    packed |= next_flag(i + 3) << 6;
    flags[i >> 2] = static_cast<unsigned char>(packed);
  }
  if (i < num_keys) {
    uint32_t packed = 0;
    for (int64_t j = i; j < num_keys; ++j) packed |= next_flag(j) << (2 * (j - i));
    flags[i >> 2] = static_cast<unsigned char>(packed);
  }
  return PayloadBytes(flags, num_keys);
}

// Calls fast(flag, i) for the keys of a block that at least three keys follow. There four bytes can
// be stored or loaded for any length, since each following key has at least one byte. Calls
// exact(flag, i) for the others. Takes four keys, one byte of flags, at a time.
template <typename Fast, typename Exact>
void ForEachFlag(const unsigned char* flags, int64_t num_keys, const Fast& fast,
                 const Exact& exact) {
  int64_t i = 0;
  for (; i + 7 <= num_keys; i += 4) {
    const uint32_t four = flags[i >> 2];
    fast(four & 3, i);
    fast(four >> 2 & 3, i + 1);
    fast(four >> 4 & 3, i + 2);
    fast(four >> 6, i + 3);
  }
  for (; i < num_keys; ++i) exact(flags[i >> 2] >> (2 * (i & 3)) & 3u, i);
}

void EncodePayload(const uint32_t* keys, int64_t num_keys, const unsigned char* flags,
                   unsigned char* payload) {
  uint32_t previous = 0;
  ForEachFlag(
      flags, num_keys,
      [&](uint32_t flag, int64_t i) {
        StoreUnaligned(payload, keys[i] - previous);
        previous = keys[i];
        payload += flag + 1;
      },
      [&](uint32_t flag, int64_t i) {
        const uint32_t delta = keys[i] - previous;
        previous = keys[i];
        std::memcpy(payload, &delta, flag + 1);
        payload += flag + 1;
      });
}

void DecodePayload(const unsigned char* flags, const unsigned char* payload, int64_t num_keys,
                   uint32_t* keys) {
  uint32_t key = 0;
  ForEachFlag(
      flags, num_keys,
      [&](uint32_t flag, int64_t i) {
        keys[i] = key += LoadUnaligned<uint32_t>(payload) & kByteMask[flag];
        payload += flag + 1;
      },
      [&](uint32_t flag, int64_t i) {
        uint32_t delta = 0;
        std::memcpy(&delta, payload, flag + 1);
        keys[i] = key += delta;
        payload += flag + 1;
      });
}

// A running sum modulo 2^32 that always grows has met no zero delta and has not wrapped.
bool StrictlyIncreasing(const uint32_t* keys, int64_t num_keys) {
  bool increasing = true;
  for (int64_t i = 1; i < num_keys; ++i) increasing &= keys[i] > keys[i - 1];
  return increasing;
}

template <typename Body>
void ForEachKeyBlock(Executor* executor, int64_t num_keys, const Body& body) {
  ForEachBlock(executor, num_keys, body, kDeltaBytesBlock);
}

// Replaces the lengths of the blocks by their offsets, and returns the total length.
uint64_t LengthsToOffsets(std::vector<uint64_t>* lengths) {
  uint64_t offset = 0;
  for (uint64_t& length : *lengths) {
    const uint64_t next = offset + length;
    length = offset;
    offset = next;
  }
  return offset;
}

}  // namespace

void EncodeDeltaBytes(Span<const uint32_t> keys, Executor* executor, Bytes* out) {
  const int64_t num_keys = static_cast<int64_t>(keys.size());
  std::vector<uint64_t> offsets(static_cast<size_t>(NumBlocks(num_keys, kDeltaBytesBlock)));
  ByteWriter writer(out);

  unsigned char* flags = writer.Extend(static_cast<size_t>(NumFlagBytes(keys.size())));
  ForEachKeyBlock(executor, num_keys, [&](int64_t block, int64_t begin, int64_t end) {
    offsets[block] = EncodeFlags(keys.data() + begin, end - begin, flags + begin / 4);
  });

  const uint64_t num_payload_bytes = LengthsToOffsets(&offsets);
  unsigned char* payload = writer.Extend(static_cast<size_t>(num_payload_bytes));
  flags = payload - NumFlagBytes(keys.size());  // Extend may have moved them.
  ForEachKeyBlock(executor, num_keys, [&](int64_t block, int64_t begin, int64_t end) {
    EncodePayload(keys.data() + begin, end - begin, flags + begin / 4, payload + offsets[block]);
  });
}

Status DecodeDeltaBytes(uint64_t k, uint32_t n, Executor* executor, ByteReader* reader,
                        std::vector<uint32_t>* keys) {
  keys->clear();
  if (k > n) return DataLoss("delta bytes: ", k, " keys do not fit in [0, ", n, ")");
  if (k == 0) return OkStatus();
  const int64_t num_keys = static_cast<int64_t>(k);
  ByteSpan flags;
  TFC_RETURN_IF_ERROR(reader->ReadSpan("delta flags", NumFlagBytes(k), &flags));
  if (k % 4 != 0 && flags[flags.size() - 1] >> (2 * (k % 4)) != 0) {
    return DataLoss("delta bytes: flags are set after the last of ", k, " keys");
  }

  std::vector<uint64_t> offsets(static_cast<size_t>(NumBlocks(num_keys, kDeltaBytesBlock)));
  ForEachKeyBlock(executor, num_keys, [&](int64_t block, int64_t begin, int64_t end) {
    offsets[block] = PayloadBytes(flags.data() + begin / 4, end - begin);
  });
  ByteSpan payload;
  TFC_RETURN_IF_ERROR(reader->ReadSpan("delta payload", LengthsToOffsets(&offsets), &payload));

  keys->resize(static_cast<size_t>(k));
  std::vector<unsigned char> increasing(offsets.size());
  ForEachKeyBlock(executor, num_keys, [&](int64_t block, int64_t begin, int64_t end) {
    uint32_t* block_keys = keys->data() + begin;
    DecodePayload(flags.data() + begin / 4, payload.data() + offsets[block], end - begin,
                  block_keys);
    increasing[block] = StrictlyIncreasing(block_keys, end - begin);
  });

  const uint32_t* decoded = keys->data();
  for (size_t block = 0; block < increasing.size(); ++block) {
    const int64_t begin = static_cast<int64_t>(block) * kDeltaBytesBlock;
    if (!increasing[block] || (begin > 0 && decoded[begin] <= decoded[begin - 1])) {
      return DataLoss("delta bytes: the keys of block ", block, " do not increase strictly");
    }
  }
  if (keys->back() < n) return OkStatus();
  return DataLoss("delta bytes: key ", keys->back(), " is outside [0, ", n, ")");
}

}  // namespace tfcompress
