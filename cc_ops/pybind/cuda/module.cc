#include "pybind/cuda/cuda_bindings.h"

PYBIND11_MODULE(_cuda, module) {
  module.doc() =
      "The codecs' variants for GPUs, on arrays with `__cuda_array_interface__`. Raises ValueError "
      "for a bad argument, and for a spec that has no variant; DataLossError for bad bytes; "
      "RuntimeError for errors of CUDA.";
  tfcompress::DefineCudaBindings(module);
}
