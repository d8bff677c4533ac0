#include <algorithm>

#include "cuda/encoded_frame.h"
#include "cuda/frame_copies.h"
#include "cuda/launch.h"
#include "cuda/raw_bytes.h"
#include "cuda/warp.h"
#include "cuda/write_parts.h"

namespace tfcompress {
namespace device {
namespace {

using PlaceChunk = PartChunk<FramePlace, kSomeParameterBytes>;

// Blocks that copy to the host, besides one for each frame: enough for its bus, and few beside
// those of other streams.
constexpr uint64_t kBlocksToHost = 64;
// Fewest bytes that are worth a block.
constexpr uint64_t kLeastBytesOfBlock = kBlockThreads * sizeof(uint32_t);

// Bytes of the frames [first, end), by all lanes of a warp.
__device__ uint64_t BytesOf(const EncodedFrame* frames, uint32_t first, uint32_t end) {
  uint64_t own = 0;
  for (uint32_t i = first + ThisLane(); i < end; i += kWarpThreads)
    own += frames[i].state_dev->num_bytes;
  return SumOfLanes(own);
}

// Copies bytes from and to any address, by so many threads of a row of the grid.
__device__ void CopyBytes(const unsigned char* from, uint64_t num_bytes, unsigned char* to,
                          uint64_t num_threads) {
  const uint64_t lead = reinterpret_cast<uintptr_t>(to) % sizeof(uint32_t);
  const uint64_t until_word = (sizeof(uint32_t) - lead) % sizeof(uint32_t);
  const uint64_t head = until_word < num_bytes ? until_word : num_bytes;
  if (ThisThread() < head) to[ThisThread()] = from[ThisThread()];
  constexpr uint32_t kAtOnce = 4;  // Words that a thread loads before it stores the first.
  const uint64_t rest = num_bytes - head;
  for (uint64_t first = ThisThread(); first * 4 < rest; first += kAtOnce * num_threads) {
    uint32_t loaded[kAtOnce];
    for (uint32_t j = 0; j < kAtOnce; ++j)
      loaded[j] = LoadWord(from + head, rest, first + j * num_threads);
    for (uint32_t j = 0; j < kAtOnce; ++j)
      StoreWord(loaded[j], rest, to + head, first + j * num_threads);
  }
}

__global__ void CopyFramesKernel(const EncodedFrame* frames, uint64_t bytes_of_block,
                                 uint32_t chunk_begin, const __grid_constant__ PlaceChunk chunk) {
  const FramePlace& place = chunk.parts[blockIdx.y];
  if (place.packet == nullptr) return;
  const uint32_t i = chunk_begin + blockIdx.y;
  const uint64_t num_bytes = frames[i].state_dev->num_bytes;
  const uint64_t wanted = 1 + num_bytes / bytes_of_block;
  const uint64_t num_blocks = wanted < gridDim.x ? wanted : gridDim.x;
  if (blockIdx.x >= num_blocks) return;
  CopyBytes(frames[i].data_dev, num_bytes, place.packet + BytesOf(frames, place.first_frame, i),
            num_blocks * blockDim.x);
}

Status CopyChunk(const EncodedFrame* frames_dev, uint32_t chunk_begin,
                 Span<const FramePlace> places, PacketMemory memory, const PartItems& words,
                 cudaStream_t stream) {
  PlaceChunk chunk{};
  std::copy_n(places.data(), places.size(), chunk.parts);
  if (memory == PacketMemory::kDevice) {
    return LaunchParts("copy frames", CopyFramesKernel, words, places.size(), stream, frames_dev,
                       kLeastBytesOfBlock, chunk_begin, chunk);
  }
  const uint64_t bytes_of_block =
      std::max(CeilDiv(words.total * sizeof(uint32_t), kBlocksToHost), kLeastBytesOfBlock);
  const uint64_t most_blocks = 1 + words.largest * sizeof(uint32_t) / bytes_of_block;
  const dim3 grid(static_cast<unsigned>(most_blocks), static_cast<unsigned>(places.size()));
  return Launch("copy frames", CopyFramesKernel, grid, kBlockThreads, stream, frames_dev,
                bytes_of_block, chunk_begin, chunk);
}

}  // namespace

Status CopyFrames(const EncodedFrame* frames_dev, Span<const FramePlace> places,
                  PacketMemory memory, const PartItems& words, cudaStream_t stream) {
  for (size_t first = 0; first < places.size(); first += PlaceChunk::kSize) {
    const size_t count = std::min(PlaceChunk::kSize, places.size() - first);
    TFC_RETURN_IF_ERROR(CopyChunk(frames_dev, static_cast<uint32_t>(first),
                                  places.subspan(first, count), memory, words, stream));
  }
  return OkStatus();
}

}  // namespace device
}  // namespace tfcompress
