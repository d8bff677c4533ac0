// The module _cuda on the emulator, with memory from which tests make arrays.
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "pybind/conversion.h"
#include "pybind/cuda/cuda_bindings.h"

namespace {

namespace py = pybind11;

void Check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorName(error));
}

uintptr_t Allocate(size_t num_bytes) {
  void* pointer = nullptr;
  Check(cudaMalloc(&pointer, num_bytes));
  return reinterpret_cast<uintptr_t>(pointer);
}

void Free(uintptr_t pointer) { Check(cudaFree(reinterpret_cast<void*>(pointer))); }

// Writes on the given stream, if any, without waiting.
void Write(uintptr_t pointer, const py::buffer& data, uintptr_t stream) {
  const py::buffer_info info = data.request();
  const auto on = reinterpret_cast<cudaStream_t>(stream);
  Check(cudaMemcpyAsync(reinterpret_cast<void*>(pointer), info.ptr,
                        static_cast<size_t>(info.size * info.itemsize), cudaMemcpyHostToDevice,
                        on));
  if (stream == 0) Check(cudaStreamSynchronize(on));
}

py::bytes Read(uintptr_t pointer, size_t num_bytes) {
  std::string bytes(num_bytes, '\0');
  Check(cudaMemcpyAsync(bytes.data(), reinterpret_cast<const void*>(pointer), num_bytes,
                        cudaMemcpyDeviceToHost, nullptr));
  Check(cudaStreamSynchronize(nullptr));
  return bytes;
}

uintptr_t MakeStream() {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreate(&stream));
  return reinterpret_cast<uintptr_t>(stream);
}

void DestroyStream(uintptr_t stream) {
  Check(cudaStreamDestroy(reinterpret_cast<cudaStream_t>(stream)));
}

}  // namespace

PYBIND11_MODULE(_cuda_emulated, module) {
  tfcompress::DefineCudaBindings(module);
  module.def("allocate", &Allocate, "Fresh memory, full of garbage, as an address.");
  module.def("free", &Free);
  module.def("write", &Write, "Copies to memory; with a stream, when somebody waits for that.");
  module.def("read", &Read);
  module.def("make_stream", &MakeStream);
  module.def("destroy_stream", &DestroyStream);
}
