// Inputs and specs of the device tests.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_DEVICE_INPUTS_H_
#define TFCOMPRESS_CC_TESTS_CUDA_DEVICE_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tfcompress {
namespace device {

// All memories and sparsifiers that have a device variant, with all index codecs and with all value
// codecs.
std::vector<std::string> AllDeviceSpecs();
// Each part at least once: for inputs that are too large for all.
const std::vector<std::string>& SomeDeviceSpecs();

// Ways to fill a vector of any size with finite numbers.
struct Input {
  const char* name;
  std::vector<float> (*make)(size_t n, uint64_t seed);
};
const std::vector<Input>& Inputs();

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_DEVICE_INPUTS_H_
