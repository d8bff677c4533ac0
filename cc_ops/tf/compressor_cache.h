// The spec and seed of a kernel, and a cache of the parsed spec. The spec is an input, so that a
// schedule can change it between steps, but is nearly always that of the step before.
#ifndef TFCOMPRESS_TF_COMPRESSOR_CACHE_H_
#define TFCOMPRESS_TF_COMPRESSOR_CACHE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "core/compressor.h"
#include "core/linear_compressor.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/kernel_io.h"
#include "tf/status_conversion.h"

namespace tfcompress {

// Thread-safe: TensorFlow runs one kernel from several steps at once. Calls Parsed::FromSpec.
template <typename Parsed>
class SpecCache {
 public:
  absl::Status Get(const std::string& spec, std::shared_ptr<const Parsed>* compressor) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (last_ == nullptr || spec != last_spec_) {
      auto parsed = Parsed::FromSpec(spec);
      if (!parsed.ok()) return ToTensorFlow(parsed.status());
      last_ = std::move(parsed.value());
      last_spec_ = spec;
    }
    *compressor = last_;
    return absl::OkStatus();
  }

 private:
  std::mutex mutex_;
  std::string last_spec_;
  std::shared_ptr<const Parsed> last_;
};

using CompressorCache = SpecCache<Compressor>;
using LinearCompressorCache = SpecCache<LinearCompressor>;

// Reads the inputs "seed" and "spec".
template <typename Parsed>
absl::Status ReadSeedAndSpec(tensorflow::OpKernelContext* ctx, SpecCache<Parsed>* compressors,
                             uint64_t* seed, std::shared_ptr<const Parsed>* compressor) {
  int64_t signed_seed = 0;
  tensorflow::tstring spec;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "seed", &signed_seed));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, "spec", &spec));
  *seed = static_cast<uint64_t>(signed_seed);
  return compressors->Get(spec, compressor);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_COMPRESSOR_CACHE_H_
