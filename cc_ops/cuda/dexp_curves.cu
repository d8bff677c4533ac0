#include "core/value/block_statistics.h"
#include "core/value/sort_key.h"
#include "cuda/binary_search.h"
#include "cuda/coded_values.h"
#include "cuda/dexp_curves.h"
#include "cuda/launch_frames.h"
#include "cuda/ordered_sums.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Cells -------------------------------------------------------------------------------------

__device__ CurveWork& WorkOf(CurveWork* work, uint32_t sign) {
  return work[blockIdx.y * kNumSigns + sign];
}

// One thread per sign, with kMaxCells steps.
__global__ void ShapeCellsKernel(const EncodedFrame* frames, const uint64_t* begins,
                                 const uint32_t* all_keys, CurveWork* work) {
  if (threadIdx.x != 0) return;
  const uint32_t sign = blockIdx.x;
  const uint64_t begin_of_frame = begins[blockIdx.y], end_of_frame = begins[blockIdx.y + 1];
  const uint64_t first_negative = FirstAfter(
      begin_of_frame, end_of_frame, [&](uint64_t i) { return !IsNonnegativeKey(all_keys[i]); });
  CurveWork& own = WorkOf(work, sign);
  CurvePart part;
  own.first_key = sign == 0 ? begin_of_frame : first_negative;
  part.count = static_cast<uint32_t>((sign == 0 ? first_negative : end_of_frame) - own.first_key);
  // The cells have no more parts than whole ones fit into the values, and one more each.
  own.first_sum = own.first_key / kSumPart + uint64_t{kMaxCells} * (blockIdx.y * kNumSigns + sign);
  if (part.count > 0) {
    const uint32_t* const keys = all_keys + own.first_key;
    part.range.largest = MagnitudeOfKey(keys[0]);
    part.range.least = MagnitudeOfKey(keys[part.count - 1]);
  }
  uint32_t cell = 0, num_parts = 0;
  for (uint64_t begin = 0; begin < part.count; ++cell) {
    const uint64_t end = CellEnd(begin) < part.count ? CellEnd(begin) : part.count;
    own.cell_begin[cell] = static_cast<uint32_t>(begin);
    own.part_begin[cell] = num_parts;
    num_parts += static_cast<uint32_t>(CeilDiv(end - begin, kSumPart));
    begin = end;
  }
  own.cell_begin[cell] = part.count;
  own.part_begin[cell] = num_parts;
  own.fit.num_points = cell;
  frames[blockIdx.y].params_dev->curves[sign] = part;
}

// Computes the sums of all parts of a sign's cells. Called by all warps.
__device__ void SumPartsOfCells(const uint32_t* keys, const CurveWork& work, double* all_sums) {
  const uint32_t num_cells = work.fit.num_points;
  const uint32_t num_parts = work.part_begin[num_cells];
  const uint32_t* const magnitudes = keys + work.first_key;
  double* const sums = all_sums + work.first_sum;
  for (uint64_t tile = ThisWarp(); tile * kPartsPerWarp < num_parts; tile += NumWarps()) {
    const uint64_t part = tile * kPartsPerWarp + ThisLane() / 4;
    uint64_t begin = 0, end = 0;
    if (part < num_parts) {
      const uint64_t cell =
          FirstAfter(0, num_cells, [&](uint64_t i) { return work.part_begin[i + 1] > part; });
      begin = work.cell_begin[cell] + (part - work.part_begin[cell]) * kSumPart;
      end = begin + kSumPart < work.cell_begin[cell + 1] ? begin + kSumPart
                                                         : work.cell_begin[cell + 1];
    }
    const double sum = SumByFourLanes(
        begin, end, [&](uint64_t i) { return CellTerm(MagnitudeOfKey(magnitudes[i])); });
    if (part < num_parts && ThisLane() % 4 == 0) sums[part] = sum;
  }
}

