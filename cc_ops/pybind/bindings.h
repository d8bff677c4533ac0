// The pieces of module _core; each defines the functions of one source file.
#ifndef TFCOMPRESS_PYBIND_BINDINGS_H_
#define TFCOMPRESS_PYBIND_BINDINGS_H_

#include <pybind11/pybind11.h>

namespace tfcompress {

void DefineSpecBindings(pybind11::module_& module);    // What there is, and what a spec means.
void DefineFrameBindings(pybind11::module_& module);   // Whole gradients: encode, decode, inspect.
void DefineRowsBindings(pybind11::module_& module);    // The same of some rows of a table.
void DefineCodecBindings(pybind11::module_& module);   // Single parts, for tests against oracles.
void DefineLinearBindings(pybind11::module_& module);  // Payloads that are summed, and sketches.

}  // namespace tfcompress

#endif  // TFCOMPRESS_PYBIND_BINDINGS_H_
