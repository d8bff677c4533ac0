#include "core/executor.h"
#include "core/value/block_statistics.h"
#include "core/value/sort_key.h"
#include "cuda/binary_search.h"
#include "cuda/cuda_status.h"
#include "cuda/launch.h"
#include "cuda/polynomial_fit.h"

namespace tfcompress {
namespace device {
namespace {

constexpr uint32_t kNoPiece = 0xFFFFFFFFu;

// ---- Pieces ------------------------------------------------------------------------------------

// Points that a warp measures at a time.
constexpr uint64_t kMeasureTile = 4096;

// One thread per sign.
__global__ void BeginPiecesKernel(const uint32_t* keys, const uint32_t* count,
                                  const uint32_t* num_nonnegative, PolynomialConfig config,
                                  CurveState* curves, CurvePiece* pieces) {
  if (ThisThread() >= kNumSigns) return;
  const auto sign = static_cast<uint32_t>(ThisThread());
  const uint32_t begin = sign == 0 ? 0 : *num_nonnegative;
  const uint32_t end = sign == 0 ? *num_nonnegative : *count;
  pieces[sign * config.MaxSegments()] = {begin, end, begin, 0};
  CurveState curve = {0, 0, {kNoPiece, kNoPiece}};
  if (begin < end) {
    curve = {1, config.segments, {0, kNoPiece}};
    if (config.segments == 0) {
      curve.max_pieces = SuggestedSegments(
          end - begin, [&](uint64_t i) { return MagnitudeOfKey(keys[begin + i]); });
    }
  }
  curves[sign] = curve;
}

__device__ uint64_t NumMeasureTiles(const CurvePiece& piece, uint32_t degree) {
  const uint32_t length = piece.end - piece.begin;
  return Chord::MayBend(length, degree) ? CeilDiv(length, kMeasureTile) : 0;
}

// Calls visit(piece, first tile, end of its tiles) for the pieces of this round; returns the end of
// all tiles. Tiles are numbered consecutively over all pieces.
template <typename Visit>
__device__ uint64_t ForEachMeasured(const CurveState* curves, const CurvePiece* pieces,
                                    const PolynomialConfig& config, const Visit& visit) {
  uint64_t first = 0;
  for (uint32_t i = 0; i < 2 * kNumSigns; ++i) {
    const uint32_t sign = i / 2;
    const uint32_t measured = curves[sign].measured[i % 2];
    if (measured == kNoPiece) continue;
    const uint32_t piece = sign * config.MaxSegments() + measured;
    const uint64_t end = first + NumMeasureTiles(pieces[piece], config.degree);
    visit(piece, first, end);
    first = end;
  }
  return first;
}

// Whether point a is farther than b; of equal distances, the first point wins.
__device__ bool IsFarther(const FarthestPoint& a, const FarthestPoint& b) {
  return a.distance > b.distance || (a.distance == b.distance && a.position < b.position);
}
__device__ FarthestPoint FarthestOfLanes(FarthestPoint point) {
  for (int lanes = 1; lanes < static_cast<int>(kWarpThreads); lanes *= 2) {
    const FarthestPoint other = {__shfl_xor_sync(kAllLanes, point.distance, lanes),
                                 __shfl_xor_sync(kAllLanes, point.position, lanes)};
    if (IsFarther(other, point)) point = other;
  }
  return point;
}

// Finds the point of a tile that is farthest from the line between the ends of its piece. Called by
// a warp.
__device__ FarthestPoint MeasureTile(const uint32_t* keys, const CurvePiece& piece, uint64_t tile) {
  const uint32_t length = piece.end - piece.begin;
  const uint32_t* own = keys + piece.begin;
  const Chord chord =
      Chord::Between(MagnitudeOfKey(own[0]), MagnitudeOfKey(own[length - 1]), length);
  FarthestPoint farthest = {0, 0xFFFFFFFFu};
  const uint64_t end =
      tile + 1 < CeilDiv(length, kMeasureTile) ? (tile + 1) * kMeasureTile : length;
  for (uint64_t i = tile * kMeasureTile + ThisLane(); i < end; i += kWarpThreads) {
    const FarthestPoint point = {chord.DistanceTo(MagnitudeOfKey(own[i]), static_cast<int64_t>(i)),
                                 static_cast<uint32_t>(i)};
    if (IsFarther(point, farthest)) farthest = point;
  }
  return FarthestOfLanes(farthest);
}

__global__ void MeasurePiecesKernel(const uint32_t* keys, PolynomialConfig config,
                                    const CurveState* curves, const CurvePiece* pieces,
                                    FarthestPoint* farthest) {
  const uint64_t num_tiles =
      ForEachMeasured(curves, pieces, config, [](uint32_t, uint64_t, uint64_t) {});
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint32_t own = 0;
    uint64_t own_first = 0;
    ForEachMeasured(curves, pieces, config, [&](uint32_t piece, uint64_t first, uint64_t end) {
      if (tile < first || tile >= end) return;
      own = piece;
      own_first = first;
    });
    const FarthestPoint found = MeasureTile(keys, pieces[own], tile - own_first);
    if (ThisLane() == 0) farthest[tile] = found;
  }
}

// Returns the farthest point of the tiles [first, end). Called by a warp.
__device__ FarthestPoint FarthestOfTiles(const FarthestPoint* farthest, uint64_t first,
                                         uint64_t end) {
  FarthestPoint own = {0, 0xFFFFFFFFu};
  for (uint64_t tile = first + ThisLane(); tile < end; tile += kWarpThreads)
    if (IsFarther(farthest[tile], own)) own = farthest[tile];
  return FarthestOfLanes(own);
}

// Returns the piece with the greatest distance; of equal ones, the first on the curve. Called by a
// warp.
__device__ uint32_t FarthestPiece(const CurvePiece* pieces, uint32_t num_pieces) {
  FarthestPoint own = {-1, 0xFFFFFFFFu};
  uint32_t own_piece = 0;
  for (uint32_t i = ThisLane(); i < num_pieces; i += kWarpThreads) {
    const FarthestPoint point = {pieces[i].distance, pieces[i].begin};
    if (!IsFarther(point, own)) continue;
    own = point;
    own_piece = i;
  }
  const FarthestPoint farthest = FarthestOfLanes(own);
  const uint32_t lanes = __ballot_sync(
      kAllLanes, own.distance == farthest.distance && own.position == farthest.position);
  return __shfl_sync(kAllLanes, own_piece, __ffs(static_cast<int>(lanes)) - 1);
}

// Splits the farthest piece of a sign unless it has the maximum number of pieces; both parts are
// measured in the next round. Called by a warp.
__device__ void SplitFarthest(CurveState* curve, CurvePiece* pieces) {
  const uint32_t num_pieces = curve->num_pieces;
  const bool may_split = num_pieces > 0 && num_pieces < curve->max_pieces;
  const uint32_t farthest = FarthestPiece(pieces, num_pieces);
  if (ThisLane() != 0) return;
  curve->measured[0] = curve->measured[1] = kNoPiece;
  if (!may_split || !(pieces[farthest].distance > 0)) return;
  const CurvePiece piece = pieces[farthest];
  pieces[farthest] = {piece.begin, piece.split, piece.begin, 0};
  pieces[num_pieces] = {piece.split, piece.end, piece.split, 0};
  *curve = {num_pieces + 1, curve->max_pieces, {farthest, num_pieces}};
}

// Stores the measured distances, and splits a piece of each sign. One warp.
__global__ void SplitPiecesKernel(PolynomialConfig config, const FarthestPoint* farthest,
                                  CurveState* curves, CurvePiece* pieces) {
  if (curves[0].measured[0] == kNoPiece && curves[1].measured[0] == kNoPiece) return;
  ForEachMeasured(curves, pieces, config, [&](uint32_t piece, uint64_t first, uint64_t end) {
    const FarthestPoint found = FarthestOfTiles(farthest, first, end);
    if (ThisLane() != 0 || !(found.distance > 0)) return;
    CurvePiece* measured = &pieces[piece];
    measured->distance = found.distance;
    measured->split = measured->begin + static_cast<uint32_t>(Chord::SplitAt(
                                            found.position, measured->end - measured->begin));
  });
  __syncwarp();
  for (uint32_t sign = 0; sign < kNumSigns; ++sign)
    SplitFarthest(&curves[sign], pieces + sign * config.MaxSegments());
}

// ---- Segments ----------------------------------------------------------------------------------

__device__ uint64_t SegmentBytes(const CurvePiece& piece, uint32_t degree) {
  PolynomialSegment segment;
  segment.length = piece.end - piece.begin;
  return PolynomialSegment::NumBytes(segment.NumCoefficients(degree));
}

// Stores a piece as a segment; its place follows from the pieces before it.
__device__ void PlacePiece(const uint32_t* keys, const CurveState* curves, const CurvePiece* pieces,
                           const PolynomialConfig& config, uint32_t sign, const CurvePiece& piece,
                           SectionSegment* segments) {
  uint32_t rank = 0;
  uint64_t offset = kSegmentsBegin + sign * sizeof(uint32_t);
  for (uint32_t other_sign = 0; other_sign < kNumSigns; ++other_sign) {
    for (uint32_t i = 0; i < curves[other_sign].num_pieces; ++i) {
      const CurvePiece& other = pieces[other_sign * config.MaxSegments() + i];
      if (other.begin >= piece.begin) continue;
      ++rank;
      offset += SegmentBytes(other, config.degree);
    }
  }
  SectionSegment* placed = &segments[rank];
  placed->begin = piece.begin;
  placed->sign_bit = sign == 0 ? 0 : kFloatSignBit;
  placed->offset = offset;
  placed->segment.length = piece.end - piece.begin;
  placed->segment.range = {MagnitudeOfKey(keys[piece.end - 1]), MagnitudeOfKey(keys[piece.begin])};
  placed->basis.Set(placed->segment.length, placed->segment.NumCoefficients(config.degree));
}

// One thread per piece.
__global__ void PlacePiecesKernel(const uint32_t* keys, PolynomialConfig config,
                                  const CurveState* curves, const CurvePiece* pieces,
                                  SegmentTable table, uint64_t* num_bytes) {
  const uint32_t max_segments = config.MaxSegments();
  for (uint64_t i = ThisThread(); i < kNumSigns * max_segments; i += NumThreads()) {
    const auto sign = static_cast<uint32_t>(i / max_segments);
    if (i % max_segments < curves[sign].num_pieces)
      PlacePiece(keys, curves, pieces, config, sign, pieces[i], table.segments_dev);
  }
  if (ThisThread() != 0) return;
  *num_bytes = kSegmentsBegin + sizeof(uint32_t);
  for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
    table.num_of_sign_dev[sign] = curves[sign].num_pieces;
    for (uint32_t i = 0; i < curves[sign].num_pieces; ++i)
      *num_bytes += SegmentBytes(pieces[sign * max_segments + i], config.degree);
  }
}

// ---- Inner products ----------------------------------------------------------------------------

// Segments are cut into parts, and blocks of parts, from their own beginnings. The slots of a
// segment follow those of the segments before it: begin / size + s is the first slot of segment s.
// Slots may stay empty.
struct Slot {
  uint32_t segment;
  uint64_t part;  // Part of the segment; past its end if the slot is empty.
};

__device__ uint64_t FirstSlot(const SegmentTable& table, uint64_t s, uint64_t size) {
  return table.segments_dev[s].begin / size + s;
}
// End of the slots for `count` values.
TFC_HOST_DEVICE uint64_t EndOfSlots(uint64_t count, uint64_t num_segments, uint64_t size) {
  return count / size + num_segments;
}
__device__ Slot SlotAt(const SegmentTable& table, uint64_t slot, uint64_t size) {
  const uint64_t s = FirstAfter(
      1, table.NumSegments(), [&](uint64_t other) { return FirstSlot(table, other, size) > slot; });
  return {static_cast<uint32_t>(s - 1), slot - FirstSlot(table, s - 1, size)};
}

inline constexpr uint32_t kPartLanes = 8;  // Equal to the core's number of lanes.
inline constexpr uint32_t kPartsOfWarp = kWarpThreads / kPartLanes;

// Adds this lane's share of the inner products of the basis with the values [begin, end) of a
// segment.
__device__ void AddProducts(const uint32_t* keys, const SectionSegment& segment, uint64_t begin,
                            uint64_t end, double* sums) {
  const PolynomialScale scale(segment.segment.range);
  const PolynomialBasis& basis = segment.basis;
  for (uint64_t i = begin + ThisLane() % kPartLanes; i < end; i += kPartLanes) {
    const double y = scale.UnitOf(MagnitudeOfKey(keys[segment.begin + i]));
    const double t = basis.PointAt(static_cast<int64_t>(i));
    double previous = 0;
    double current = 1;
    for (uint32_t j = 0; j < kMaxCoefficients; ++j) {
      if (j >= basis.size) continue;  // A constant loop bound keeps the sums in registers.
      sums[j] += y * current;
      const double next = PolynomialBasis::Next(t, current, basis.beta[j], previous);
      previous = current;
      current = next;
    }
  }
}

// Eight lanes per part.
__global__ void SumPartsKernel(const uint32_t* keys, const uint32_t* count, SegmentTable table,
                               double* part_sums) {
  const uint64_t num_slots = *count == 0 ? 0 : EndOfSlots(*count, table.NumSegments(), kSumPart);
  for (uint64_t tile = ThisWarp(); tile * kPartsOfWarp < num_slots; tile += NumWarps()) {
    const uint64_t slot = tile * kPartsOfWarp + ThisLane() / kPartLanes;
    double sums[kMaxCoefficients] = {};
    if (slot < num_slots) {
      const Slot own = SlotAt(table, slot, kSumPart);
      const SectionSegment& segment = table.segments_dev[own.segment];
      const uint64_t begin = own.part * kSumPart;
      const uint64_t length = segment.segment.length;
      AddProducts(keys, segment, begin, begin + kSumPart < length ? begin + kSumPart : length,
                  sums);
    }
    for (uint32_t j = 0; j < kMaxCoefficients; ++j) {
      for (int lanes = 1; lanes < static_cast<int>(kPartLanes); lanes *= 2)
        sums[j] += __shfl_xor_sync(kAllLanes, sums[j], lanes);
      if (slot < num_slots && ThisLane() % kPartLanes == 0)
        part_sums[slot * kMaxCoefficients + j] = sums[j];
    }
  }
}

// One thread per block and coefficient.
__global__ void SumPartsOfBlocksKernel(const uint32_t* count, SegmentTable table,
                                       const double* part_sums, double* block_sums) {
  if (*count == 0) return;
  const uint64_t num_slots = EndOfSlots(*count, table.NumSegments(), kBlockElements);
  for (uint64_t i = ThisThread(); i < num_slots * kMaxCoefficients; i += NumThreads()) {
    const Slot own = SlotAt(table, i / kMaxCoefficients, kBlockElements);
    const uint64_t num_parts = CeilDiv(table.segments_dev[own.segment].segment.length, kSumPart);
    constexpr uint64_t kPartsOfBlock = kBlockElements / kSumPart;
    const uint64_t begin = own.part * kPartsOfBlock;
    const uint64_t end = begin + kPartsOfBlock < num_parts ? begin + kPartsOfBlock : num_parts;
    const uint64_t first = FirstSlot(table, own.segment, kSumPart);
    double sum = 0;
    for (uint64_t part = begin; part < end; ++part)
      sum += part_sums[(first + part) * kMaxCoefficients + i % kMaxCoefficients];
    block_sums[i] = sum;
  }
}

// One thread per segment and coefficient.
__global__ void FindCoefficientsKernel(SegmentTable table, const double* block_sums) {
  const uint64_t num_coefficients = uint64_t{table.NumSegments()} * kMaxCoefficients;
  for (uint64_t i = ThisThread(); i < num_coefficients; i += NumThreads()) {
    const uint64_t s = i / kMaxCoefficients;
    const auto j = static_cast<uint32_t>(i % kMaxCoefficients);
    SectionSegment* segment = &table.segments_dev[s];
    const uint32_t length = segment->segment.length;
    float coefficient = 0;
    if (j < segment->basis.size && PolynomialScale(segment->segment.range).width > 0) {
      const uint64_t first = FirstSlot(table, s, kBlockElements);
      double sum = 0;
      for (uint64_t block = 0; block < CeilDiv(length, kBlockElements); ++block)
        sum += block_sums[(first + block) * kMaxCoefficients + j];
      coefficient = RoundToNormal(sum / segment->basis.SquaredNorm(j, length));
    }
    segment->segment.coefficients[j] = coefficient;
  }
}

uint64_t MaxSlots(const FitBuffers& buffers, uint64_t size) {
  return EndOfSlots(buffers.max_count, kNumSigns * buffers.config.MaxSegments(), size);
}
uint64_t MaxMeasureTiles(const FitBuffers& buffers) {
  return buffers.max_count / kMeasureTile + 2 * kNumSigns;
}

Status SplitIntoPieces(const uint32_t* keys_dev, const FitBuffers& buffers, cudaStream_t stream) {
  const PolynomialConfig config = buffers.config;
  for (uint32_t round = 1; round < config.MaxSegments(); ++round) {
    TFC_RETURN_IF_ERROR(LaunchWarps("measure pieces", MeasurePiecesKernel, MaxMeasureTiles(buffers),
                                    stream, keys_dev, config, buffers.curves_dev,
                                    buffers.pieces_dev, buffers.farthest_dev));
    TFC_RETURN_IF_ERROR(Launch("split pieces", SplitPiecesKernel, 1, kWarpThreads, stream, config,
                               buffers.farthest_dev, buffers.curves_dev, buffers.pieces_dev));
  }
  return OkStatus();
}

}  // namespace