__global__ void SumCellPartsKernel(const uint32_t* keys, CurveWork* work, double* sums) {
  SumPartsOfCells(keys, WorkOf(work, 0), sums);
  SumPartsOfCells(keys, WorkOf(work, 1), sums);
}

// One warp per cell.
__global__ void AverageCellsKernel(const EncodedFrame* frames, const double* all_sums,
                                   CurveWork* work) {
  const CurvePart* const curves = frames[blockIdx.y].params_dev->curves;
  for (uint64_t row = ThisWarp(); row < kNumSigns * kMaxCells; row += NumWarps()) {
    const auto sign = static_cast<uint32_t>(row / kMaxCells);
    const uint64_t cell = row % kMaxCells;
    CurveWork& own = WorkOf(work, sign);
    if (cell >= own.fit.num_points) continue;
    const double* const sums = all_sums + own.first_sum;
    const double sum = SumInOrder(own.part_begin[cell], own.part_begin[cell + 1],
                                  [&](uint64_t part) { return sums[part]; });
    if (ThisLane() == 0) {
      own.fit.points[cell] =
          PointOfCell(curves[sign], own.cell_begin[cell], own.cell_begin[cell + 1], sum);
    }
  }
}

// ---- Fit ---------------------------------------------------------------------------------------

// The team parameter of CurveFitter: the lanes of one warp.
struct OneWarp {
  template <typename Body>
  __device__ void ForEach(uint32_t n, const Body& body) const {
    for (uint32_t i = ThisLane(); i < n; i += kWarpThreads) body(i);
  }

  template <int kCount, typename Term>
  __device__ void Sum(uint32_t n, const Term& term, double* sums) const {
    static_assert(kFitLanes == kWarpThreads);
    for (int j = 0; j < kCount; ++j) sums[j] = 0;
    for (uint32_t i = ThisLane(); i < n; i += kWarpThreads) {
      double terms[kCount];
      term(i, terms);
      for (int j = 0; j < kCount; ++j) sums[j] += terms[j];
    }
    // Both lanes of a pair add the same two sums.
    for (int j = 0; j < kCount; ++j) {
      for (int half = kFitLanes / 2; half > 0; half /= 2)
        sums[j] += __shfl_xor_sync(kAllLanes, sums[j], half);
    }
  }

  __device__ void Store(double value, double* address) const {
    if (ThisLane() == 0) *address = value;
    __syncwarp();
  }
};

// One warp per sign.
__global__ void FitCurvesKernel(const EncodedFrame* frames, CurveWork* work) {
  CurvePart& part = frames[blockIdx.y].params_dev->curves[blockIdx.x];
  if (part.count == 0 || part.range.IsOneMagnitude()) return;
  const DoubleExponential curve =
      CurveFitter<OneWarp>(OneWarp{}, &WorkOf(work, blockIdx.x).fit).Fit();
  if (ThisLane() == 0) part.curve = curve;
}

// ---- Values ------------------------------------------------------------------------------------

// Curves of both signs, and where their values belong; without curves there is nothing to do.
struct CurveTable {
  const CurvePart* curves;
  float* table;
};

struct CurvesOfFrames {
  const EncodedFrame* frames;
  const uint64_t* begins;
  float* table;

  __device__ CurveTable Get() const {
    return {frames[blockIdx.y].params_dev->curves, table + begins[blockIdx.y]};
  }
};

struct CurvesOfSections {
  const AddedValues* sections;

  __device__ CurveTable Get() const {
    const AddedValues& added = sections[blockIdx.y];
    if (added.section.k == 0 || *added.error_dev != 0) return {nullptr, nullptr};
    return {added.params_dev->curves, added.table_dev};
  }
};

