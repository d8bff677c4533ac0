// deflate: the float32 values through DEFLATE (RFC 1951; DeepReduce 3 lists it), exact. With
// `shuffle`, the first bytes of all values come first, then the second bytes, and so on: exponents
// stand together, and compress better than among mantissas.
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "core/byte_io.h"
#include "core/concatenate.h"
#include "core/float_order.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

// Values of a block. Blocks are compressed separately, so that encoding and decoding run in
// parallel; at 1 MiB a restart costs little.
constexpr int64_t kDeflateBlock = int64_t{1} << 18;
constexpr size_t kValueBytes = sizeof(float);
// Two bits, a length and a distance, copy 258 bytes.
constexpr uint64_t kMaxDeflateRatio = 258 * 4;

constexpr int kRawDeflate = -15;  // Window of 2^15 bytes; negative: no zlib header, no checksum.
constexpr int kMemoryLevel = 8;   // zlib's default.

// zlib can fail to start only for lack of memory, since its arguments are constants.
void CheckStarted(int code) {
  if (code != Z_OK) throw std::bad_alloc();
}

Bytes Deflate(const unsigned char* bytes, size_t num_bytes, int level) {
  z_stream stream = {};
  CheckStarted(
      deflateInit2(&stream, level, Z_DEFLATED, kRawDeflate, kMemoryLevel, Z_DEFAULT_STRATEGY));
  Bytes compressed(deflateBound(&stream, num_bytes));
  stream.next_in = const_cast<unsigned char*>(bytes);
  stream.avail_in = static_cast<uInt>(num_bytes);
  stream.next_out = compressed.data();
  stream.avail_out = static_cast<uInt>(compressed.size());
  deflate(&stream, Z_FINISH);  // One call is enough: the output has room for the bound.
  compressed.resize(compressed.size() - stream.avail_out);
  deflateEnd(&stream);
  return compressed;
}

// Inflates `compressed`; returns whether it is one whole stream of exactly `num_bytes` bytes. Never
// writes more than that.
bool Inflate(ByteSpan compressed, unsigned char* bytes, size_t num_bytes) {
  z_stream stream = {};
  CheckStarted(inflateInit2(&stream, kRawDeflate));
  stream.next_in = const_cast<unsigned char*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = bytes;
  stream.avail_out = static_cast<uInt>(num_bytes);
  const int code = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return code == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
}

// Moves byte j of value i to position j * count + i.
void Shuffle(const unsigned char* values, size_t count, unsigned char* planes) {
  for (size_t j = 0; j < kValueBytes; ++j) {
    for (size_t i = 0; i < count; ++i) planes[j * count + i] = values[i * kValueBytes + j];
  }
}

// Inverse of Shuffle.
void Unshuffle(const unsigned char* planes, size_t count, unsigned char* values) {
  for (size_t j = 0; j < kValueBytes; ++j) {
    for (size_t i = 0; i < count; ++i) values[i * kValueBytes + j] = planes[j * count + i];
  }
}

unsigned char* BytesOf(Span<float> values) {
  return reinterpret_cast<unsigned char*>(values.data());
}
const unsigned char* BytesOf(Span<const float> values) {
  return reinterpret_cast<const unsigned char*>(values.data());
}

class DeflateCodec : public ValueCodec {
 public:
  explicit DeflateCodec(const Params& params)
      : level_(static_cast<int>(params.Int("level"))), shuffles_(params.Choice("shuffle") == 1) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    std::vector<Bytes> blocks(NumBlocks(values.size(), kDeflateBlock));
    auto deflate_block = [&](int64_t block, int64_t begin, int64_t end) {
      const unsigned char* bytes = BytesOf(values.subspan(begin, end - begin));
      const size_t num_bytes = (end - begin) * kValueBytes;
      Bytes planes;
      if (shuffles_) {
        planes.resize(num_bytes);
        Shuffle(bytes, end - begin, planes.data());
        bytes = planes.data();
      }
      blocks[block] = Deflate(bytes, num_bytes, level_);
    };
    ForEachBlock(context.executor, values.size(), deflate_block, kDeflateBlock);

    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(shuffles_));
    for (const Bytes& block : blocks) writer.Write(static_cast<uint32_t>(block.size()));
    Concatenate(blocks, out);
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    uint8_t shuffled = 0;
    std::vector<uint32_t> lengths;
    TFC_RETURN_IF_ERROR(reader.Read("shuffle", &shuffled));
    if (shuffled > 1) return DataLoss("deflate: shuffle is ", int{shuffled}, ", 0 or 1 expected");
    TFC_RETURN_IF_ERROR(
        reader.ReadArray("lengths", NumBlocks(values.size(), kDeflateBlock), &lengths));
    std::vector<ByteSpan> blocks(lengths.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      TFC_RETURN_IF_ERROR(reader.ReadSpan("block", lengths[i], &blocks[i]));
    }
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("deflate"));

    std::atomic<bool> intact{true};
    auto inflate_block = [&](int64_t block, int64_t begin, int64_t end) {
      const Span<float> part = values.subspan(begin, end - begin);
      if (!InflateBlock(blocks[block], shuffled == 1, part)) intact = false;
    };
    ForEachBlock(context.executor, values.size(), inflate_block, kDeflateBlock);
    if (!intact) return DataLoss("deflate: a block does not hold its finite values");
    return OkStatus();
  }

  uint64_t MinEncodedBytes(uint32_t k) const override {
    const uint64_t num_blocks = NumBlocks(k, kDeflateBlock);
    return 1 + num_blocks * sizeof(uint32_t) + k * kValueBytes / kMaxDeflateRatio;
  }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    const uint64_t num_blocks = NumBlocks(k, kDeflateBlock);
    const uint64_t block_values = std::min<uint64_t>(k, kDeflateBlock);
    return 1 + num_blocks * (sizeof(uint32_t) + compressBound(block_values * kValueBytes));
  }

  double MaxError(Span<const float>) const override { return 0; }

 private:
  static bool InflateBlock(ByteSpan compressed, bool shuffled, Span<float> values) {
    const size_t num_bytes = values.size() * kValueBytes;
    if (shuffled) {
      Bytes planes(num_bytes);
      if (!Inflate(compressed, planes.data(), num_bytes)) return false;
      Unshuffle(planes.data(), values.size(), BytesOf(values));
    } else if (!Inflate(compressed, BytesOf(values), num_bytes)) {
      return false;
    }
    bool finite = true;
    for (float value : values) finite &= IsFiniteBits(FloatBits(value));
    return finite;
  }

  int level_;
  bool shuffles_;
};

}  // namespace

Definition<ValueCodec> DeflateValue() {
  return {"float32 through DEFLATE, exact (RFC 1951; DeepReduce 3)",
          {{"level", ParamKind::kInt, "6", "zlib's effort", 1, 9},
           ChoiceParam("shuffle", "0", "whether the bytes of values are regrouped", {"0", "1"})},
          Make<DeflateCodec>,
          "exact",
          "1 + 4 ceil(k / 2^18) + what DEFLATE makes of 4 k bytes"};
}

}  // namespace tfcompress
