// The index codecs raw and bitmap, seeded supports, and the check of decoded indices for all index
// codecs.
#ifndef TFCOMPRESS_CUDA_INDEX_SECTIONS_H_
#define TFCOMPRESS_CUDA_INDEX_SECTIONS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/marks.h"
#include "cuda/parts.h"
#include "cuda/support_section.h"

namespace tfcompress {
namespace device {

struct EncodedFrame;

// Writes the support of each frame.
Status WriteIndices(const Parts<EncodedFrame>& frames, cudaStream_t stream);
// Reads the k indices of each section.
Status ReadIndices(const Parts<SupportSection>& sections, cudaStream_t stream);

// Writes the marks of each frame, which are those of its support, as a bitmap. Does nothing for an
// empty support.
Status WriteBitmaps(const Parts<EncodedFrame>& frames, cudaStream_t stream);
// Lists what the bitmap of each section marks; `marks` are those of all. Sets bits of its error if
// not exactly k bits are set, or if a bit after the last element is set.
Status ReadBitmaps(const Parts<SupportSection>& sections, const Marks& marks, uint32_t bits,
                   cudaStream_t stream);

// Lists the support that the seed of each section tells; `marks` are those of all.
Status ListSeeded(const Parts<SupportSection>& sections, const Marks& marks, cudaStream_t stream);

// Sets bits of a section's error unless its indices increase strictly and are below its n; if
// *common_error_dev is set, of all, whose indices may not have been written then.
Status CheckIndices(const Parts<SupportSection>& sections, const uint32_t* common_error_dev,
                    uint32_t bits, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_INDEX_SECTIONS_H_
