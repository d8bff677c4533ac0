// The gradients of ResNet-50.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_BENCH_RESNET50_H_
#define TFCOMPRESS_CC_TESTS_CUDA_BENCH_RESNET50_H_

#include <cstdint>
#include <vector>

namespace tfcompress {

// Appends a convolution without bias, and the scale and offset of its normalization.
inline void AppendConvolution(uint64_t inputs, uint64_t outputs, std::vector<uint64_t>* sizes) {
  for (uint64_t size : {inputs * outputs, outputs, outputs}) sizes->push_back(size);
}

// Sizes of all 161, for images of 3 channels and 1,000 classes.
inline std::vector<uint64_t> ResNet50Sizes() {
  constexpr int kNumBlocks[] = {3, 4, 6, 3};
  std::vector<uint64_t> sizes;
  AppendConvolution(7 * 7 * 3, 64, &sizes);
  uint64_t inputs = 64, width = 64;
  for (int num_blocks : kNumBlocks) {
    const uint64_t outputs = 4 * width;
    for (int block = 0; block < num_blocks; ++block) {
      if (block == 0) AppendConvolution(inputs, outputs, &sizes);  // The shortcut.
      AppendConvolution(inputs, width, &sizes);
      AppendConvolution(3 * 3 * width, width, &sizes);
      AppendConvolution(width, outputs, &sizes);
      inputs = outputs;
    }
    width *= 2;
  }
  sizes.push_back(inputs * 1000);
  sizes.push_back(1000);
  return sizes;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_BENCH_RESNET50_H_
