#include "core/frame.h"
#include "pybind/bindings.h"
#include "pybind/conversion.h"

PYBIND11_MODULE(_core, module) {
  module.doc() =
      "The codecs of tfcompress at the level of NumPy, without TensorFlow. n is the number of "
      "elements of a gradient, k of those sent. Every function raises ValueError for a bad "
      "argument "
      "and DataLossError for bad bytes.";
  module.attr("FORMAT_VERSION") = int{tfcompress::kFrameVersion};
  pybind11::register_exception<tfcompress::DataLossException>(module, "DataLossError",
                                                              PyExc_ValueError);
  tfcompress::DefineSpecBindings(module);
  tfcompress::DefineFrameBindings(module);
  tfcompress::DefineRowsBindings(module);
  tfcompress::DefineCodecBindings(module);
  tfcompress::DefineLinearBindings(module);
}
