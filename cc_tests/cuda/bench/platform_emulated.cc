#include "platform.h"

namespace tfcompress {
namespace device {

const int kRepetitions = 1;

int CountLaunches(const std::function<Status()>&, cudaStream_t) { return -1; }

}  // namespace device
}  // namespace tfcompress
