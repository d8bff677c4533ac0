#include <cstdlib>

#include "platform.h"

namespace tfcompress {
namespace device {

const int kRepetitions = 1;

int CountLaunches(const std::function<Status()>&, cudaStream_t) { return -1; }

PinnedMemory::~PinnedMemory() { std::free(data_); }

Status PinnedMemory::Allocate(size_t num_bytes) {
  data_ = std::malloc(num_bytes);
  return data_ == nullptr ? Internal("no memory for ", num_bytes, " bytes") : OkStatus();
}

}  // namespace device
}  // namespace tfcompress
