// Whether this machine's driver runs what was compiled with this CUDA.
#ifndef TFCOMPRESS_CUDA_DRIVER_H_
#define TFCOMPRESS_CUDA_DRIVER_H_

#include "core/status.h"

namespace tfcompress {
namespace device {

// Returns the version of CUDA that the driver supports, as CUDA counts (12040 is 12.4); 0 if there
// is no driver. Initializes neither CUDA nor a GPU, so that processes may still fork.
int DriverVersion();

// Returns InvalidArgument, with what to do, unless a driver for CUDA `driver` runs kernels and a
// runtime of CUDA `runtime`: a driver runs all minor versions of its major one, and older ones; but
// from 12.1 on, kernels have parameters that older drivers do not know.
Status CheckVersions(int driver, int runtime);

// The same for this machine's driver and the runtime that is linked here.
Status CheckDriver();

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DRIVER_H_
