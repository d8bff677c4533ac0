// The parts of module _core. Each defines the functions of one source file.
#ifndef TFCOMPRESS_PYBIND_BINDINGS_H_
#define TFCOMPRESS_PYBIND_BINDINGS_H_

#include <pybind11/pybind11.h>

namespace tfcompress {

void DefineSpecBindings(pybind11::module_& module);  // The registry, and the meaning of specs.
void DefineFrameBindings(
    pybind11::module_& module);  // Frames of gradients: encode, decode, inspect.
void DefineRowsBindings(pybind11::module_& module);    // Frames of sparse rows of a table.
void DefineCodecBindings(pybind11::module_& module);   // Single codecs, for tests against oracles.
void DefineLinearBindings(pybind11::module_& module);  // Linear codecs, and sketches.

}  // namespace tfcompress

#endif  // TFCOMPRESS_PYBIND_BINDINGS_H_
