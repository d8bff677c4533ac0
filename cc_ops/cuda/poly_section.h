// The sections of poly on the device.
#ifndef TFCOMPRESS_CUDA_POLY_SECTION_H_
#define TFCOMPRESS_CUDA_POLY_SECTION_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/coded_values.h"

namespace tfcompress {
namespace device {

// MeasureValues of coded_values.h for poly.
Status MeasurePoly(const ValueSpec& spec, const SelectedValues& values, uint32_t max_k,
                   const uint32_t* k_dev, const CodedBuffers& buffers, cudaStream_t stream);

// Writes what precedes the ranks, after MeasurePoly.
Status WriteSegments(const CodedBuffers& buffers, const EncodeState* state_dev,
                     unsigned char* frame_dev, cudaStream_t stream);

// Reads what precedes the ranks and computes the table of their values; sets bits of *error_dev if
// no section of k values begins so.
Status ReadSegments(const ValueSectionView& section, uint32_t bits, const ParamBuffers& buffers,
                    uint32_t* error_dev, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_POLY_SECTION_H_
