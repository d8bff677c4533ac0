#include <algorithm>

#include "core/byte_io.h"
#include "cuda/bloom.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/raw_bytes.h"
#include "cuda/tiles.h"
#include "cuda/warp.h"

namespace tfcompress {
namespace device {
namespace {

// ---- The filter --------------------------------------------------------------------------------

__global__ void ShapeFilterKernel(BloomPolicy policy, BloomRate rate, const uint32_t* k,
                                  BloomState* state) {
  if (ThisThread() != 0) return;
  *state = {};
  state->policy = policy;
  state->shape = rate.ShapeFor(*k);
  state->k = *k;
  state->num_bytes = state->shape.num_bytes();
}

__global__ void InsertKernel(const uint32_t* indices, const uint32_t* k, const BloomState* state,
                             uint64_t seed, uint32_t* words) {
  const SeededHash hash_of(seed);
  const BloomShape shape = state->shape;
  for (uint64_t i = ThisThread(); i < *k; i += NumThreads()) {
    VisitBloomStarts(hash_of(indices[i] / kBloomBlockKeys), shape, [&](uint32_t start) {
      const uint32_t bit = BloomBit(start, indices[i], shape.num_bits);
      atomicOr(&words[bit / 32], 1u << (bit % 32));
      return true;
    });
  }
}

// 32 bits of a filter from `start` on, the first ones after the last.
__device__ uint32_t BitsFrom(const unsigned char* filter, uint32_t num_bits, uint32_t start) {
  uint32_t bits = 0;
  if (uint64_t{start} + 40 <= num_bits) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 5; ++i) bytes |= uint64_t{filter[start / 8 + i]} << (8 * i);
    return static_cast<uint32_t>(bytes >> (start % 8));
  }
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t up_to_end = num_bits - start;
    const uint32_t bit = i < up_to_end ? start + i : i - up_to_end;
    bits |= static_cast<uint32_t>(filter[bit / 8] >> (bit % 8) & 1) << i;
  }
  return bits;
}

// Which of the 32 elements from `index` on the filter contains; none if the filter has no bits.
// `index` is a multiple of 32.
__device__ uint32_t Contained(const unsigned char* filter, const BloomShape& shape,
                              const SeededHash& hash_of, uint32_t index) {
  if (shape.num_bits == 0) return 0;
  uint32_t contained = 0xFFFFFFFFu;
  VisitBloomStarts(hash_of(index / kBloomBlockKeys), shape, [&](uint32_t start) {
    contained &= BitsFrom(filter, shape.num_bits, BloomBit(start, index, shape.num_bits));
    return contained != 0;
  });
  return contained;
}

// Marks and counts the positives in the universe.
__global__ void QueryKernel(const unsigned char* filter, const BloomState* state, uint64_t seed,
                            uint32_t n, uint64_t num_tiles, uint32_t* words, uint64_t* counts) {
  const SeededHash hash_of(seed);
  const BloomShape shape = state->shape;
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    const uint64_t first = tile * kTileElements + ThisLane() * 32;
    uint32_t word = 0;
    if (first < n) {
      word = Contained(filter, shape, hash_of, static_cast<uint32_t>(first));
      if (n - first < 32) word &= (1u << (n - first)) - 1;
    }
    words[tile * kTileWords + ThisLane()] = word;
    __syncwarp();
    const uint32_t count = SumOfLanes(static_cast<uint32_t>(__popc(word)));
    if (ThisLane() == 0) counts[tile] = count;
  }
}

Status MarkPositives(const unsigned char* filter_dev, const BloomBuffers& buffers, uint64_t seed,
                     const Marks& marks, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(LaunchWarps("query", QueryKernel, marks.num_tiles(), stream, filter_dev,
                                  buffers.state_dev, seed, marks.n, marks.num_tiles(),
                                  marks.words_dev, marks.ends_dev));
  return ScanMarks(marks, stream);
}

// ---- Policies ----------------------------------------------------------------------------------

__global__ void ChooseKernel(const uint64_t* num_positives, BloomState* state, uint32_t* k) {
  if (ThisThread() != 0) return;
  if (state->policy == BloomPolicy::kP0) *k = static_cast<uint32_t>(*num_positives);
  state->first = RankOfFirst(state->policy, *num_positives - *k);
}

