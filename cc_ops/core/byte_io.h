// Little-endian reading and writing of bytes. ByteReader is the only place that compares a number
// off the wire with the remaining bytes: it is widened, checked, then used.
#ifndef TFCOMPRESS_CORE_BYTE_IO_H_
#define TFCOMPRESS_CORE_BYTE_IO_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/host_device.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tfcompress writes little-endian bytes and has no byte-swapping variant"
#endif

// Loads and stores a T at any alignment.
template <typename T>
TFC_HOST_DEVICE T LoadUnaligned(const void* p) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <typename T>
TFC_HOST_DEVICE void StoreUnaligned(void* p, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(p, &value, sizeof(T));
}

// Appends to a byte vector that the caller owns and that must outlive the writer.
class ByteWriter {
 public:
  explicit ByteWriter(Bytes* out) : out_(out) {}

  template <typename T>
  void Write(T value) {
    StoreUnaligned(Extend(sizeof(T)), value);
  }
  template <typename T>
  void WriteArray(Span<const T> values) {
    if (!values.empty())
      std::memcpy(Extend(values.size() * sizeof(T)), values.data(), values.size() * sizeof(T));
  }
  // Appends `num_bytes` bytes, all of which the caller sets, and returns where they start; valid
  // until the next append. Not inlined: GCC 12 would warn of the moves in it.
  [[gnu::noinline]] unsigned char* Extend(size_t num_bytes) {
    const size_t offset = out_->size();
    out_->resize(offset + num_bytes);
    return out_->data() + offset;
  }
  // The same with zeros, for bits that are set one by one.
  unsigned char* ExtendByZeros(size_t num_bytes) {
    const size_t offset = out_->size();
    out_->resize(offset + num_bytes, 0);
    return out_->data() + offset;
  }
  size_t size() const { return out_->size(); }

 private:
  Bytes* out_;
};

// Reads from the front of borrowed bytes. Every failure is DataLoss with the field's name.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  size_t remaining() const { return bytes_.size() - position_; }

  // Skips to the next byte that is not zero, or to the end.
  void SkipZeros() {
    while (remaining() > 0 && bytes_[position_] == 0) ++position_;
  }

  template <typename T>
  Status Read(const char* field, T* value) {
    if (remaining() < sizeof(T)) return Truncated(field, sizeof(T));
    *value = LoadUnaligned<T>(bytes_.data() + position_);
    position_ += sizeof(T);
    return OkStatus();
  }
  // Reads the next `num_bytes` bytes, borrowed from the input.
  Status ReadSpan(const char* field, uint64_t num_bytes, ByteSpan* span) {
    if (remaining() < num_bytes) return Truncated(field, num_bytes);
    *span = bytes_.subspan(position_, static_cast<size_t>(num_bytes));
    position_ += static_cast<size_t>(num_bytes);
    return OkStatus();
  }
  // Copies `count` values of type T; checks the length before it allocates.
  template <typename T>
  Status ReadArray(const char* field, uint64_t count, std::vector<T>* values) {
    if (count > remaining() / sizeof(T)) return Truncated(field, count * sizeof(T));
    values->resize(static_cast<size_t>(count));
    if (count > 0)
      std::memcpy(values->data(), bytes_.data() + position_, values->size() * sizeof(T));
    position_ += values->size() * sizeof(T);
    return OkStatus();
  }
  // Fails when bytes are left over: a section has exactly the length that its content needs.
  Status ExpectEnd(const char* what) const {
    if (remaining() == 0) return OkStatus();
    return DataLoss(what, ": ", remaining(), " bytes too many");
  }

 private:
  Status Truncated(const char* field, uint64_t needed) const {
    return DataLoss("truncated at ", field, ": needs ", needed, " bytes, ", remaining(), " left");
  }

  ByteSpan bytes_;
  size_t position_ = 0;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_BYTE_IO_H_
