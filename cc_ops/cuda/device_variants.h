// Which parts of a spec have a device variant. This sees nothing of CUDA, so that listings on every
// machine can tell.
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

// The kinds of parts are the ids of the registry, which knows their names and parameters.
enum class SparsifierKind : uint8_t {
  kDense = 1,
  kNonzero = 2,
  kTopK = 3,
  kThreshold = 4,
  kRandomK = 5,
};
enum class IndexKind : uint8_t {
  kImplied = 0,  // No section.
  kRaw = 1,
  kBitmap = 2,
  kDeltaBinary = 3,
  kDeltaAdaptive = 7,
  kDeltaFlag = 8,
  kBloom = 10,
};
enum class LinearKind : uint8_t { kCountSketch = 1, kSharedRandomK = 2 };

// Whether the section is coded as in prefixed_deltas.h.
inline bool HasPrefixedDeltas(IndexKind index) {
  return index == IndexKind::kDeltaAdaptive || index == IndexKind::kDeltaFlag;
}

// Whether indices are coded as lists of keys.
inline bool IsDeltaCode(IndexKind index) {
  return index == IndexKind::kDeltaBinary || HasPrefixedDeltas(index);
}

// A compressor in the form that the device code takes.
struct DeviceSpec {
  MemorySpec memory;
  SparsifierKind sparsifier;
  double ratio;            // topk, randomk
  uint32_t min_magnitude;  // nonzero, threshold
  IndexKind index;
  int flag_bits;       // delta_flag
  BloomPolicy policy;  // bloom, as is the rate
  double fpr;
  ValueSpec value;
  JointSpec joint;  // Replaces index and value.
};

// Fails with InvalidArgument that names the part which has no device variant.
Result<DeviceSpec> DeviceSpecOf(const Compressor& compressor);

// Parses the memory part of a spec. Fails with InvalidArgument if it has no device variant.
Result<MemorySpec> DeviceMemoryOf(const std::string& memory);

// The linear codec of this name. Fails with InvalidArgument if it has no device variant.
Result<LinearKind> DeviceLinearOf(const std::string& name);

// How the device decodes a frame that has elements.
struct DeviceDecoder {
  bool is_seeded;
  IndexKind index;
  ValueKind value;
  JointKind joint;  // Replaces index and value.
};

// Fails with DataLoss for an unknown id, with InvalidArgument that names a codec which has no
// device variant.
Result<DeviceDecoder> DeviceDecoderOf(const FrameHeader& header);

// The names of the parts that have a variant, for listings and tests.
std::vector<std::string> DeviceMemories();
std::vector<std::string> DeviceSparsifiers();
std::vector<std::string> DeviceIndexCodecs();
std::vector<std::string> DeviceValueCodecs();
std::vector<std::string> DeviceJointCodecs();
std::vector<std::string> DeviceLinearCodecs();

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_DEVICE_VARIANTS_H_
