#include "cuda/binary_search.h"
#include "cuda/coded_values.h"
#include "cuda/for_each_marked.h"
#include "cuda/launch_frames.h"
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

// The levels from the one of the largest magnitude to the last that is not 0, by one warp for a
// frame. `filters`: for MarkKept, and not for a section.
__global__ void MeasureLogKernel(const EncodedFrame* frames, ValueSpec spec, bool filters,
                                 float* all_levels) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const uint32_t k = frame.state_dev->k;
  float* const levels = all_levels + uint64_t{blockIdx.y} * spec.max_levels;
  ValueParams found{};
  found.log_scale = {spec.base, SumOfBlocks(frame.sums[0], k), 0,
                     static_cast<uint16_t>(spec.max_levels)};
  FillLevels(found.log_scale, levels);
  if (ThisThread() != 0) return;
  const Extremes extremes = *frame.extremes_dev;
  if (filters) *frame.extremes_dev = {};
  // If all magnitudes are subnormal, their sum is 0, and so are the levels.
  const float largest = FloatFromBits(extremes.largest_magnitude);
  const uint32_t first = NumLevelsAbove(levels, spec.max_levels, largest);
  uint32_t end = NumLevelsAbove(levels, spec.max_levels, 0);
  if (spec.adapts) {
    const uint32_t adapted = AdaptedLevels(spec, filters, k, extremes, levels);
    if (adapted < end) end = adapted > first ? adapted : first;
  }
  found.log_scale.first = static_cast<uint16_t>(first);
  found.log_scale.num_levels = static_cast<uint16_t>(end - first);
  found.levels = levels + first;
  found.spec = spec;
  found.spec.num_bits = BitsFor(found.log_scale.NumCodes());
  found.codes_begin = found.spec.CodesBegin(k);
  found.num_bytes = found.spec.SectionBytes(k);
  *frame.params_dev = found;
}

__global__ void MarkKeptKernel(const EncodedFrame* frames) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const SelectedValues values = frame.Support();
  const uint32_t k = frame.state_dev->k;
  const uint32_t num_levels = frame.params_dev->log_scale.num_levels;
  const uint32_t least =
      num_levels == 0 ? kFloatInfinityBits : FloatBits(frame.params_dev->levels[num_levels - 1]);
  uint32_t* const words = frame.marks.words_dev;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads()) {
    const uint32_t index = values.IndexOf(i);
    if ((FloatBits(values.dense.At(index)) & kFloatMagnitudeBits) >= least) SetMark(index, words);
  }
}

// One warp for a section.
__global__ void ReadLevelsKernel(const AddedValues* sections, uint32_t bits) {
  const AddedValues& added = sections[blockIdx.y];
  if (added.section.k == 0 || *added.error_dev != 0) return;
  ValueParams* const params = added.params_dev;
  float* const levels = added.table_dev;
  FillLevels(params->log_scale, levels);
  if (ThisThread() != 0) return;
  params->levels = levels;
  // Checking the first is enough: the levels descend.
  if (params->log_scale.num_levels > 0 && !IsFiniteBits(FloatBits(levels[0])))
    atomicOr(added.error_dev, bits);
}

Status MeasureLog(const ValueSpec& spec, bool filters, const Parts<EncodedFrame>& frames,
                  float* levels_dev, cudaStream_t stream) {
  const ObservedValues observed = filters ? ObservedValues::kSupport : ObservedValues::kSent;
  TFC_RETURN_IF_ERROR(FindExtremes(frames, observed, stream));
  TFC_RETURN_IF_ERROR(SumMagnitudes(frames, observed, stream));
  return LaunchWarpForEach("measure log", MeasureLogKernel, frames, stream, spec, filters,
                           levels_dev);
}

}  // namespace

Status MeasureLog(const ValueSpec& spec, const Parts<EncodedFrame>& frames, float* levels_dev,
                  cudaStream_t stream) {
  return MeasureLog(spec, /*filters=*/false, frames, levels_dev, stream);
}

Status MarkKept(const ValueSpec& spec, const Parts<EncodedFrame>& frames, const Marks& marks,
                float* levels_dev, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(MeasureLog(spec, /*filters=*/true, frames, levels_dev, stream));
  TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
  return LaunchFrames("mark kept", MarkKeptKernel, frames, MaxSupportOf, stream);
}

Status ReadLevels(uint32_t bits, const Parts<AddedValues>& sections, cudaStream_t stream) {
  return LaunchWarpForEach("read levels", ReadLevelsKernel, sections, stream, bits);
}

}  // namespace device
}  // namespace tfcompress
