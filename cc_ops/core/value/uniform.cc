// uniform: fixed-point numbers from the least to the largest value of the tensor (ZipML, the
// baseline of SKCompress 7.1).
#include <algorithm>
#include <cmath>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"
#include "core/simd.h"
#include "core/value/block_statistics.h"
#include "core/value/fixed_point.h"

namespace tfcompress {
namespace {

ValueRange RangeOf(Span<const float> values, Executor* executor) {
  if (values.empty()) return {};
  const auto keys = KeyRangeOf(values, executor, [](float value) { return OrderedKey(value); });
  return ValueRange::OfKeys(keys.least, keys.largest);
}

template <typename Code>
void EncodeBlock(FixedPoint fixed_point, const float* values, int64_t size, unsigned char* codes) {
  Vectorized([=] {
    for (int64_t i = 0; i < size; ++i) {
      StoreUnaligned(codes + sizeof(Code) * i, static_cast<Code>(fixed_point.CodeOf(values[i])));
    }
  });
}
template <typename Code>
void DecodeBlock(FixedPoint fixed_point, const unsigned char* codes, int64_t size, float* values) {
  Vectorized([=] {
    for (int64_t i = 0; i < size; ++i)
      values[i] = fixed_point.ValueOf(LoadUnaligned<Code>(codes + sizeof(Code) * i));
  });
}

class Uniform : public ValueCodec {
 public:
  explicit Uniform(const Params& params) : num_bits_(params.Choice("bits") == 0 ? 8 : 16) {}

  Status Encode(Span<const float> values, const Support&, const CodecContext& context,
                Bytes* out) const override {
    const ValueRange range = RangeOf(values, context.executor);
    ByteWriter writer(out);
    writer.Write(static_cast<uint8_t>(num_bits_));
    writer.Write(range.least);
    writer.Write(range.largest);
    const int num_code_bytes = num_bits_ / 8;
    unsigned char* codes = writer.Extend(values.size() * num_code_bytes);
    const FixedPoint fixed_point(range, num_bits_);
    const auto encode = num_bits_ == 8 ? EncodeBlock<uint8_t> : EncodeBlock<uint16_t>;
    ForEachBlock(context.executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
      encode(fixed_point, values.data() + begin, end - begin, codes + num_code_bytes * begin);
    });
    return OkStatus();
  }

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    ByteReader reader(section);
    uint8_t num_bits = 0;
    ValueRange range;
    ByteSpan codes;
    TFC_RETURN_IF_ERROR(reader.Read("number of bits", &num_bits));
    TFC_RETURN_IF_ERROR(reader.Read("least value", &range.least));
    TFC_RETURN_IF_ERROR(reader.Read("largest value", &range.largest));
    if (num_bits != 8 && num_bits != 16) {
      return DataLoss("uniform: codes of ", int{num_bits}, " bits, 8 or 16 expected");
    }
    if (!range.IsValid()) {
      return DataLoss("uniform: values in [", range.least, ", ", range.largest, "]");
    }
    range = {FlushSubnormal(range.least), FlushSubnormal(range.largest)};
    TFC_RETURN_IF_ERROR(reader.ReadSpan("codes", uint64_t{k} * num_bits / 8, &codes));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("uniform"));
    const auto decode = num_bits == 8 ? DecodeBlock<uint8_t> : DecodeBlock<uint16_t>;
    *decoder = [=, fixed_point = FixedPoint(range, num_bits), num_code_bytes = num_bits / 8](
                   int64_t begin, int64_t end, float* values) {
      decode(fixed_point, codes.data() + num_code_bytes * begin, end - begin, values);
      return OkStatus();
    };
    return OkStatus();
  }

  uint64_t MinEncodedBytes(uint32_t k) const override { return kHeaderBytes + uint64_t{k}; }
  uint64_t MaxEncodedBytes(uint32_t k) const override {
    return kHeaderBytes + uint64_t{k} * num_bits_ / 8;
  }

  // Half a step, plus rounding to float32 and subnormal numbers that became 0.
  double MaxError(Span<const float> values) const override {
    const ValueRange range = RangeOf(values, SerialExecutor());
    const double step = FixedPoint(range, num_bits_).step();
    const double largest = std::max(std::fabs(range.least), std::fabs(range.largest));
    return step * (0.5 + 1e-9) + largest * 0x1p-24 + 0x1p-125;
  }

 private:
  static constexpr uint64_t kHeaderBytes = 9;

  int num_bits_;
};

}  // namespace

Definition<ValueCodec> UniformValue() {
  return {"fixed-point numbers between the least and the largest value (ZipML; SKCompress 7.1)",
          {ChoiceParam("bits", "8", "bits of a number", {"8", "16"})},
          Make<Uniform>,
          "half a step: (max - min) / (2^bits - 1) / 2",
          "9 + bits k / 8"};
}

}  // namespace tfcompress
