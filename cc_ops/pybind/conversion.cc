#include "pybind/conversion.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace tfcompress {

namespace py = pybind11;

void ThrowIfError(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return;
    case StatusCode::kInvalidArgument:
      throw py::value_error(status.message());
    case StatusCode::kDataLoss:
      throw DataLossException(status.message());
    case StatusCode::kInternal:
      throw std::runtime_error(status.message());
  }
}

BytesView::BytesView(const py::object& object) {
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
}

py::bytes ToBytes(ByteSpan bytes) {
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void CheckVector(const char* name, const py::array& array, const py::dtype& dtype) {
  const bool contiguous = (array.flags() & py::array::c_style) != 0;
  if (array.ndim() == 1 && contiguous && array.dtype().equal(dtype)) return;
  throw py::value_error(py::str("{} must be a C-contiguous 1-D array of {}, got {} of shape {}{}")
                            .format(name, dtype, array.dtype(), array.attr("shape"),
                                    contiguous ? "" : ", not contiguous"));
}

DType ToDType(const std::string& name) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  throw py::value_error("dtype must be float32, float16 or bfloat16, got '" + name + "'");
}

py::dtype ToNumpyDType(DType dtype) {
  return dtype == DType::kFloat32 ? py::dtype::of<float>() : py::dtype::of<uint16_t>();
}

ThreadExecutor MakeExecutor(int num_threads) {
  if (num_threads < 0) {
    throw py::value_error("num_threads must be at least 0, got " + std::to_string(num_threads));
  }
  const int num_cores = static_cast<int>(std::thread::hardware_concurrency());
  return ThreadExecutor(num_threads > 0 ? num_threads : std::max(1, num_cores));
}

}  // namespace tfcompress
