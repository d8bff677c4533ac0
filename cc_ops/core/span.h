// Span<T>: a borrowed view of contiguous elements (std::span is C++20).
#ifndef TFCOMPRESS_CORE_SPAN_H_
#define TFCOMPRESS_CORE_SPAN_H_

#include <cassert>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace tfcompress {

template <typename T>
class Span {
 public:
  using Value = std::remove_const_t<T>;

  Span() = default;
  Span(T* data, size_t size) : data_(data), size_(size) {}
  // Views a vector, or (for const T) a temporary view of one: the vector must outlive the span.
  Span(std::conditional_t<std::is_const_v<T>, const std::vector<Value>, std::vector<Value>>&
           v)  // NOLINT
      : data_(v.data()), size_(v.size()) {}
  template <typename Allocator, typename U = T, typename = std::enable_if_t<std::is_const_v<U>>>
  Span(const std::vector<Value, Allocator>& v) : data_(v.data()), size_(v.size()) {}  // NOLINT
  // Converts to a span of const elements: Span<T> to Span<const T>, Span<T*> to Span<const T*>.
  template <typename U, typename = std::enable_if_t<!std::is_same_v<U, T> &&
                                                    std::is_convertible_v<U (*)[], T (*)[]>>>
  Span(Span<U> other) : data_(other.data()), size_(other.size()) {}  // NOLINT

  T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](size_t i) const {
    assert(i < size_);
    return data_[i];
  }
  // The part [offset, offset + count), which must be inside the span.
  Span subspan(size_t offset, size_t count) const {
    assert(offset <= size_ && count <= size_ - offset);
    return Span(data_ + offset, count);
  }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// std::allocator, but resize(n) leaves new elements as they are: what a codec appends is written
// once and not cleared before. Memory begins at a cache line, as that of a framework's tensors has
// to: a frame becomes one without a copy.
template <typename T>
struct UninitializedAllocator : std::allocator<T> {
  static constexpr std::align_val_t kCacheLine{64};

  template <typename U>
  struct rebind {
    using other = UninitializedAllocator<U>;
  };
  UninitializedAllocator() = default;
  template <typename U>
  UninitializedAllocator(const UninitializedAllocator<U>&) {}  // NOLINT

  T* allocate(size_t size) { return static_cast<T*>(::operator new(size * sizeof(T), kCacheLine)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kCacheLine); }

  template <typename U>
  void construct(U* element) {
    ::new (static_cast<void*>(element)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* element, Arguments&&... arguments) {
    ::new (static_cast<void*>(element)) U(std::forward<Arguments>(arguments)...);
  }
};

using Bytes = std::vector<unsigned char, UninitializedAllocator<unsigned char>>;
using ByteSpan = Span<const unsigned char>;

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SPAN_H_
