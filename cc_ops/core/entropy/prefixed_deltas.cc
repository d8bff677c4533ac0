#include "core/entropy/prefixed_deltas.h"

#include <algorithm>
#include <type_traits>

#include "core/simd.h"
#include "core/strictly_increasing.h"

namespace tfcompress {
namespace {

// A delta and its prefix are written and read at once.
static_assert(kMaxHuffmanBits + kMaxDeltaBits <= kMaxStreamBits);

// Fields indexed by the bits that the delta needs.
using Fields = std::array<DeltaField, kMaxDeltaBits + 1>;

Fields FieldsOf(const DeltaScheme& scheme) {
  Fields fields = {};
  for (int num_bits = 1; num_bits <= scheme.max_width(); ++num_bits)
    fields[num_bits] = DeltaFieldOf(scheme, num_bits);
  return fields;
}

uint32_t KeyBefore(const uint32_t* keys, int64_t begin) { return begin == 0 ? 0 : keys[begin - 1]; }

// Fields indexed by the bits that a code begins with.
std::vector<DeltaField> FieldsByPrefix(const DeltaScheme& scheme) {
  std::vector<DeltaField> fields(size_t{1} << scheme.max_prefix_bits);
  uint32_t num_prefixes = 0;
  for (uint32_t c = 0; c < scheme.num_classes; ++c) num_prefixes += scheme.lengths[c] != 0;
  for (uint32_t c = 0; c < scheme.num_classes; ++c) {
    const HuffmanWord prefix = scheme.prefixes[c];
    if (prefix.length == 0) continue;
    // A prefix that is the only one is read from either bit.
    const size_t step = num_prefixes == 1 ? 1 : size_t{1} << prefix.length;
    for (size_t i = prefix.bits; i < fields.size(); i += step)
      fields[i] = DeltaFieldOf(scheme, scheme.widths[c]);
  }
  return fields;
}

// Calls use(std::integral_constant) with the number of fields that are written or read at once,
// none longer than `longest`: each access to the bit string waits for the one before it.
template <typename Use>
void WithFieldsAtOnce(int longest, const Use& use) {
  if (3 * longest <= kMaxStreamBits) {
    use(std::integral_constant<int, 3>());
  } else if (2 * longest <= kMaxStreamBits) {
    use(std::integral_constant<int, 2>());
  } else {
    use(std::integral_constant<int, 1>());
  }
}

template <int kAtOnce>
void WriteBlock(const Fields& fields, const uint32_t* keys, int64_t begin, int64_t end,
                BitWriter* writer) {
  Vectorized([=, fields = fields.data()] {
    BitWriter local = *writer;
    uint32_t previous = KeyBefore(keys, begin);
    int64_t i = begin;
    const auto write = [&](int count) {
      uint64_t bits = 0;
      int num_bits = 0;
      for (int j = 0; j < count; ++j, ++i) {
        const uint32_t delta = keys[i] - previous;
        previous = keys[i];
        const DeltaField field = fields[DeltaBits(delta)];
        bits |= (uint64_t{field.prefix} | uint64_t{delta} << field.num_prefix_bits) << num_bits;
        num_bits += field.num_bits;
      }
      local.Write(bits, num_bits);
    };
    while (i + kAtOnce <= end) write(kAtOnce);
    while (i < end) write(1);
  });
}

template <int kAtOnce>
void ReadBlock(const std::vector<DeltaField>& fields, uint32_t previous, Span<uint32_t> keys,
               BitReader* reader) {
  Vectorized([=, table = fields.data(), mask = fields.size() - 1] {
    BitReader local = *reader;
    uint32_t key = previous;
    uint32_t* next = keys.begin();
    const auto read = [&](int count) {
      uint64_t window = local.Peek();
      int num_bits = 0;
      for (int j = 0; j < count; ++j, ++next) {
        const DeltaField field = table[window & mask];
        const uint64_t above = ~uint64_t{0} << field.num_bits;
        *next = key += static_cast<uint32_t>((window & ~above) >> field.num_prefix_bits);
        window >>= field.num_bits;
        num_bits += field.num_bits;
      }
      local.Skip(num_bits);
    };
    while (keys.end() - next >= kAtOnce) read(kAtOnce);
    while (next < keys.end()) read(1);
    *reader = local;
  });
}

}  // namespace

std::vector<DeltaBitCounts> CountDeltaBits(Span<const uint32_t> keys, Executor* executor) {
  const auto num_keys = static_cast<int64_t>(keys.size());
  std::vector<DeltaBitCounts> blocks(static_cast<size_t>(NumBlocks(num_keys, kCodeBlock)));
  ForEachCodeBlock(executor, num_keys, [&](int64_t block, int64_t begin, int64_t end) {
    // Four sets of counters: consecutive deltas often have one size, and a counter that was just
    // stored is slow to load.
    std::array<std::array<uint32_t, kMaxDeltaBits + 1>, 4> counts = {};
    Vectorized([=, keys = keys.data(), counts = counts.data()] {
      uint32_t previous = KeyBefore(keys, begin);
      for (int64_t i = begin; i < end; ++i) {
        ++counts[i & 3][DeltaBits(keys[i] - previous)];
        previous = keys[i];
      }
    });
    for (size_t bits = 0; bits < blocks[block].size(); ++bits)
      for (const auto& part : counts) blocks[block][bits] += part[bits];
  });
  return blocks;
}

DeltaBitCounts Sum(const std::vector<DeltaBitCounts>& blocks) {
  DeltaBitCounts sum = {};
  for (const DeltaBitCounts& block : blocks)
    for (size_t bits = 0; bits < sum.size(); ++bits) sum[bits] += block[bits];
  return sum;
}

void EncodePrefixedDeltas(Span<const uint32_t> keys, const std::vector<DeltaBitCounts>& counts,
                          const DeltaScheme& scheme, Executor* executor, Bytes* out) {
  const Fields fields = FieldsOf(scheme);
  const auto num_keys = static_cast<int64_t>(keys.size());

  ByteWriter writer(out);
  std::vector<uint64_t> num_bits;
  int longest = 0;
  for (const DeltaBitCounts& block : counts) {
    uint64_t sum = 0;
    for (size_t bits = 0; bits < block.size(); ++bits) {
      sum += block[bits] * fields[bits].num_bits;
      if (block[bits] > 0) longest = std::max<int>(longest, fields[bits].num_bits);
    }
    num_bits.push_back(sum);
  }
  for (int64_t end = kCodeBlock; end < num_keys; end += kCodeBlock) writer.Write(keys[end - 1]);

  EncodeCodeBlocks(
      num_keys, num_bits, executor,
      [&](int64_t, int64_t begin, int64_t end, BitWriter* writer) {
        WithFieldsAtOnce(longest, [&](auto at_once) {
          WriteBlock<at_once>(fields, keys.data(), begin, end, writer);
        });
      },
      out);
}

Status DecodePrefixedDeltas(const char* what, uint64_t k, uint32_t n, const DeltaScheme& scheme,
                            Executor* executor, ByteReader* reader, std::vector<uint32_t>* keys) {
  keys->clear();
  if (k == 0) return OkStatus();
  if (k > n || k > 8 * uint64_t{reader->remaining()}) {
    return DataLoss(what, ": ", k, " keys do not fit in [0, ", n, ") or in ", reader->remaining(),
                    " bytes");
  }
  const auto num_keys = static_cast<int64_t>(k);
  std::vector<uint32_t> last_keys;
  TFC_RETURN_IF_ERROR(reader->ReadArray(
      what, static_cast<uint64_t>(NumBlocks(num_keys, kCodeBlock) - 1), &last_keys));

  const std::vector<DeltaField> fields = FieldsByPrefix(scheme);
  int longest = 0;
  for (const DeltaField& field : fields) longest = std::max<int>(longest, field.num_bits);
  keys->resize(static_cast<size_t>(k));
  TFC_RETURN_IF_ERROR(DecodeCodeBlocks(
      what, num_keys, executor, reader,
      [&](int64_t block, int64_t begin, int64_t end, BitReader* bits) -> Status {
        uint32_t* decoded = keys->data();
        const bool is_first = block == 0;
        const uint32_t previous = is_first ? 0 : last_keys[block - 1];
        const Span<uint32_t> block_keys(decoded + begin, static_cast<size_t>(end - begin));
        WithFieldsAtOnce(
            longest, [&](auto at_once) { ReadBlock<at_once>(fields, previous, block_keys, bits); });
        if ((is_first || decoded[begin] > previous) && StrictlyIncreasing(block_keys) &&
            (end == num_keys || decoded[end - 1] == last_keys[block])) {
          return OkStatus();
        }
        return DataLoss(what, ": the keys of block ", block,
                        " do not increase strictly or miss their last one");
      }));
  if (keys->back() < n) return OkStatus();
  return DataLoss(what, ": key ", keys->back(), " is outside [0, ", n, ")");
}

}  // namespace tfcompress
