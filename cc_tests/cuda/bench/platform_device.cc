#include "platform.h"

namespace tfcompress {
namespace device {

const int kRepetitions = 11;

int CountLaunches(const std::function<Status()>& work, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  size_t num_nodes = 0;
  const bool began =
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
  const bool worked = began && work().ok();
  const bool counted = began && cudaStreamEndCapture(stream, &graph) == cudaSuccess &&
                       cudaGraphGetNodes(graph, nullptr, &num_nodes) == cudaSuccess;
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // Of a capture that failed nobody shall hear later.
  return worked && counted ? static_cast<int>(num_nodes) : -1;
}

}  // namespace device
}  // namespace tfcompress