void TakeSegmentTable(uint32_t max_segments, Workspace* workspace, SegmentTable* table) {
  table->segments_dev = workspace->Take<SectionSegment>(kNumSigns * max_segments);
  table->num_of_sign_dev = workspace->Take<uint32_t>(kNumSigns);
}

void TakeFitBuffers(const PolynomialConfig& config, uint32_t max_count, Workspace* workspace,
                    FitBuffers* buffers) {
  buffers->max_count = max_count;
  buffers->config = config;
  buffers->curves_dev = workspace->Take<CurveState>(kNumSigns);
  buffers->pieces_dev = workspace->Take<CurvePiece>(kNumSigns * config.MaxSegments());
  buffers->farthest_dev = workspace->Take<FarthestPoint>(MaxMeasureTiles(*buffers));
  buffers->part_sums_dev = workspace->Take<double>(MaxSlots(*buffers, kSumPart) * kMaxCoefficients);
  buffers->block_sums_dev =
      workspace->Take<double>(MaxSlots(*buffers, kBlockElements) * kMaxCoefficients);
  TakeSegmentTable(config.MaxSegments(), workspace, &buffers->table);
  buffers->num_bytes_dev = workspace->Take<uint64_t>(1);
}

Status FitPolynomials(const uint32_t* keys_dev, const uint32_t* count_dev,
                      const uint32_t* num_nonnegative_dev, const FitBuffers& buffers,
                      cudaStream_t stream) {
  const PolynomialConfig config = buffers.config;
  TFC_RETURN_IF_ERROR(Launch("begin pieces", BeginPiecesKernel, 1, kWarpThreads, stream, keys_dev,
                             count_dev, num_nonnegative_dev, config, buffers.curves_dev,
                             buffers.pieces_dev));
  TFC_RETURN_IF_ERROR(SplitIntoPieces(keys_dev, buffers, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads(
      "place pieces", PlacePiecesKernel, kNumSigns * config.MaxSegments(), stream, keys_dev, config,
      buffers.curves_dev, buffers.pieces_dev, buffers.table, buffers.num_bytes_dev));
  TFC_RETURN_IF_ERROR(LaunchThreads("sum parts of segments", SumPartsKernel,
                                    MaxSlots(buffers, kSumPart) * kPartLanes, stream, keys_dev,
                                    count_dev, buffers.table, buffers.part_sums_dev));
  TFC_RETURN_IF_ERROR(LaunchThreads("sum blocks of segments", SumPartsOfBlocksKernel,
                                    MaxSlots(buffers, kBlockElements) * kMaxCoefficients, stream,
                                    count_dev, buffers.table, buffers.part_sums_dev,
                                    buffers.block_sums_dev));
  return LaunchThreads("find coefficients", FindCoefficientsKernel,
                       kNumSigns * config.MaxSegments() * kMaxCoefficients, stream, buffers.table,
                       buffers.block_sums_dev);
}

}  // namespace device
}  // namespace tfcompress
