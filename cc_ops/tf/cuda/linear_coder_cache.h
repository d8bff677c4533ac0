// A cache of the coder of a linear kernel on a GPU: making one may build tables.
#ifndef TFCOMPRESS_TF_CUDA_LINEAR_CODER_CACHE_H_
#define TFCOMPRESS_TF_CUDA_LINEAR_CODER_CACHE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "core/linear_compressor.h"
#include "core/status.h"
#include "cuda/linear_coder.h"

namespace tfcompress {

// Keeps the last coder. The next step nearly always uses the same. Thread-safe.
class LinearCoderCache {
 public:
  Result<std::shared_ptr<const device::LinearCoder>> Get(
      const std::shared_ptr<const LinearCompressor>& compressor, uint64_t n) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The cache owns the compressor, so no other one can have its address.
    if (last_ != nullptr && compressor == compressor_ && n == n_) return last_;
    auto made = device::LinearCoder::Make(*compressor, n);
    if (!made.ok()) return made.status();
    last_ = std::make_shared<const device::LinearCoder>(std::move(made.value()));
    compressor_ = compressor;
    n_ = n;
    return last_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const LinearCompressor> compressor_;
  uint64_t n_ = 0;
  std::shared_ptr<const device::LinearCoder> last_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_LINEAR_CODER_CACHE_H_