// ---- Sections ----------------------------------------------------------------------------------

__global__ void WriteBloomKernel(const uint32_t* words, const BloomState* state, const uint32_t* k,
                                 unsigned char* section) {
  if (*k == 0) return;
  if (ThisThread() == 0) {
    section[0] = static_cast<uint8_t>(state->policy);
    section[1] = static_cast<uint8_t>(state->shape.num_hashes);
    StoreUnaligned(section + 2, state->shape.num_bits);
  }
  StoreBytes(words, state->num_bytes, section + kBloomHeaderBytes);
}

__global__ void ReadBloomHeaderKernel(const unsigned char* section, uint64_t num_bytes, uint32_t k,
                                      uint32_t bits, uint32_t* error, BloomState* state) {
  if (ThisThread() != 0) return;
  *state = {};
  if (num_bytes < kBloomHeaderBytes || section[0] >= kNumBloomPolicies) {
    atomicOr(error, bits);
    return;
  }
  state->policy = static_cast<BloomPolicy>(section[0]);
  const BloomShape shape = {LoadUnaligned<uint32_t>(section + 2), section[1]};
  const uint64_t end = kBloomHeaderBytes + shape.num_bytes();
  const uint32_t num_last_bits = shape.num_bits % 8;
  const bool fits =
      end == num_bytes && (num_last_bits == 0 || section[end - 1] >> num_last_bits == 0);
  if (shape.num_bits < kMinBloomBits || shape.num_hashes < 1 ||
      shape.num_hashes > kMaxBloomHashes || !fits) {
    atomicOr(error, bits);
    return;
  }
  state->k = k;
  state->shape = shape;
  state->num_bytes = shape.num_bytes();
}

// Counts no bits if the section is broken.
__global__ void CountSetBitsKernel(const unsigned char* filter, BloomState* state) {
  uint32_t count = 0;
  for (uint64_t i = ThisThread(); i < state->num_bytes; i += NumThreads())
    count += static_cast<uint32_t>(__popc(filter[i]));
  count = SumOfLanes(count);
  if (ThisLane() == 0) atomicAdd(&state->num_set, count);
}

// Checks the number of set bits (k keys set at most num_hashes each) and that there are as many
// positives as the policy needs.
__global__ void CheckBloomKernel(const uint64_t* num_positives, uint32_t bits, uint32_t* error,
                                 BloomState* state) {
  if (ThisThread() != 0 || state->shape.num_bits == 0) return;
  const uint32_t k = state->k;
  const bool is_too_full =
      state->num_set > uint64_t{k} * static_cast<uint64_t>(state->shape.num_hashes);
  const bool is_short = *num_positives < k;
  const bool is_long = state->policy == BloomPolicy::kP0 && *num_positives > k;
  const bool is_of_no_encoder = !state->shape.IsFor(k, state->policy == BloomPolicy::kP0);
  if (is_too_full || is_short || is_long || is_of_no_encoder) {
    atomicOr(error, bits);
    return;
  }
  state->first = RankOfFirst(state->policy, *num_positives - k);
}

// Of a section that is long enough. Unknown ones choose by nothing: the device refuses them.
BloomPolicy PolicyOf(ByteSpan section) { return static_cast<BloomPolicy>(section[0]); }

}  // namespace

void TakeBloomBuffers(BloomPolicy policy, const BloomRate& rate, uint32_t n, uint32_t max_k,
                      uint32_t max_chosen, Workspace* workspace, BloomBuffers* buffers) {
  const BloomShape shape = rate.ShapeFor(max_k);
  buffers->state_dev = workspace->Take<BloomState>(1);
  buffers->num_filter_bytes = CeilDiv(shape.num_bytes(), 4) * 4;
  buffers->filter_dev = workspace->Take<unsigned char>(buffers->num_filter_bytes);
  buffers->chosen_dev = workspace->Take<uint32_t>(max_chosen);
  if (ChoosesByPriority(policy))
    TakeBloomPriorityBuffers(n, max_k, shape.num_bits, workspace, &buffers->priorities);
}

