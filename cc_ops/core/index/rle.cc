// rle: run lengths of the bits of the bitmap (DeepReduce 2 and 11.0.1). Runs of zeros and of ones
// alternate. Each kind has a Rice code whose parameter the encoder chooses by exact cost. On
// average a run takes at most two bits more than log2 of the mean run; with both parameters 0 the
// code is the bitmap itself, so that it is never longer.
//
// Everything is computed from the indices, without making the bitmap.

#include <algorithm>

#include "core/entropy/code_blocks.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

constexpr int kMaxRiceBits = 31;
// Unary digits that are written or read at once, together with a one and kMaxRiceBits bits.
constexpr int kMaxUnary = kMaxStreamBits - 1 - kMaxRiceBits;
// The number of runs, and the parameters of zeros and ones.
constexpr uint64_t kHeaderBytes = 6;

// The Rice code of a number x with parameter r: x >> r zeros (the unary part), then a one and the r
// low bits of x (the last part).
struct Rice {
  Rice(uint32_t number, int r)
      : unary(number >> r),
        last(uint64_t{number & ((uint32_t{1} << r) - 1)} << 1 | 1),
        num_last(r + 1) {}

  uint64_t length() const { return uint64_t{unary} + static_cast<uint64_t>(num_last); }
  // The code as a bit string; only for codes of at most kMaxStreamBits bits.
  uint64_t bits() const { return last << unary; }

  uint32_t unary;
  uint64_t last;
  int num_last;
};

void WriteRice(const Rice& rice, BitWriter* writer) {
  uint32_t unary = rice.unary;
  for (; unary > kMaxUnary; unary -= kMaxUnary) writer->Write(0, kMaxUnary);
  writer->Write(rice.last << unary, static_cast<int>(unary) + rice.num_last);
}

void WritePair(const Rice& zeros, const Rice& ones, BitWriter* writer) {
  const uint64_t length = zeros.length() + ones.length();
  if (length <= kMaxStreamBits) {
    writer->Write(zeros.bits() | ones.bits() << zeros.length(), static_cast<int>(length));
  } else {
    WriteRice(zeros, writer);
    WriteRice(ones, writer);
  }
}

// Reads a number off the wire, which may be up to 2^63.
uint64_t ReadRice(int r, BitReader* reader) {
  constexpr uint64_t kUnaryMask = (uint64_t{1} << kMaxUnary) - 1;
  uint64_t unary = 0;
  uint64_t bits = reader->Peek();
  for (; (bits & kUnaryMask) == 0 && !reader->overrun(); bits = reader->Peek()) {
    unary = std::min(unary + kMaxUnary, kMaxElements + 1);
    reader->Skip(kMaxUnary);
  }
  const int num_last = __builtin_ctzll(bits | (kUnaryMask + 1));
  unary += static_cast<uint64_t>(num_last);
  reader->Skip(num_last + 1 + r);
  return unary << r | (bits >> (num_last + 1) & ((uint64_t{1} << r) - 1));
}

// Returns the cheapest parameter for numbers with the given sum; the least of equal ones. The cost
// is a convex function of the parameter, since each shift halves every number.
int CheapestRice(const std::vector<uint32_t>& numbers, uint64_t sum) {
  const uint64_t count = numbers.size();
  const auto cost = [&](int r) {
    uint64_t num_bits = count * static_cast<uint64_t>(r + 1);
    for (const uint32_t number : numbers) num_bits += number >> r;
    return num_bits;
  };
  int best = 0;
  while (best < kMaxRiceBits && sum >> (best + 1) >= count) ++best;  // log2 of the mean.
  uint64_t best_cost = cost(best);
  for (int step = -1; step <= 1; step += 2) {
    while (best + step >= 0 && best + step <= kMaxRiceBits) {
      const uint64_t next_cost = cost(best + step);
      if (next_cost > best_cost || (next_cost == best_cost && step > 0)) break;
      best += step;
      best_cost = next_cost;
    }
  }
  return best;
}

// Run i of zeros is before run i of ones. Only the first run may be empty, so the others are coded
// minus one. The last run of zeros, which ends at n, is not coded.
struct Runs {
  explicit Runs(size_t count) : zeros(count), ones(count) {}

