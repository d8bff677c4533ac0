// Encodes on the device and with the core, for tests that compare both.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_DEVICE_ENCODE_H_
#define TFCOMPRESS_CC_TESTS_CUDA_DEVICE_ENCODE_H_

#include <memory>
#include <string>
#include <vector>

#include "contract_inputs.h"
#include "core/pipeline.h"
#include "cuda/memory_spec.h"
#include "device_memory.h"

namespace tfcompress {
namespace device {

inline constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

// A gradient on the host, in its type.
struct HostGradient {
  DType dtype;
  uint64_t n;
  Bytes bytes;

  HostGradient(const std::vector<float>& values, DType dtype);
  GradientView view() const { return {bytes.data(), dtype, n}; }
};

struct EncodeOptions {
  uint64_t seed = 1;
  bool in_place = true;    // Update the slots in place.
  size_t frame_begin = 0;  // Offset of the frame in its buffer, which is aligned to 256 bytes.
};

// The memory's vectors of one tensor.
using Slots = std::vector<std::vector<float>>;

// They on the device, each with another vector for after the step, or updated in place.
class DeviceSlots {
 public:
  DeviceSlots(const Slots& slots, bool in_place, const Stream& stream);

  const std::vector<DeviceSlot>& views() const { return views_; }
  Slots Before(const Stream& stream) const { return ToHost(before_, stream); }
  Slots After(const Stream& stream) const {
    return ToHost(after_.empty() ? before_ : after_, stream);
  }

 private:
  using Vectors = std::vector<std::unique_ptr<DeviceVector<float>>>;

  static Slots ToHost(const Vectors& vectors, const Stream& stream);

  Vectors before_;
  Vectors after_;
  std::vector<DeviceSlot> views_;
};

struct Encoded {
  Status status;
  Bytes frame;
  Slots slots;  // State after the step.
};

std::shared_ptr<const Compressor> Parse(const std::string& spec);

// Makes slots for n elements, with different numbers in each.
Slots SomeSlots(const Compressor& compressor, size_t n);

// `slots` are those of the memory before the step.
Encoded EncodeOnHost(const Compressor& compressor, const HostGradient& gradient, const Slots& slots,
                     uint64_t seed);
Encoded EncodeOnDevice(const Compressor& compressor, const HostGradient& gradient,
                       const Slots& slots, const EncodeOptions& options, const Stream& stream);
// Several tensors of one type in one step, with seeds from options.seed on.
std::vector<Encoded> EncodeSideBySide(const Compressor& compressor,
                                      const std::vector<HostGradient>& gradients,
                                      const std::vector<Slots>& slots, const EncodeOptions& options,
                                      const Stream& stream);

using tfcompress::SameBits;
// Whether all vectors have the same bits.
bool SameBits(const Slots& a, const Slots& b);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_DEVICE_ENCODE_H_
