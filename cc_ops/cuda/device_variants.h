// Which parts of a spec have a device variant: the tables, by the names of the registry. They see
// nothing of CUDA, so that listings on every machine can tell.
#ifndef TFCOMPRESS_CUDA_DEVICE_VARIANTS_H_
#define TFCOMPRESS_CUDA_DEVICE_VARIANTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/compressor.h"
#include "core/index/bloom_policy.h"
#include "core/status.h"
#include "cuda/joint_spec.h"
#include "cuda/memory_spec.h"
#include "cuda/value_spec.h"

namespace tfcompress {
namespace device {

enum class SparsifierKind { kDense, kNonzero, kThreshold, kTopK, kRandomK };
enum class IndexKind {
  kImplied,
  kRaw,
  kBitmap,
  kDeltaBinary,
  kDeltaAdaptive,
  kDeltaFlag,
  kHuffman,
  kRle,
  kBloom
};

enum class LinearKind { kCountSketch, kSharedRandomK };

// Whether the section is the code of prefixed_deltas.h.
inline bool HasPrefixedDeltas(IndexKind index) {
  return index == IndexKind::kDeltaAdaptive || index == IndexKind::kDeltaFlag;
}

// A compressor as the device takes it.
struct DeviceSpec {
  MemorySpec memory;
  SparsifierKind sparsifier;
  double ratio;            // Of topk and randomk.
  uint32_t min_magnitude;  // Of nonzero and threshold.
  IndexKind index;
  int flag_bits;       // Of delta_flag.
  BloomPolicy policy;  // Of bloom, as is the rate.
  double fpr;
  ValueSpec value;
  JointSpec joint;  // Instead of index and value.
};

// Fails with InvalidArgument that names the part which has no device variant.
Result<DeviceSpec> DeviceSpecOf(const Compressor& compressor);

// The memory that a part of a spec says. Fails with InvalidArgument where it has no device variant.
Result<MemorySpec> DeviceMemoryOf(const std::string& memory);

// The linear codec of this name. Fails with InvalidArgument where it has no device variant.
Result<LinearKind> DeviceLinearOf(const std::string& name);

// How the device decodes a frame that has elements.
struct DeviceDecoder {
  bool is_seeded;
  IndexKind index;
  ValueKind value;
  JointKind joint;  // Instead of index and value.
};

// Fails with DataLoss for an unknown id, with InvalidArgument that names a codec which has no
// device variant.
Result<DeviceDecoder> DeviceDecoderOf(const FrameHeader& header);

// The names in the tables, for listings and tests.
std::vector<std::string> DeviceMemories();
std::vector<std::string> DeviceSparsifiers();
std::vector<std::string> DeviceIndexCodecs();
std::vector<std::string> DeviceValueCodecs();
std::vector<std::string> DeviceJointCodecs();
std::vector<std::string> DeviceLinearCodecs();

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DEVICE_VARIANTS_H_
