#include <vector>

#include "core/byte_io.h"
#include "cuda/bloom.h"
#include "cuda/cuda_status.h"
#include "cuda/for_each_marked.h"
#include "cuda/launch_frames.h"
#include "cuda/raw_bytes.h"

namespace tfcompress {
namespace device {
namespace {

// Words of set sizes for each word of a filter: a byte for each bit.
constexpr uint64_t kSizeWords = 8;

uint64_t MaxFilterWords(const BloomSpec& spec, const EncodedFrame& frame) {
  return CeilDiv(spec.rate.ShapeFor(frame.max_k).num_bytes(), sizeof(uint32_t));
}

__global__ void ShapeFiltersKernel(const EncodedFrame* frames, uint64_t num_frames, BloomSpec spec,
                                   Marks marks, BloomBuffers buffers) {
  for (uint64_t i = ThisThread(); i < num_frames; i += NumThreads()) {
    const EncodedFrame& frame = frames[i];
    BloomPart part{};
    part.policy = spec.policy;
    part.k = frame.state_dev->k;
    part.shape = spec.rate.ShapeFor(part.k);
    part.num_bytes = part.shape.num_bytes();
    part.filter_dev = reinterpret_cast<const unsigned char*>(frame.code_words_dev);
    part.seed = frame.header.seed;
    part.marks = frame.marks;
    part.chosen_dev = frame.sent_dev;
    if (buffers.priorities.vectors_dev != nullptr) {
      uint32_t* const set_sizes_dev = buffers.priorities.set_sizes_dev +
                                      kSizeWords * (frame.code_words_dev - buffers.filters_dev);
      buffers.priorities.Place(i, frame.marks, marks, frame.select, set_sizes_dev, &part);
    }
    buffers.parts_dev[i] = part;
  }
}

__global__ void InsertKernel(const EncodedFrame* frames, const BloomPart* parts) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const uint32_t* const indices = frame.support_dev;
  uint32_t* const words = frame.code_words_dev;
  const SeededHash hash_of(parts[blockIdx.y].seed);
  const BloomShape shape = parts[blockIdx.y].shape;
  const uint32_t k = parts[blockIdx.y].k;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads()) {
    VisitBloomStarts(hash_of(indices[i] / kBloomBlockKeys), shape, [&](uint32_t start) {
      SetMark(BloomBit(start, indices[i], shape.num_bits), words);
      return true;
    });
  }
}

__global__ void ChooseKernel(const EncodedFrame* frames, uint64_t num_frames, BloomPart* parts) {
  for (uint64_t i = ThisThread(); i < num_frames; i += NumThreads()) {
    const uint64_t num_positives = parts[i].marks.NumMarked();
    if (parts[i].policy == BloomPolicy::kP0)
      frames[i].state_dev->k = parts[i].k = static_cast<uint32_t>(num_positives);
    BeginChoice(num_positives, &parts[i]);
  }
}

__global__ void WriteBloomsKernel(const EncodedFrame* frames, const BloomPart* parts) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const BloomPart& part = parts[blockIdx.y];
  if (frame.state_dev->k == 0) return;
  unsigned char* const section = frame.data_dev + kFrameHeaderBytes;
  if (ThisThread() == 0) {
    section[0] = static_cast<uint8_t>(part.policy);
    section[1] = static_cast<uint8_t>(part.shape.num_hashes);
    StoreUnaligned(section + 2, part.shape.num_bits);
  }
  StoreBytes(frame.code_words_dev, part.num_bytes, section + kBloomHeaderBytes);
}

}  // namespace

BloomBuffers TakeBloomBuffers(const BloomSpec& spec, const Marks& marks, Span<EncodedFrame> frames,
                              Workspace* workspace) {
  BloomBuffers buffers;
  uint64_t num_chosen = 0;
  for (const EncodedFrame& frame : frames) {
    buffers.num_filter_words += MaxFilterWords(spec, frame);
    num_chosen += frame.max_sent;
  }
  buffers.parts_dev = workspace->Take<BloomPart>(frames.size());
  buffers.filters_dev = workspace->Take<uint32_t>(buffers.num_filter_words);
  uint32_t* chosen_dev = workspace->Take<uint32_t>(num_chosen);
  uint32_t* words_dev = buffers.filters_dev;
  for (size_t i = 0; i < frames.size(); ++i) {
    frames[i].lengths.num_payload_bytes_dev = &buffers.parts_dev[i].num_bytes;
    frames[i].code_words_dev = words_dev;
    frames[i].sent_dev = chosen_dev;
    words_dev += MaxFilterWords(spec, frames[i]);
    chosen_dev += frames[i].max_sent;
  }
  if (!ChoosesByPriority(spec.policy)) return buffers;
  const bool is_weighed = spec.policy == BloomPolicy::kP2;
  buffers.priorities = TakeBloomPriorityBuffers(
      frames.size(), marks, is_weighed ? kSizeWords * buffers.num_filter_words : 0, workspace);
  return buffers;
}

Status ChooseByBloom(const BloomSpec& spec, const Parts<EncodedFrame>& frames, const Marks& marks,
                     const BloomBuffers& buffers, cudaStream_t stream) {
  const size_t count = frames.size();
  const BloomParts parts = {buffers.parts_dev, count, CountFrameItems(frames, TileThreadsOf),
                            marks};
  TFC_RETURN_IF_ERROR(LaunchThreads("shape filters", ShapeFiltersKernel, count, stream,
                                    frames.data_dev, count, spec, marks, buffers));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.filters_dev, 0, buffers.num_filter_words * sizeof(uint32_t), stream));
  TFC_RETURN_IF_ERROR(
      LaunchFrames("insert", InsertKernel, frames, MaxSupportOf, stream, parts.data_dev));
  TFC_RETURN_IF_ERROR(MarkPositives(parts, stream));
  TFC_RETURN_IF_ERROR(
      LaunchThreads("choose", ChooseKernel, count, stream, frames.data_dev, count, parts.data_dev));
  if (!ChoosesByPriority(spec.policy)) return ListChosen(parts, stream);
  std::vector<EncodedFrame> vectors;
  for (const EncodedFrame& frame : frames.on_host) {
    vectors.push_back(buffers.priorities.VectorOf(vectors.size(), frame.marks, marks, frame.select,
                                                  frame.sent_dev));
  }
  return ChooseByPriority(parts, spec.policy == BloomPolicy::kP1, spec.policy == BloomPolicy::kP2,
                          buffers.priorities, vectors, stream);
}

Status WriteBlooms(const BloomSpec& spec, const Parts<EncodedFrame>& frames,
                   const BloomBuffers& buffers, cudaStream_t stream) {
  return LaunchFrames(
      "write blooms", WriteBloomsKernel, frames,
      [&](const EncodedFrame& frame) { return MaxFilterWords(spec, frame); }, stream,
      buffers.parts_dev);
}

}  // namespace device
}  // namespace tfcompress
