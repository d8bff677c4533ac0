#include "core/value/block_statistics.h"
#include "core/value/sort_key.h"
#include "cuda/binary_search.h"
#include "cuda/dexp_curves.h"
#include "cuda/launch.h"
#include "cuda/ordered_sums.h"

namespace tfcompress {
namespace device {
namespace {

// ---- Cells -------------------------------------------------------------------------------------

// One thread per sign, with kMaxCells steps.
__global__ void ShapeCellsKernel(const uint32_t* keys, const uint32_t* num_nonnegative,
                                 const uint32_t* count, CurveWork* work, CurvePart* parts) {
  if (threadIdx.x != 0) return;
  const uint32_t sign = blockIdx.x;
  CurveWork& own = work[sign];
  CurvePart part;
  own.first_key = sign == 0 ? 0 : *num_nonnegative;
  part.count = sign == 0 ? *num_nonnegative : *count - *num_nonnegative;
  if (part.count > 0) {
    part.range.largest = MagnitudeOfKey(keys[own.first_key]);
    part.range.least = MagnitudeOfKey(keys[own.first_key + part.count - 1]);
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
  parts[sign] = part;
}

// Computes the sums of all parts of a sign's cells. Called by all warps.
__device__ void SumPartsOfCells(const uint32_t* keys, const CurveWork& work, double* sums) {
  const uint32_t num_cells = work.fit.num_points;
  const uint32_t num_parts = work.part_begin[num_cells];
  const uint32_t* magnitudes = keys + work.first_key;
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

__global__ void SumCellPartsKernel(const uint32_t* keys, const CurveWork* work, double* nonnegative,
                                   double* negative) {
  SumPartsOfCells(keys, work[0], nonnegative);
  SumPartsOfCells(keys, work[1], negative);
}

// One warp per cell.
__global__ void AverageCellsKernel(const CurvePart* parts, const double* nonnegative,
                                   const double* negative, CurveWork* work) {
  for (uint64_t row = ThisWarp(); row < kNumSigns * kMaxCells; row += NumWarps()) {
    const uint64_t sign = row / kMaxCells, cell = row % kMaxCells;
    CurveWork& own = work[sign];
    if (cell >= own.fit.num_points) continue;
    const double* sums = sign == 0 ? nonnegative : negative;
    const double sum = SumInOrder(own.part_begin[cell], own.part_begin[cell + 1],
                                  [&](uint64_t part) { return sums[part]; });
    if (ThisLane() == 0) {
      own.fit.points[cell] =
          PointOfCell(parts[sign], own.cell_begin[cell], own.cell_begin[cell + 1], sum);
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
__global__ void FitCurvesKernel(CurveWork* work, CurvePart* parts) {
  CurvePart& part = parts[blockIdx.x];
  if (part.count == 0 || part.range.IsOneMagnitude()) return;
  const DoubleExponential curve = CurveFitter<OneWarp>(OneWarp{}, &work[blockIdx.x].fit).Fit();
  if (ThisLane() == 0) part.curve = curve;
}

// ---- Values ------------------------------------------------------------------------------------

__global__ void EvaluateCurvesKernel(const CurvePart* parts, const uint32_t* error, float* table) {
  if (error != nullptr && *error != 0) return;
  __shared__ CurvePart::Terms factors[kNumSigns * CurvePart::kStride];
  const CurvePart nonnegative = parts[0], negative = parts[1];
  if (threadIdx.x < kNumSigns * CurvePart::kStride) {
    const CurvePart& part = threadIdx.x < CurvePart::kStride ? nonnegative : negative;
    factors[threadIdx.x] = part.Factors(threadIdx.x % CurvePart::kStride);
  }
  __syncthreads();
  const uint64_t count = uint64_t{nonnegative.count} + negative.count;
  for (uint64_t i = ThisThread(); i < count; i += NumThreads()) {
    const bool is_negative = i >= nonnegative.count;
    const CurvePart& part = is_negative ? negative : nonnegative;
    const auto rank = static_cast<uint32_t>(is_negative ? i - nonnegative.count : i);
    const uint32_t offset = rank % CurvePart::kStride;
    table[i] =
        part.Value(part.At(rank - offset), factors[(is_negative ? CurvePart::kStride : 0) + offset],
                   is_negative ? kFloatSignBit : 0);
  }
}

}  // namespace

void TakeCurveBuffers(uint32_t max_count, Workspace* workspace, CurveBuffers* buffers) {
  buffers->max_parts = CeilDiv(max_count, kSumPart) + kMaxCells;
  for (double*& sums_dev : buffers->sums_dev)
    sums_dev = workspace->Take<double>(buffers->max_parts);
  buffers->work_dev = workspace->Take<CurveWork>(kNumSigns);
}

Status FitCurves(const SortedBuffers& sorted, const uint32_t* count_dev,
                 const CurveBuffers& buffers, CurvePart* parts_dev, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(Launch("shape cells", ShapeCellsKernel, kNumSigns, kWarpThreads, stream,
                             sorted.keys_dev(), sorted.num_nonnegative_dev, count_dev,
                             buffers.work_dev, parts_dev));
  TFC_RETURN_IF_ERROR(LaunchWarps(
      "sum cell parts", SumCellPartsKernel, CeilDiv(buffers.max_parts, kPartsPerWarp), stream,
      sorted.keys_dev(), buffers.work_dev, buffers.sums_dev[0], buffers.sums_dev[1]));
  TFC_RETURN_IF_ERROR(LaunchWarps("average cells", AverageCellsKernel, kNumSigns * kMaxCells,
                                  stream, parts_dev, buffers.sums_dev[0], buffers.sums_dev[1],
                                  buffers.work_dev));
  return Launch("fit curves", FitCurvesKernel, kNumSigns, kWarpThreads, stream, buffers.work_dev,
                parts_dev);
}

Status EvaluateCurves(const CurvePart* parts_dev, uint32_t max_count, const uint32_t* error_dev,
                      float* table_dev, cudaStream_t stream) {
  return LaunchThreads("evaluate curves", EvaluateCurvesKernel, max_count, stream, parts_dev,
                       error_dev, table_dev);
}

}  // namespace device
}  // namespace tfcompress
