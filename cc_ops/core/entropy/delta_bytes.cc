#include "core/entropy/delta_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/count_bits.h"
#include "core/simd.h"
#include "core/strictly_increasing.h"

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

// Keys whose flags are a word. If that is 0, as among dense keys, each of them has one byte.
constexpr int64_t kRun = 32;

// Whether all of keys[i] - keys[i - 1], 0 <= i < kRun, fit in a byte.
bool HaveByteDeltas(const uint32_t* keys) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < kRun; ++i) bits |= keys[i] - keys[i - 1];
  return bits < 256;
}

// Packs the flags of one block and returns its payload bytes.
uint64_t EncodeFlags(const uint32_t* keys, int64_t num_keys, unsigned char* flags) {
  uint32_t previous = 0;
  for (int64_t i = 0; i < num_keys;) {
    if (i > 0 && i % kRun == 0 && i + kRun <= num_keys && HaveByteDeltas(keys + i)) {
      StoreUnaligned(flags + (i >> 2), uint64_t{0});
      i += kRun;
      previous = keys[i - 1];
      continue;
    }
    uint32_t packed = 0;
    const int64_t count = std::min<int64_t>(4, num_keys - i);
    for (int64_t j = 0; j < count; ++j) {
      packed |= DeltaFlag(keys[i + j] - previous) << (2 * j);
      previous = keys[i + j];
    }
    flags[i >> 2] = static_cast<unsigned char>(packed);
    i += 4;
  }
  return PayloadBytes(flags, num_keys);
}

// Calls run(i) for kRun keys from key i > 0 on that have one byte each. Of the other keys of a
// block, calls fast(flag, i) for those that at least three keys follow: there four bytes can be
// stored or loaded for any length, since each following key has at least one byte. Calls
// exact(flag, i) for the last ones. Takes four keys, one byte of flags, at a time.
template <typename Run, typename Fast, typename Exact>
void ForEachFlag(const unsigned char* flags, int64_t num_keys, const Run& run, const Fast& fast,
                 const Exact& exact) {
  int64_t i = 0;
  while (i + 7 <= num_keys) {
    if (i > 0 && i % kRun == 0 && i + kRun <= num_keys &&
        LoadUnaligned<uint64_t>(flags + (i >> 2)) == 0) {
      run(i);
      i += kRun;
      continue;
    }
    const uint32_t four = flags[i >> 2];
    fast(four & 3, i);
    fast(four >> 2 & 3, i + 1);
    fast(four >> 4 & 3, i + 2);
    fast(four >> 6, i + 3);
    i += 4;
  }
  for (; i < num_keys; ++i) exact(flags[i >> 2] >> (2 * (i & 3)) & 3u, i);
}

void EncodePayload(const uint32_t* keys, int64_t num_keys, const unsigned char* flags,
                   unsigned char* payload) {
  uint32_t previous = 0;
  ForEachFlag(
      flags, num_keys,
      [&](int64_t first) {
        for (int64_t i = first; i < first + kRun; ++i)
          *payload++ = static_cast<unsigned char>(keys[i] - keys[i - 1]);
        previous = keys[first + kRun - 1];
      },
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
      [&](int64_t first) {
        for (int64_t i = 0; i < kRun; ++i) keys[first + i] = key += payload[i];
        payload += kRun;
      },
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

template <typename Body>
void ForEachKeyBlock(Executor* executor, int64_t num_keys, const Body& body) {
  ForEachBlock(executor, num_keys, body, kDeltaBytesBlock);
}

// Replaces the lengths of the blocks by their offsets, and returns the total length.
uint64_t LengthsToOffsets(std::vector<uint64_t>* lengths) {
  uint64_t offset = 0;
  for (uint64_t& length : *lengths) offset += std::exchange(length, offset);
  return offset;
}

}  // namespace

void EncodeDeltaBytes(Span<const uint32_t> keys, Executor* executor, Bytes* out) {
  const int64_t num_keys = static_cast<int64_t>(keys.size());
  std::vector<uint64_t> offsets(static_cast<size_t>(NumBlocks(num_keys, kDeltaBytesBlock)));
  ByteWriter writer(out);

  unsigned char* flags = writer.Extend(static_cast<size_t>(NumFlagBytes(keys.size())));
  ForEachKeyBlock(executor, num_keys, [&](int64_t block, int64_t begin, int64_t end) {
    Vectorized([=, from = keys.data() + begin, num_bytes = &offsets[block]] {
      *num_bytes = EncodeFlags(from, end - begin, flags + begin / 4);
    });
  });

  const uint64_t num_payload_bytes = LengthsToOffsets(&offsets);
  unsigned char* payload = writer.Extend(static_cast<size_t>(num_payload_bytes));
  flags = payload - NumFlagBytes(keys.size());  // Extend may have moved them.
  ForEachKeyBlock(executor, num_keys, [&](int64_t block, int64_t begin, int64_t end) {
    Vectorized([=, from = keys.data() + begin, to = payload + offsets[block]] {
      EncodePayload(from, end - begin, flags + begin / 4, to);
    });
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
    increasing[block] = StrictlyIncreasing({block_keys, static_cast<size_t>(end - begin)});
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
