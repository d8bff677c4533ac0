// A cache of the coder of a kernel on a GPU: making one parses the spec, and may build tables.
#ifndef TFCOMPRESS_TF_CUDA_CODER_CACHE_H_
#define TFCOMPRESS_TF_CUDA_CODER_CACHE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/linear_compressor.h"
#include "core/status.h"
#include "cuda/linear_coder.h"

namespace tfcompress {

// Keeps the last coder, made by Coder::Make(compressor, sizes...). The next step nearly always uses
// the same. Thread-safe.
template <typename Coder, typename Compressor, typename... Sizes>
class CoderCache {
 public:
  Result<std::shared_ptr<const Coder>> Get(const std::shared_ptr<const Compressor>& compressor,
                                           Sizes... sizes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The cache owns the compressor, so no other one can have its address.
    const auto key = std::make_tuple(compressor, sizes...);
    if (last_ != nullptr && key == last_key_) return last_;
    auto made = Coder::Make(*compressor, sizes...);
    if (!made.ok()) return made.status();
    last_ = std::make_shared<const Coder>(std::move(made.value()));
    last_key_ = key;
    return last_;
  }

 private:
  std::mutex mutex_;
  std::tuple<std::shared_ptr<const Compressor>, Sizes...> last_key_;
  std::shared_ptr<const Coder> last_;
};

using LinearCoderCache = CoderCache<device::LinearCoder, LinearCompressor, uint64_t>;

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_CUDA_CODER_CACHE_H_
