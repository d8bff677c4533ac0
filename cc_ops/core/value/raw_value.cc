// raw: the values as float32.
#include <cstring>

#include "core/byte_io.h"
#include "core/finite.h"
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

  Status Open(ByteSpan section, uint32_t k, ChunkDecoder* decoder) const override {
    ByteReader reader(section);
    ByteSpan bytes;
    TFC_RETURN_IF_ERROR(reader.ReadSpan("values", k * sizeof(float), &bytes));
    TFC_RETURN_IF_ERROR(reader.ExpectEnd("raw values"));
    *decoder = [=](int64_t begin, int64_t end, float* values) {
      const int64_t count = end - begin;
      std::memcpy(values, &bytes[begin * sizeof(float)], count * sizeof(float));
      if (AllFinite({values, static_cast<size_t>(count)})) return OkStatus();
      return DataLoss("raw values: a value is not finite");
    };
    return OkStatus();
  }

  uint64_t MinEncodedBytes(uint32_t k) const override { return uint64_t{k} * sizeof(float); }
  uint64_t MaxEncodedBytes(uint32_t k) const override { return uint64_t{k} * sizeof(float); }
  double MaxError(Span<const float>) const override { return 0; }
};

}  // namespace

Definition<ValueCodec> RawValue() {
  return {"values as float32, exact", {}, Make<Raw>, "exact", "4 k"};
}

}  // namespace tfcompress