  std::vector<uint32_t> zeros;
  std::vector<uint32_t> ones;
};

// Calls body(i, gap) for the indices of [begin, end) that begin a run of ones; `gap` is the
// distance from the index before, and 0 for the very first index.
template <typename Body>
void ForEachRunStart(Span<const uint32_t> indices, int64_t begin, int64_t end, const Body& body) {
  uint32_t previous = indices[begin == 0 ? 0 : begin - 1];
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t gap = indices[i] - previous;
    previous = indices[i];
    if (gap != 1) body(i, gap);
  }
}

// Returns the lengths as they are coded.
Runs FindRuns(Span<const uint32_t> indices, Executor* executor) {
  const auto k = static_cast<int64_t>(indices.size());
  std::vector<size_t> ends(static_cast<size_t>(NumBlocks(k)));
  ForEachBlock(executor, k, [&](int64_t block, int64_t begin, int64_t end) {
    size_t count = 0;
    ForEachRunStart(indices, begin, end, [&](int64_t, uint32_t) { ++count; });
    ends[block] = count;
  });
  for (size_t block = 1; block < ends.size(); ++block) ends[block] += ends[block - 1];

  Runs runs(ends.back());
  std::vector<uint32_t>& starts = runs.ones;  // Positions in `indices`; become lengths below.
  ForEachBlock(executor, k, [&](int64_t block, int64_t begin, int64_t end) {
    size_t run = block == 0 ? 0 : ends[block - 1];
    ForEachRunStart(indices, begin, end, [&](int64_t i, uint32_t gap) {
      runs.zeros[run] = gap - 2;
      starts[run++] = static_cast<uint32_t>(i);
    });
  });
  runs.zeros[0] = indices[0];
  for (size_t run = 0; run + 1 < starts.size(); ++run)
    runs.ones[run] = starts[run + 1] - starts[run] - 1;
  runs.ones.back() = static_cast<uint32_t>(k) - starts.back() - 1;
  return runs;
}

class RleIndexCodec : public IndexCodec {
 public:
  Result<DecodedIndices> Encode(Span<const uint32_t> indices, uint32_t, const CodecContext& context,
                                Bytes* out) const override {
    if (indices.empty()) return DecodedIndices();
    const Runs runs = FindRuns(indices, context.executor);
    const size_t num_runs = runs.ones.size();
    const uint64_t num_zeros = indices[indices.size() - 1] + uint64_t{1} - indices.size();
    const int zero_bits = CheapestRice(runs.zeros, num_zeros - (num_runs - 1));
    const int one_bits = CheapestRice(runs.ones, indices.size() - num_runs);

    ByteWriter writer(out);
    writer.Write(static_cast<uint32_t>(num_runs));
    writer.Write(static_cast<uint8_t>(zero_bits));
    writer.Write(static_cast<uint8_t>(one_bits));
    const auto count = static_cast<int64_t>(num_runs);
    std::vector<uint64_t> num_bits(static_cast<size_t>(NumBlocks(count, kCodeBlock)));
    ForEachCodeBlock(context.executor, count, [&](int64_t block, int64_t begin, int64_t end) {
      uint64_t sum = 0;
      for (int64_t i = begin; i < end; ++i)
        sum += Rice(runs.zeros[i], zero_bits).length() + Rice(runs.ones[i], one_bits).length();
      num_bits[block] = sum;
    });
    EncodeCodeBlocks(
        count, num_bits, context.executor,
        [&](int64_t, int64_t begin, int64_t end, BitWriter* block_writer) {
          BitWriter bits = *block_writer;
          for (int64_t i = begin; i < end; ++i)
            WritePair(Rice(runs.zeros[i], zero_bits), Rice(runs.ones[i], one_bits), &bits);
        },
        out);
    return DecodedIndices();
  }

