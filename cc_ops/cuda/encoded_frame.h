// Frames that are encoded side by side: what the kernels of an encoding know of each. The number of
// their launches does not depend on how many frames there are.
#ifndef TFCOMPRESS_CUDA_ENCODED_FRAME_H_
#define TFCOMPRESS_CUDA_ENCODED_FRAME_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/wire_header.h"
#include "cuda/compensation.h"
#include "cuda/encode_state.h"
#include "cuda/parts.h"
#include "cuda/sent_slots.h"
#include "cuda/value_codes.h"
#include "cuda/value_statistics.h"

namespace tfcompress {
namespace device {

// Lengths that depend on the data; null where they follow from the support.
struct DataLengths {
  // delta_binary: the payload; bloom: the filter; delta_adaptive and delta_flag: the whole section.
  const uint64_t* num_payload_bytes_dev = nullptr;
  // The section of joint codecs and of measured values.
  const uint64_t* num_value_bytes_dev = nullptr;
};

// Of one compressor, and of gradients of one type. What is not used is null.
struct EncodedFrame {
  Compensation step;
  EncodeState* state_dev;
  // The support: its size, 0 if that depends on the data, and what finds it.
  uint32_t known_k;
  uint32_t max_sent;               // Upper bound of the values that are sent.
  uint32_t* histogram_dev;         // topk: of first digits.
  uint32_t* candidate_words_dev;   // Marks of the elements of large magnitude,
  uint64_t* candidate_counts_dev;  // and their number in each tile.
  const uint64_t* num_selected_dev;
  const uint64_t* num_kept_dev;  // Of values that narrow the support.
  // The sections.
  DataLengths lengths;
  SelectedValues values;
  const uint32_t* sent_dev;  // Indices that receivers will decode; null if all elements are sent.
  ValueParams* params_dev;
  Extremes* extremes_dev;
  SumBuffers sums[2];
  // The frame.
  WireHeader header;
  uint64_t max_bytes;
  unsigned char* data_dev;

  __device__ unsigned char* ValueSection() const {
    return data_dev + kFrameHeaderBytes + state_dev->num_index_bytes;
  }
  __device__ SentResidual Residual() const {
    return {step.slots[kResidualSlot].after_dev, sent_dev};
  }
};

// One launch for all frames, with blockIdx.y for the frame: `count` says how many threads one has
// work for.
template <typename... Parameters, typename Count, typename... Arguments>
Status LaunchFrames(const char* name, void (*kernel)(Parameters...),
                    const Parts<EncodedFrame>& frames, const Count& count, cudaStream_t stream,
                    const Arguments&... arguments) {
  return LaunchParts(name, kernel, CountItems(frames.on_host, count), frames.size(), stream,
                     frames.data_dev, arguments...);
}

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_ENCODED_FRAME_H_
