#include "bench_inputs.h"

#include <cmath>

#include "core/hash.h"

namespace tfcompress {

const std::vector<float>& DenseGradient() {
  static const auto* gradient = [] {
    auto* values = new std::vector<float>(kElements);
    Random random(1);
    for (float& value : *values) {
      const float magnitude = -0.01f * std::log(1 - random.NextFloat());
      value = random.Next32() & 1 ? magnitude : -magnitude;
    }
    return values;
  }();
  return *gradient;
}

const BenchInput& InputOf(const std::string& density) {
  static std::string built_for;
  static BenchInput data;
  if (built_for == density) return data;
  built_for = density;
  data.indices.clear();
  data.values.clear();
  data.dense.assign(kElements, 0.0f);
  Random random(2);
  const float probability = std::stof(density);
  for (uint32_t i = 0; i < kElements; ++i) {
    if (random.NextFloat() >= probability) continue;
    data.indices.push_back(i);
    data.values.push_back(DenseGradient()[i]);
    data.dense[i] = DenseGradient()[i];
  }
  return data;
}

}  // namespace tfcompress