  Status Decode(ByteSpan section, uint32_t n, uint32_t k, const CodecContext& context,
                std::vector<uint32_t>* indices) const override {
    indices->clear();
    ByteReader reader(section);
    if (k == 0) return reader.ExpectEnd("rle");
    uint32_t num_runs = 0;
    uint8_t zero_bits = 0;
    uint8_t one_bits = 0;
    TFC_RETURN_IF_ERROR(reader.Read("rle number of runs", &num_runs));
    TFC_RETURN_IF_ERROR(reader.Read("rle bits of zeros", &zero_bits));
    TFC_RETURN_IF_ERROR(reader.Read("rle bits of ones", &one_bits));
    // A run of zeros and a run of ones take at least two bits together.
    if (num_runs == 0 || num_runs > k || num_runs > 4 * reader.remaining() ||
        zero_bits > kMaxRiceBits || one_bits > kMaxRiceBits) {
      return DataLoss("rle: ", num_runs, " runs of ", k, " ones in ", reader.remaining(),
                      " bytes, with ", int{zero_bits}, " and ", int{one_bits}, " low bits");
    }

    // Sum all lengths first, to check them against k and n before k indices are allocated.
    struct Count {
      uint64_t zeros;
      uint64_t ones;
    };
    const auto count = static_cast<int64_t>(num_runs);
    std::vector<Count> ends(static_cast<size_t>(NumBlocks(count, kCodeBlock)));
    Runs runs(num_runs);
    TFC_RETURN_IF_ERROR(DecodeCodeBlocks(
        "rle", count, context.executor, &reader,
        [&](int64_t block, int64_t begin, int64_t end, BitReader* block_reader) -> Status {
          BitReader bits = *block_reader;
          Count sum = {0, 0};
          for (int64_t i = begin; i < end && sum.zeros + sum.ones <= n; ++i) {
            const uint64_t zeros = ReadRice(zero_bits, &bits) + (i > 0);
            const uint64_t ones = ReadRice(one_bits, &bits) + 1;
            runs.zeros[i] = static_cast<uint32_t>(zeros);
            runs.ones[i] = static_cast<uint32_t>(ones);
            sum.zeros += zeros;
            sum.ones += ones;
          }
          if (sum.zeros + sum.ones > n) return DataLoss("rle: the runs are longer than ", n);
          ends[block] = sum;
          *block_reader = bits;
          return OkStatus();
        }));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("rle"));
    for (size_t block = 1; block < ends.size(); ++block) {
      ends[block].zeros += ends[block - 1].zeros;
      ends[block].ones += ends[block - 1].ones;
    }
    const Count total = ends.back();
    if (total.ones != k || total.zeros + total.ones > n) {
      return DataLoss("rle: runs of ", total.zeros, " zeros and ", total.ones, " ones for ", k,
                      " of ", n);
    }

    indices->resize(k);
    ForEachCodeBlock(context.executor, count, [&](int64_t block, int64_t begin, int64_t end) {
      const Count before = block == 0 ? Count{0, 0} : ends[block - 1];
      uint32_t* next = indices->data() + before.ones;
      auto index = static_cast<uint32_t>(before.zeros + before.ones);
      for (int64_t i = begin; i < end; ++i) {
        index += runs.zeros[i];
        for (uint32_t ones = runs.ones[i]; ones > 0; --ones) *next++ = index++;
      }
    });
    return OkStatus();
  }

  // One run of ones, however long.
  uint64_t MinEncodedBytes(uint32_t, uint32_t) const override { return kHeaderBytes + 1; }
  uint64_t MaxEncodedBytes(uint32_t n, uint32_t k) const override {
    if (k == 0) return 0;
    // With parameter 0, ones take at most one bit each, and zeros as well, plus one bit.
    uint64_t num_zero_bits = uint64_t{n} - k + 1;
    for (int r = 1; r <= kMaxRiceBits; ++r) {
      num_zero_bits = std::min(
          num_zero_bits, ((uint64_t{n} - k) >> r) + uint64_t{k} * static_cast<uint64_t>(r + 1));
    }
    return kHeaderBytes + BytesOfBits(num_zero_bits + k) + MaxCodeBlockOverhead(k);
  }
};

}  // namespace

Definition<IndexCodec> RleIndex() {
  return {
      "Run lengths of the bitmap, as Rice codes; for indices in clusters (DeepReduce 2, 11.0.1).",
      {},
      Make<RleIndexCodec>,
      "exact",
      "by the number of runs"};
}

}  // namespace tfcompress
