// Conversions between objects of Python and of the core: errors, bytes, arrays and names.
#ifndef TFCOMPRESS_PYBIND_CONVERSION_H_
#define TFCOMPRESS_PYBIND_CONVERSION_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/executor.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Python's DataLossError.
class DataLossException : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws ValueError for InvalidArgument, DataLossError for DataLoss.
void ThrowIfError(const Status& status);

template <typename T>
T ValueOrThrow(Result<T> result) {
  ThrowIfError(result.status());
  return std::move(result.value());
}

// Returns work(), which runs without the GIL and so touches no object of Python.
template <typename Work>
auto WithoutGil(const Work& work) {
  pybind11::gil_scoped_release release;
  return work();
}

// The bytes of a bytes object, bytearray, memoryview or C-contiguous array. Locks the object's size
// for its own lifetime. Create and destroy it under the GIL; the span may be read without.
class BytesView {
 public:
  explicit BytesView(const pybind11::object& object);
  BytesView(const BytesView&) = delete;
  BytesView& operator=(const BytesView&) = delete;
  ~BytesView() { PyBuffer_Release(&view_); }

  ByteSpan span() const {
    return {static_cast<const unsigned char*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

pybind11::bytes ToBytes(ByteSpan bytes);

// Throws ValueError, with the argument's `name`, unless `array` is 1-D, C-contiguous and of
// `dtype`.
void CheckVector(const char* name, const pybind11::array& array, const pybind11::dtype& dtype);

// Borrows the elements of a 1-D array of exactly T.
template <typename T>
Span<const T> ToSpan(const char* name, const pybind11::array& array) {
  CheckVector(name, array, pybind11::dtype::of<T>());
  return {static_cast<const T*>(array.data()), static_cast<size_t>(array.size())};
}

template <typename T>
pybind11::array_t<T> ToArray(const std::vector<T>& values) {
  return pybind11::array_t<T>(static_cast<pybind11::ssize_t>(values.size()), values.data());
}

// Parses "float32", "float16" or "bfloat16".
DType ToDType(const std::string& name);
// The NumPy type that carries `dtype`: float32, or the uint16 bit patterns of the other two.
pybind11::dtype ToNumpyDType(DType dtype);

// Makes an executor of `num_threads` threads, or of one thread per core if it is 0.
ThreadExecutor MakeExecutor(int num_threads);

}  // namespace tfcompress

#endif  // TFCOMPRESS_PYBIND_CONVERSION_H_
