// Value sections that begin with parameters common to all values (statistics), followed by codes.
#ifndef TFCOMPRESS_CUDA_CODED_VALUES_H_
#define TFCOMPRESS_CUDA_CODED_VALUES_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "core/span.h"
#include "core/status.h"
#include "cuda/bucket_quantizer.h"
#include "cuda/dexp_curves.h"
#include "cuda/encoded_frame.h"
#include "cuda/parts.h"
#include "cuda/sorted_values.h"
#include "cuda/value_codes.h"
#include "cuda/value_spec.h"
#include "cuda/value_statistics.h"
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
  TFC_HOST_DEVICE uint32_t NumIndices() const { return indices_dev == nullptr ? 0 : section.k; }

  ValueSectionView section;
  const uint32_t* indices_dev;  // Distinct and in range, once checked; null: all elements.
  ValueParams* params_dev;      // For what the section begins with.
  uint32_t* error_dev;
  float* sum_dev;
  uint32_t n;  // Elements of the sum.
};

struct CodedBuffers {
  ValueParams* params_dev;
  Extremes* extremes_dev;
  SumBuffers sums[2];
  QuantizerBuffers quantizer;
  float* levels_dev;     // log
  SortedBuffers sorted;  // Ranks.
  float* table_dev;      // Decoded value of each rank.
  CurveBuffers curves;   // dexp
};

// Takes buffers for up to max_k values.
Status TakeCodedBuffers(const ValueSpec& spec, uint32_t max_k, Workspace* workspace,
                        CodedBuffers* buffers);

// Finds the parameters from which the length of the section follows, for *k_dev <= max_k values and
// a spec that IsMeasured: sets buffers.params_dev, with the length. To be called before the frame
// is laid out.
Status MeasureValues(const ValueSpec& spec, const SelectedValues& values, uint32_t max_k,
                     const uint32_t* k_dev, const CodedBuffers& buffers, cudaStream_t stream);

// As EncodeValues of values.h, for a spec that IsCoded. Call MeasureValues first if it IsMeasured.
Status EncodeCodedValues(const ValueSpec& spec, const Parts<EncodedFrame>& frames,
                         Span<const CodedBuffers> buffers, cudaStream_t stream);

// For decoding: the levels or the table computed from the parameters of a section.
struct ParamBuffers {
  float* levels_dev;  // log
  float* table_dev;   // Decoded value of each rank.
};

// Maximum sizes over the frames to decode, for the buffers.
struct ParamNeeds {
  bool has_log = false;
  uint32_t max_ranks = 0;

  void Add(ValueKind kind, uint32_t k) {
    has_log |= kind == ValueKind::kLog;
    if (HasRanks(kind) && k > max_ranks) max_ranks = k;
  }
};
void TakeParamBuffers(const ParamNeeds& needs, Workspace* workspace, ParamBuffers* buffers);

// Whether sections of the kind are decoded with the only ParamBuffers: one after the other.
inline bool NeedsTables(ValueKind kind) { return kind == ValueKind::kLog || HasRanks(kind); }

PartItems CountValues(const Parts<AddedValues>& sections);

// Reads and checks the parameters of sections that are of one kind, and IsCoded; one section if the
// kind NeedsTables. Sets bits of the errors of those that are not valid.
Status ReadParameters(const Parts<AddedValues>& sections, uint32_t bits,
                      const ParamBuffers& buffers, cudaStream_t stream);
// As AddScaled of values.h, for a kind that IsCoded.
Status AddCodedValues(const Parts<AddedValues>& sections, float scale, uint32_t bits,
                      cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_CODED_VALUES_H_
