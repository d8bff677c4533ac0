// Inputs of the codec benchmark.
#ifndef TFCOMPRESS_CC_TESTS_BENCH_BENCH_INPUTS_H_
#define TFCOMPRESS_CC_TESTS_BENCH_BENCH_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tfcompress {

inline constexpr uint32_t kElements = 10'000'000;

// Laplacian values: sharper than normal ones and heavier in the tails, as gradients are.
const std::vector<float>& DenseGradient();

// A random support of DenseGradient() with its values.
struct BenchInput {
  std::vector<uint32_t> indices;
  std::vector<float> values;
  std::vector<float> dense;  // The same values, with zeros elsewhere.
};

// Returns the input of a density; keeps only the last one.
const BenchInput& InputOf(const std::string& density);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_BENCH_BENCH_INPUTS_H_
