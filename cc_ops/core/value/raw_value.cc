// raw: the values as float32.
#include <atomic>
#include <cstring>

#include "core/byte_io.h"
#include "core/float_order.h"
#include "core/registry.h"

namespace tfcompress {
namespace {

class Raw : public ValueCodec {
 public:
  Status Encode(Span<const float> values, const Support&, const CodecContext&,
                Bytes* out) const override {
    ByteWriter(out).WriteArray(values);
    return OkStatus();
  }

  Status Decode(ByteSpan section, const Support&, const CodecContext& context,
                Span<float> values) const override {
    ByteReader reader(section);
    ByteSpan bytes;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("values", values.size() * sizeof(float), &bytes));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("raw values"));
    std::atomic<bool> finite{true};
    ForEachBlock(context.executor, values.size(), [&](int64_t, int64_t begin, int64_t end) {
      std::memcpy(&values[begin], &bytes[begin * sizeof(float)], (end - begin) * sizeof(float));
      bool block_finite = true;
      for (int64_t i = begin; i < end; ++i) block_finite &= IsFiniteBits(FloatBits(values[i]));
      if (!block_finite) finite = false;
    });
    if (!finite) return DataLoss("raw values: a value is not finite");
    return OkStatus();
  }

  uint64_t MinEncodedBytes(uint32_t k) const override { return uint64_t{k} * sizeof(float); }
  uint64_t MaxEncodedBytes(uint32_t k) const override { return uint64_t{k} * sizeof(float); }
  double MaxError(Span<const float>) const override { return 0; }
};

}  // namespace

Definition<ValueCodec> RawValue() {
  return {
      "values as float32, exact",
      {},
      [](const Params&) -> std::unique_ptr<const ValueCodec> { return std::make_unique<Raw>(); },
      "exact",
      "4 k"};
}

}  // namespace tfcompress
