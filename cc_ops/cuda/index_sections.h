// The index codecs raw and bitmap, and the check of decoded indices for all index codecs.
#ifndef TFCOMPRESS_CUDA_INDEX_SECTIONS_H_
#define TFCOMPRESS_CUDA_INDEX_SECTIONS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/marks.h"
#include "cuda/parts.h"

namespace tfcompress {
namespace device {

struct AddedValues;
struct EncodedFrame;

// Writes the support of each frame.
Status WriteIndices(const Parts<EncodedFrame>& frames, cudaStream_t stream);
Status ReadIndices(const unsigned char* section_dev, uint32_t k, uint32_t* indices_dev,
                   cudaStream_t stream);

// Writes the marks of each frame, which are those of its support, as a bitmap. Does nothing for an
// empty support.
Status WriteBitmaps(const Parts<EncodedFrame>& frames, cudaStream_t stream);
// Overwrites the marks with a bitmap and lists the k marked indices. Sets bits of *error_dev if not
// exactly k bits are set, or if a bit after the last element is set.
Status ReadBitmap(const unsigned char* section_dev, uint32_t k, const Marks& marks, uint32_t bits,
                  uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream);

// Sets bits of a section's error unless its indices, if it has any, increase strictly and are below
// its n.
Status CheckIndices(const Parts<AddedValues>& sections, uint32_t bits, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_INDEX_SECTIONS_H_
