// Value sections that begin with parameters common to all values (statistics), followed by codes.
#ifndef TFCOMPRESS_CUDA_CODED_VALUES_H_
#define TFCOMPRESS_CUDA_CODED_VALUES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/span.h"
#include "core/status.h"
#include "cuda/bucket_quantizer.h"
#include "cuda/dexp_curves.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/sorted_values.h"
#include "cuda/value_codes.h"
#include "cuda/value_spec.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// A value section on the device.
struct ValueSectionView {
  ValueKind kind;
  const unsigned char* data_dev;
  uint64_t num_bytes;  // Already checked if it follows from k, that is, if not IsCoded.
  uint32_t k;
};

// A value section to add to a sum.
struct AddedValues {
  ValueSectionView section;
  const uint32_t* indices_dev;  // Distinct and in range, once checked; null: all elements.
  ValueParams* params_dev;      // For what the section begins with.
  float* table_dev;             // For the levels of log, or the decoded value of each rank.
  uint32_t* error_dev;
  // The sum: n elements.
  uint32_t n;
  DType dtype;
  float* sum_dev;  // While it is not complete.
  void* out_dev;   // When it is, as `dtype`; sum_dev if that is float32.
};

// Buffers of frames side by side, beside what each frame has of its own.
struct CodedBuffers {
  QuantizerBuffers quantizer;  // A part for each frame.
  float* levels_dev;           // log: spec.max_levels for each frame.
  SortedBuffers sorted;        // Ranks, and the decoded value of each.
  CurveBuffers curves;         // dexp
};

// Takes buffers for frames that send at most max_sent values each. Sets what coded values have of
// the frames: parameters, extremes, sums, and the length of values that are measured.
Status TakeCodedBuffers(const ValueSpec& spec, Workspace* workspace, Span<EncodedFrame> frames,
                        CodedBuffers* buffers);

// Finds the parameters from which the lengths of the sections follow, for the values that frames
// send and a spec that IsMeasured: sets params_dev, with the length. To be called before the frames
// are laid out. The extremes must be 0 before.
Status MeasureValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                     const CodedBuffers& buffers, cudaStream_t stream);

// As EncodeValues of values.h, for a spec that IsCoded. Call MeasureValues first if it IsMeasured.
Status EncodeCodedValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                         const CodedBuffers& buffers, cudaStream_t stream);

// Elements of the table that k values in a section of num_bytes bytes may need; see AddedValues.
uint64_t TableSize(ValueKind kind, uint32_t k, uint64_t num_bytes);

// Reads and checks the parameters of sections that are of one kind, and IsCoded, and computes their
// tables. Sets bits of the errors of those that are not valid.
Status ReadParameters(const Parts<AddedValues>& sections, uint32_t bits, cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CODED_VALUES_H_
