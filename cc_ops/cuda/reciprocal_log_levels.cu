#include "cuda/binary_search.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/ordered_sums.h"
#include "cuda/reciprocal_log_levels.h"

namespace tfcompress {
namespace device {
namespace {

// Computes the magnitudes of all levels, on a warp: each lane multiplies through all powers, at
// most 131070, and stores its own.
__device__ void FillLevels(const LogScale& scale, float* levels) {
  double power = 1;
  for (uint32_t i = 0; i < scale.first; ++i) power *= scale.base;
  for (uint32_t begin = 0; begin < scale.num_levels; begin += kWarpThreads) {
    double own = power;
    for (uint32_t lane = 0; lane < kWarpThreads; ++lane) {
      if (lane == ThisLane()) own = power;
      power *= scale.base;
    }
    if (begin + ThisLane() < scale.num_levels) levels[begin + ThisLane()] = scale.Level(own);
  }
  __syncwarp();
}

// Number of descending levels that are above a magnitude.
__device__ uint32_t NumLevelsAbove(const float* levels, uint32_t num_levels, float magnitude) {
  return static_cast<uint32_t>(
      FirstAfter(0, num_levels, [&](uint64_t i) { return levels[i] <= magnitude; }));
}

// How many levels a tau that adapts leaves: those that its filter keeps, or all that are reached.
__device__ uint32_t AdaptedLevels(const ValueSpec& spec, bool filters, uint32_t k,
                                  const Extremes& extremes, const float* levels) {
  if (filters) return LogScale::AdaptedTau(spec.base, k) + 1;
  const uint32_t complement = extremes.complement_of_least_normal;
  const float least = FloatFromBits(complement == 0 ? kFloatInfinityBits : ~complement);
  const uint32_t reach = NumLevelsAbove(levels, spec.max_levels, least) + 1;
  return reach > LogScale::kPaperTau + 1 ? reach : LogScale::kPaperTau + 1;
}

// The levels from the one of the largest magnitude to the last that is not 0, by one warp.
// `filters`: for MarkKept, and not for a section.
__global__ void MeasureLogKernel(ValueSpec spec, bool filters, const uint32_t* k,
                                 const Extremes* extremes, SumBuffers sums, float* levels,
                                 ValueParams* params) {
  ValueParams found{};
  found.log_scale = {spec.base, SumOfBlocks(sums, *k), 0, static_cast<uint16_t>(spec.max_levels)};
  FillLevels(found.log_scale, levels);
  if (ThisThread() != 0) return;
  // If all magnitudes are subnormal, their sum is 0, and so are the levels.
  const float largest = FloatFromBits(extremes->largest_magnitude);
  const uint32_t first = NumLevelsAbove(levels, spec.max_levels, largest);
  uint32_t end = NumLevelsAbove(levels, spec.max_levels, 0);
  if (spec.adapts) {
    const uint32_t adapted = AdaptedLevels(spec, filters, *k, *extremes, levels);
    if (adapted < end) end = adapted > first ? adapted : first;
  }
  found.log_scale.first = static_cast<uint16_t>(first);
  found.log_scale.num_levels = static_cast<uint16_t>(end - first);
  found.levels = levels + first;
  found.spec = spec;
  found.spec.num_bits = BitsFor(found.log_scale.NumCodes());
  found.codes_begin = found.spec.CodesBegin(*k);
  found.num_bytes = found.spec.SectionBytes(*k);
  *params = found;
}

__global__ void MarkKeptKernel(SelectedValues values, const uint32_t* k, const ValueParams* params,
                               uint32_t* words) {
  const uint32_t num_levels = params->log_scale.num_levels;
  const uint32_t least =
      num_levels == 0 ? kFloatInfinityBits : FloatBits(params->levels[num_levels - 1]);
  for (uint64_t i = ThisThread(); i < *k; i += NumThreads()) {
    const uint32_t index = values.IndexOf(i);
    if ((FloatBits(values.dense.At(index)) & kFloatMagnitudeBits) >= least)
      atomicOr(&words[index / 32], 1u << (index % 32));
  }
}

// One warp.
__global__ void ReadLevelsKernel(uint32_t bits, uint32_t* error, float* levels,
                                 ValueParams* params) {
  if (*error != 0) return;
  FillLevels(params->log_scale, levels);
  if (ThisThread() != 0) return;
  params->levels = levels;
  // Checking the first is enough: the levels descend.
  if (params->log_scale.num_levels > 0 && !IsFiniteBits(FloatBits(levels[0])))
    atomicOr(error, bits);
}

}  // namespace

Status MeasureLog(const ValueSpec& spec, bool filters, const SelectedValues& values, uint32_t max_k,
                  const uint32_t* k_dev, const CodedBuffers& buffers, cudaStream_t stream) {
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.extremes_dev, 0, sizeof(*buffers.extremes_dev), stream));
  TFC_RETURN_IF_ERROR(FindExtremes(values, max_k, k_dev, buffers.extremes_dev, stream));
  TFC_RETURN_IF_ERROR(SumMagnitudes(values, max_k, k_dev, buffers.sums[0], stream));
  return Launch("measure log", MeasureLogKernel, 1, kWarpThreads, stream, spec, filters, k_dev,
                buffers.extremes_dev, buffers.sums[0], buffers.levels_dev, buffers.params_dev);
}

Status MarkKept(const ValueSpec& spec, const SelectedValues& values, uint32_t max_k,
                const uint32_t* k_dev, const CodedBuffers& buffers, const Marks& marks,
                cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(MeasureLog(spec, /*filters=*/true, values, max_k, k_dev, buffers, stream));
  TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
  return LaunchThreads("mark kept", MarkKeptKernel, max_k, stream, values, k_dev,
                       buffers.params_dev, marks.words_dev);
}

Status ReadLevels(uint32_t bits, ValueParams* params_dev, float* levels_dev, uint32_t* error_dev,
                  cudaStream_t stream) {
  return Launch("read levels", ReadLevelsKernel, 1, kWarpThreads, stream, bits, error_dev,
                levels_dev, params_dev);
}

}  // namespace device
}  // namespace tfcompress