void BloomExtent::Cover(ByteSpan section, uint32_t n, uint32_t k) {
  if (section.size() < kBloomHeaderBytes || !ChoosesByPriority(PolicyOf(section))) return;
  max_n = std::max(max_n, n);
  max_k = std::max(max_k, k);
  max_bits = std::max(max_bits, 8 * (section.size() - kBloomHeaderBytes));
}

void TakeBloomReadBuffers(const BloomExtent& extent, Workspace* workspace, BloomBuffers* buffers) {
  buffers->state_dev = workspace->Take<BloomState>(1);
  if (extent.max_n == 0) return;
  TakeBloomPriorityBuffers(extent.max_n, extent.max_k, extent.max_bits, workspace,
                           &buffers->priorities);
}

Status ChooseByBloom(BloomPolicy policy, const BloomRate& rate, uint64_t seed,
                     const uint32_t* indices_dev, uint32_t max_k, const Marks& marks,
                     const BloomBuffers& buffers, uint32_t* k_dev, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(Launch("shape filter", ShapeFilterKernel, 1, kWarpThreads, stream, policy,
                             rate, k_dev, buffers.state_dev));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.filter_dev, 0, buffers.num_filter_bytes, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("insert", InsertKernel, max_k, stream, indices_dev, k_dev,
                                    buffers.state_dev, seed,
                                    reinterpret_cast<uint32_t*>(buffers.filter_dev)));
  TFC_RETURN_IF_ERROR(MarkPositives(buffers.filter_dev, buffers, seed, marks, stream));
  if (ChoosesByPriority(policy)) {
    return ChooseByPriority(policy, &buffers.state_dev->shape, seed, k_dev, marks,
                            buffers.priorities, buffers.chosen_dev, stream);
  }
  TFC_RETURN_IF_ERROR(Launch("choose", ChooseKernel, 1, kWarpThreads, stream,
                             marks.num_marked_dev(), buffers.state_dev, k_dev));
  return ListMarkedFrom(marks, &buffers.state_dev->first, k_dev, buffers.chosen_dev, stream);
}

Status WriteBloom(const BloomBuffers& buffers, const uint32_t* k_dev, unsigned char* section_dev,
                  cudaStream_t stream) {
  return LaunchThreads("write bloom", WriteBloomKernel, CeilDiv(buffers.num_filter_bytes, 4),
                       stream, reinterpret_cast<const uint32_t*>(buffers.filter_dev),
                       buffers.state_dev, k_dev, section_dev);
}

Status ReadBloom(ByteSpan section, const unsigned char* section_dev, uint32_t k, uint64_t seed,
                 const Marks& marks, const BloomBuffers& buffers, uint32_t bits,
                 uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream) {
  const uint64_t num_section_bytes = section.size();
  const unsigned char* filter_dev = section_dev + kBloomHeaderBytes;
  BloomState* state_dev = buffers.state_dev;
  TFC_RETURN_IF_ERROR(Launch("read bloom header", ReadBloomHeaderKernel, 1, kWarpThreads, stream,
                             section_dev, num_section_bytes, k, bits, error_dev, state_dev));
  TFC_RETURN_IF_ERROR(LaunchThreads("count set bits", CountSetBitsKernel, num_section_bytes, stream,
                                    filter_dev, state_dev));
  TFC_RETURN_IF_ERROR(MarkPositives(filter_dev, buffers, seed, marks, stream));
  TFC_RETURN_IF_ERROR(Launch("check bloom", CheckBloomKernel, 1, kWarpThreads, stream,
                             marks.num_marked_dev(), bits, error_dev, state_dev));
  if (num_section_bytes >= kBloomHeaderBytes && ChoosesByPriority(PolicyOf(section))) {
    return ChooseByPriority(PolicyOf(section), &state_dev->shape, seed, &state_dev->k, marks,
                            buffers.priorities, indices_dev, stream);
  }
  return ListMarkedFrom(marks, &state_dev->first, &state_dev->k, indices_dev, stream);
}

}  // namespace device
}  // namespace tfcompress
