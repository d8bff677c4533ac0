#include "core/frame.h"
#include "cuda/launch.h"
#include "cuda/poly_section.h"
#include "cuda/raw_bytes.h"

namespace tfcompress {
namespace device {
namespace {

// ---- A segment in a section: length, least, largest, coefficients ------------------------------

__device__ void StoreSegment(const SectionSegment& from, unsigned char* section) {
  unsigned char* to = section + from.offset;
  StoreAt(to, 0, from.segment.length);
  StoreAt(to, 1, from.segment.range.least);
  StoreAt(to, 2, from.segment.range.largest);
  for (uint32_t j = 0; j < from.basis.size; ++j) StoreAt(to, 3 + j, from.segment.coefficients[j]);
}

// Loads a segment, except its length, which has been read and gives the number of coefficients.
// Returns false if it is invalid.
__device__ bool LoadSegment(const unsigned char* section, SectionSegment* segment) {
  const unsigned char* from = section + segment->offset;
  segment->segment.range = {LoadAt<float>(from, 1), LoadAt<float>(from, 2)};
  bool valid = segment->segment.range.IsValid();
  for (uint32_t j = 0; j < segment->basis.size; ++j) {
    segment->segment.coefficients[j] = LoadAt<float>(from, 3 + j);
    valid &= IsFiniteBits(FloatBits(segment->segment.coefficients[j]));
  }
  return valid;
}

// Finds the positions of the segments of a section, on one thread: each starts with its length.
class SegmentWalk {
 public:
  __device__ SegmentWalk(const ValueSectionView& section, const SegmentTable& table)
      : section_(section), table_(table), num_left_(section.k) {}

  // Returns false if no section of k values begins so.
  __device__ bool Run() {
    uint32_t degree = 0;
    if (!Read(&degree) || degree > kMaxPolynomialDegree) return false;
    for (uint32_t sign = 0; sign < kNumSigns; ++sign) {
      uint32_t num_segments = 0;
      if (!Read(&num_segments) || num_segments > kMaxSegments) return false;
      for (uint32_t i = 0; i < num_segments; ++i)
        if (!Place(degree, sign)) return false;
      table_.num_of_sign_dev[sign] = num_segments;
    }
    return num_left_ == 0 &&
           section_.num_bytes - offset_ == PackedBytes(section_.k, BitsFor(section_.k));
  }
  __device__ uint64_t offset() const { return offset_; }

 private:
  __device__ bool Read(uint32_t* word) {
    if (section_.num_bytes - offset_ < sizeof(*word)) return false;
    *word = LoadUnaligned<uint32_t>(section_.data_dev + offset_);
    offset_ += sizeof(*word);
    return true;
  }

  __device__ bool Place(uint32_t degree, uint32_t sign) {
    SectionSegment* segment = &table_.segments_dev[num_placed_++];
    segment->offset = offset_;
    uint32_t length = 0;
    if (!Read(&length) || length == 0 || length > num_left_) return false;
    segment->begin = section_.k - num_left_;
    segment->sign_bit = sign == 0 ? 0 : kFloatSignBit;
    segment->segment.length = length;
    segment->basis.size = segment->segment.NumCoefficients(degree);
    num_left_ -= length;
    if (segment->End() > section_.num_bytes) return false;
    offset_ = segment->End();
    return true;
  }