template <typename Source>
__global__ void EvaluateCurvesKernel(Source source) {
  __shared__ CurvePart::Terms factors[kNumSigns * CurvePart::kStride];
  const CurveTable own = source.Get();
  if (own.curves == nullptr) return;
  const CurvePart nonnegative = own.curves[0], negative = own.curves[1];
  if (threadIdx.x < kNumSigns * CurvePart::kStride) {
    const CurvePart part = threadIdx.x < CurvePart::kStride ? nonnegative : negative;
    factors[threadIdx.x] = part.Factors(threadIdx.x % CurvePart::kStride);
  }
  __syncthreads();
  const uint64_t count = uint64_t{nonnegative.count} + negative.count;
  for (uint64_t i = ThisThread(); i < count; i += NumThreads()) {
    const bool is_negative = i >= nonnegative.count;
    const CurvePart part = is_negative ? negative : nonnegative;
    const auto rank = static_cast<uint32_t>(is_negative ? i - nonnegative.count : i);
    const uint32_t offset = rank % CurvePart::kStride;
    own.table[i] =
        part.Value(part.At(rank - offset), factors[(is_negative ? CurvePart::kStride : 0) + offset],
                   is_negative ? kFloatSignBit : 0);
  }
}

}  // namespace

void TakeCurveBuffers(Span<const EncodedFrame> frames, Workspace* workspace,
                      CurveBuffers* buffers) {
  const uint64_t num_signs = kNumSigns * frames.size();
  uint64_t max_count = 0;
  for (const EncodedFrame& frame : frames) max_count += frame.max_sent;
  buffers->sums_dev = workspace->Take<double>(CeilDiv(max_count, kSumPart) + kMaxCells * num_signs);
  buffers->work_dev = workspace->Take<CurveWork>(num_signs);
}

Status FitCurves(const Parts<EncodedFrame>& frames, const SortedBuffers& sorted,
                 const CurveBuffers& buffers, cudaStream_t stream) {
  const auto num_frames = static_cast<unsigned>(frames.size());
  const auto part_lanes = [](const EncodedFrame& frame) {
    const uint64_t max_parts = CeilDiv(frame.max_sent, kSumPart) + kNumSigns * kMaxCells;
    return CeilDiv(max_parts, kPartsPerWarp) * kWarpThreads;
  };
  const auto cell_lanes = [](const EncodedFrame&) { return kNumSigns * kMaxCells * kWarpThreads; };
  TFC_RETURN_IF_ERROR(Launch("shape cells", ShapeCellsKernel, dim3(kNumSigns, num_frames),
                             kWarpThreads, stream, frames.data_dev, sorted.begins_dev,
                             sorted.keys_dev(), buffers.work_dev));
  TFC_RETURN_IF_ERROR(LaunchParts("sum cell parts", SumCellPartsKernel,
                                  CountFrameItems(frames, part_lanes), frames.size(), stream,
                                  sorted.keys_dev(), buffers.work_dev, buffers.sums_dev));
  TFC_RETURN_IF_ERROR(LaunchFrames("average cells", AverageCellsKernel, frames, cell_lanes, stream,
                                   buffers.sums_dev, buffers.work_dev));
  return Launch("fit curves", FitCurvesKernel, dim3(kNumSigns, num_frames), kWarpThreads, stream,
                frames.data_dev, buffers.work_dev);
}

Status EvaluateCurves(const Parts<EncodedFrame>& frames, const SortedBuffers& sorted,
                      cudaStream_t stream) {
  return LaunchParts("evaluate curves", EvaluateCurvesKernel<CurvesOfFrames>,
                     CountFrameItems(frames, MaxSentOf), frames.size(), stream,
                     CurvesOfFrames{frames.data_dev, sorted.begins_dev, sorted.table_dev()});
}

Status EvaluateCurves(const Parts<AddedValues>& sections, cudaStream_t stream) {
  const auto k = [](const AddedValues& added) { return added.section.k; };
  return LaunchParts("evaluate curves", EvaluateCurvesKernel<CurvesOfSections>,
                     CountFrameItems(sections, k), sections.size(), stream,
                     CurvesOfSections{sections.data_dev});
}

}  // namespace device
}  // namespace tfcompress
