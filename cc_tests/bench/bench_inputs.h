// What the codec benchmark feeds to the codecs.
#ifndef TFCOMPRESS_CC_TESTS_BENCH_BENCH_INPUTS_H_
#define TFCOMPRESS_CC_TESTS_BENCH_BENCH_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tfcompress {

inline constexpr uint32_t kElements = 10'000'000;

// Laplacian values: sharper than normal ones and heavier in the tails, as gradients are.
const std::vector<float>& DenseGradient();

// A random support of DenseGradient() and what stands there.
struct BenchInput {
  std::vector<uint32_t> indices;
  std::vector<float> values;
  std::vector<float> dense;  // Zeros elsewhere.
};

// Keeps the input of the density that was asked for last.
const BenchInput& InputOf(const std::string& density);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_BENCH_BENCH_INPUTS_H_