  ValueSectionView section_;
  SegmentTable table_;
  uint32_t num_left_;
  uint32_t num_placed_ = 0;
  uint64_t offset_ = 0;
};

// Loads the placed segments, on a warp. Returns false if one of this lane's segments is invalid.
__device__ bool LoadSegments(const unsigned char* section, const SegmentTable& segments) {
  bool valid = true;
  for (uint32_t s = ThisLane(); s < segments.NumSegments(); s += kWarpThreads) {
    SectionSegment* segment = &segments.segments_dev[s];
    segment->basis.Set(segment->segment.length, segment->basis.size);
    valid &= LoadSegment(section, segment);
  }
  return valid;
}

// One warp. An invalid section gets no ranks and no table.
__global__ void ReadSegmentsKernel(ValueSectionView section, SegmentTable segments, uint32_t bits,
                                   const float* table, uint32_t* error, ValueParams* params) {
  ValueParams found{};
  found.spec.num_bits = BitsFor(section.k);
  found.table = table;
  bool valid = true;
  if (ThisLane() == 0) {
    SegmentWalk walk(section, segments);
    valid = walk.Run();
    found.codes_begin = walk.offset();
  }
  __syncwarp();  // Makes the placed segments visible.
  if (__any_sync(kAllLanes, !valid) == 0) valid = LoadSegments(section.data_dev, segments);
  const bool none = __any_sync(kAllLanes, !valid) != 0;
  if (ThisLane() != 0) return;
  if (none) atomicOr(error, bits);
  found.num_ranks = none ? 0 : section.k;
  *params = found;
}

// ---- Encoding ----------------------------------------------------------------------------------

__global__ void MeasurePolyKernel(ValueSpec spec, const uint32_t* k, const uint64_t* num_bytes,
                                  const uint32_t* ranks, const float* table, ValueParams* params) {
  if (ThisThread() != 0) return;
  ValueParams found{};
  found.spec = spec;
  found.spec.num_bits = spec.CodeBits(*k);
  found.codes = ranks;
  found.table = table;
  found.num_ranks = *k;
  found.codes_begin = *num_bytes;
  found.num_bytes = *num_bytes + PackedBytes(*k, found.spec.num_bits);
  *params = found;
}

// One thread per segment.
__global__ void WriteSegmentsKernel(uint32_t degree, SegmentTable segments,
                                    const EncodeState* state, unsigned char* frame) {
  if (state->k == 0) return;
  unsigned char* section = frame + kFrameHeaderBytes + state->num_index_bytes;
  const uint32_t num_segments = segments.NumSegments();
  const uint32_t num_nonnegative = segments.num_of_sign_dev[0];
  for (uint64_t s = ThisThread(); s < num_segments; s += NumThreads())
    StoreSegment(segments.segments_dev[s], section);
  if (ThisThread() != 0) return;
  const uint64_t negative_begin =
      num_nonnegative == 0 ? kSegmentsBegin : segments.segments_dev[num_nonnegative - 1].End();
  StoreUnaligned(section, degree);
  StoreUnaligned(section + sizeof(degree), num_nonnegative);
  StoreUnaligned(section + negative_begin, num_segments - num_nonnegative);
}

// ---- Both --------------------------------------------------------------------------------------

// Computes the decoded value of each rank.
__global__ void FillTableKernel(SegmentTable segments, const ValueParams* params, float* table) {
  for (uint64_t i = ThisThread(); i < params->num_ranks; i += NumThreads()) {
    const auto rank = static_cast<uint32_t>(i);
    table[rank] = segments.Find(rank).ValueOf(rank);
  }
}

}  // namespace

Status MeasurePoly(const ValueSpec& spec, const SelectedValues& values, uint32_t max_k,
                   const uint32_t* k_dev, const CodedBuffers& buffers, cudaStream_t stream) {
  const SortedBuffers& sorted = buffers.sorted;
  TFC_RETURN_IF_ERROR(SortValues(values, k_dev, sorted, stream));
  TFC_RETURN_IF_ERROR(
      FitPolynomials(sorted.keys_dev(), k_dev, sorted.num_nonnegative_dev, buffers.fit, stream));
  TFC_RETURN_IF_ERROR(Launch("measure poly", MeasurePolyKernel, 1, kWarpThreads, stream, spec,
                             k_dev, buffers.fit.num_bytes_dev, sorted.ranks_dev(),
                             buffers.table_dev, buffers.params_dev));
  return LaunchThreads("fill table", FillTableKernel, max_k, stream, buffers.fit.table,
                       buffers.params_dev, buffers.table_dev);
}

Status WriteSegments(const CodedBuffers& buffers, const EncodeState* state_dev,
                     unsigned char* frame_dev, cudaStream_t stream) {
  const PolynomialConfig& config = buffers.fit.config;
  return LaunchThreads("write segments", WriteSegmentsKernel, kNumSigns * config.MaxSegments(),
                       stream, config.degree, buffers.fit.table, state_dev, frame_dev);
}

Status ReadSegments(const ValueSectionView& section, uint32_t bits, const ParamBuffers& buffers,
                    uint32_t* error_dev, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(Launch("read segments", ReadSegmentsKernel, 1, kWarpThreads, stream, section,
                             buffers.segments, bits, buffers.table_dev, error_dev,
                             buffers.params_dev));
  return LaunchThreads("fill table", FillTableKernel, section.k, stream, buffers.segments,
                       buffers.params_dev, buffers.table_dev);
}

}  // namespace device
}  // namespace tfcompress
