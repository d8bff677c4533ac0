// The functions of module _cuda. The tests build a second module with them, on the emulator.
#ifndef TFCOMPRESS_PYBIND_CUDA_CUDA_BINDINGS_H_
#define TFCOMPRESS_PYBIND_CUDA_CUDA_BINDINGS_H_

#include <pybind11/pybind11.h>

namespace tfcompress {

void DefineCudaBindings(pybind11::module_& module);

}  // namespace tfcompress

#endif  // TFCOMPRESS_PYBIND_CUDA_CUDA_BINDINGS_H_
