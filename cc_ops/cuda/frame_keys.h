// The supports of frames side by side, as lists of keys for the index codecs of deltas.
#ifndef TFCOMPRESS_CUDA_FRAME_KEYS_H_
#define TFCOMPRESS_CUDA_FRAME_KEYS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/status.h"
#include "cuda/encoded_frame.h"
#include "cuda/key_lists.h"
#include "cuda/parts.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// Tables of the lists, for more than one frame.
struct FrameKeys {
  KeyLists lists;
  uint64_t* code_begins_dev;  // Of the code of each list, in bytes after that of the first.
  uint64_t* num_bytes_dev;    // Length of the delta bytes of each list.
};

// For supports of at most max_keys elements together.
void TakeFrameKeys(uint32_t num_frames, uint32_t max_keys, Workspace* workspace, FrameKeys* keys);

// Fills the tables, after the sizes of the supports are set. The supports lie end to end, and
// begin in each frame's support_dev; likewise code_words_dev, if they are used.
Status PlaceFrameKeys(const Parts<EncodedFrame>& frames, const FrameKeys& keys,
                      cudaStream_t stream);

// The lists of the frames.
KeyLists ListsOf(const Parts<EncodedFrame>& frames, const FrameKeys& keys);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_FRAME_KEYS_H_
