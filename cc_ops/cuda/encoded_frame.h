// Frames that are encoded side by side: what the kernels of an encoding know of each. A kernel
// takes one launch for all frames.
#ifndef TFCOMPRESS_CUDA_ENCODED_FRAME_H_
#define TFCOMPRESS_CUDA_ENCODED_FRAME_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/frame.h"
#include "core/host_device.h"
#include "core/wire_header.h"
#include "cuda/compensation.h"
#include "cuda/encode_state.h"
#include "cuda/marks.h"
#include "cuda/select_largest.h"
#include "cuda/sent_slots.h"
#include "cuda/value_codes.h"
#include "cuda/value_statistics.h"

namespace tfcompress {
namespace device {

// Lengths that depend on the data; null where they follow from the support.
struct DataLengths {
  // delta_binary: the payload; bloom: the filter; what is written to code_words_dev: all of it.
  const uint64_t* num_payload_bytes_dev = nullptr;
  // The section of joint codecs and of measured values.
  const uint64_t* num_value_bytes_dev = nullptr;
};

// Of one compressor, and of gradients of one type. What is not used is null.
struct EncodedFrame {
  Compensation compensation;
  EncodeState* state_dev;
  // The support.
  uint32_t known_k;         // Its size, 0 if that depends on the data.
  uint32_t max_k;           // Upper bound of its size.
  uint32_t max_sent;        // Upper bound of the values that are sent.
  bool marks_by_magnitude;  // Settle marks the elements of large magnitude.
  Marks marks;              // Of candidates (topk), of the support, or of a filter.
  SelectSpace select;       // For topk, and for the policies p1 and p2 of Bloom filters.
  uint32_t* support_dev;    // Its indices; null if it is all elements.
  // The sections.
  uint32_t* list_size_dev;  // Size of the support among KeyLists, if it is one of several.
  // Where prefixed deltas, a Bloom filter, or a section of skcompress is written before it is
  // brought to bytes.
  uint32_t* code_words_dev;
  DataLengths lengths;
  SelectedValues values;
  uint32_t* sent_dev;  // Indices that receivers will decode; null if all elements are sent.
  ValueParams* params_dev;
  Extremes* extremes_dev;
  SumBuffers sums[2];
  // The frame.
  WireHeader header;
  uint64_t max_bytes;
  unsigned char* data_dev;

  TFC_HOST_DEVICE SelectedValues Support() const {
    return {CompensatedVector(compensation), support_dev};
  }
  __device__ unsigned char* ValueSection() const {
    return data_dev + kFrameHeaderBytes + state_dev->num_index_bytes;
  }
  __device__ SentResidual Residual() const {
    return {compensation.slots[kResidualSlot].after_dev, sent_dev};
  }
};

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_ENCODED_FRAME_H_
