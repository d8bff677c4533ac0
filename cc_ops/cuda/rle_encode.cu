#include "cuda/code_walk.h"
#include "cuda/cuda_status.h"
#include "cuda/rle.h"
#include "cuda/scan.h"

namespace tfcompress {
namespace device {
namespace {

// Numbers are below 2^31.
constexpr uint32_t kNumberBits = kWarpThreads;
static_assert(kMaxRiceBits < kNumberBits);

__device__ bool BeginsRun(const uint32_t* indices, uint64_t i, uint64_t k) {
  return i < k && (i == 0 || indices[i] - indices[i - 1] != 1);
}

__global__ void CountRunStartsKernel(const uint32_t* indices, const uint32_t* k, uint64_t num_tiles,
                                     uint64_t* counts) {
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint32_t own = 0;
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads)
      own += BeginsRun(indices, tile * kTileElements + row + ThisLane(), *k);
    own = SumOfLanes(own);
    if (ThisLane() == 0) counts[tile] = own;
  }
}

__global__ void ListRunStartsKernel(const uint32_t* indices, const uint32_t* k, uint64_t num_tiles,
                                    const uint64_t* ends, uint32_t* starts, RleHeader* header) {
  if (ThisThread() == 0) header->num_runs = static_cast<uint32_t>(ends[num_tiles]);
  for (uint64_t tile = ThisWarp(); tile < num_tiles; tile += NumWarps()) {
    uint64_t begin = ends[tile];
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile * kTileElements + row + ThisLane();
      const bool is_start = BeginsRun(indices, i, *k);
      const uint32_t lanes = __ballot_sync(kAllLanes, is_start);
      if (is_start) starts[begin + __popc(lanes & LanesBefore())] = static_cast<uint32_t>(i);
      begin += __popc(lanes);
    }
  }
}

// Run lengths as they are coded: minus one, except the first run of zeros.
class Runs {
 public:
  struct Source {
    const uint32_t* indices;
    const uint32_t* k;
    const uint32_t* starts;
    const RleHeader* header;
  };

  __device__ explicit Runs(const Source& source)
      : indices_(source.indices),
        k_(*source.k),
        starts_(source.starts),
        num_runs_(source.header->num_runs) {}

  __device__ uint32_t size() const { return num_runs_; }
  __device__ uint32_t Zeros(uint64_t i) const {
    const uint32_t start = starts_[i];
    return i == 0 ? indices_[0] : indices_[start] - indices_[start - 1] - 2;
  }
  __device__ uint32_t Ones(uint64_t i) const {
    return (i + 1 < num_runs_ ? starts_[i + 1] : k_) - starts_[i] - 1;
  }

 private:
  const uint32_t* indices_;
  uint32_t k_;
  const uint32_t* starts_;
  uint32_t num_runs_;
};

// Adds to the count of lane b the number of lanes whose number has bit b set.
__device__ void CountBitsOfLanes(uint32_t number, uint32_t* count) {
  for (uint32_t bit = 0; __any_sync(kAllLanes, number >> bit != 0); ++bit) {
    const uint32_t lanes = __ballot_sync(kAllLanes, number >> bit & 1);
    if (ThisLane() == bit) *count += __popc(lanes);
  }
}

__global__ void CountNumberBitsKernel(Runs::Source source, uint32_t* counts) {
  const Runs runs(source);
  uint32_t num_zero_bits = 0, num_one_bits = 0;
  for (uint64_t row = ThisWarp() * kWarpThreads; row < runs.size();
       row += NumWarps() * kWarpThreads) {
    const uint64_t i = row + ThisLane();
    CountBitsOfLanes(i < runs.size() ? runs.Zeros(i) : 0, &num_zero_bits);
    CountBitsOfLanes(i < runs.size() ? runs.Ones(i) : 0, &num_one_bits);
  }
  if (num_zero_bits != 0) atomicAdd(&counts[ThisLane()], num_zero_bits);
  if (num_one_bits != 0) atomicAdd(&counts[kNumberBits + ThisLane()], num_one_bits);
}

// Returns the sum of numbers shifted right by r, given that counts[b] of them have bit b set.
__device__ uint64_t SumShifted(const uint32_t* counts, uint32_t r) {
  uint64_t sum = 0;
  for (uint32_t bit = r; bit < kNumberBits; ++bit) sum += uint64_t{counts[bit]} << (bit - r);
  return sum;
}

__device__ uint8_t ChooseRice(uint32_t count, const uint64_t* sums) {
  return static_cast<uint8_t>(CheapestRice(count, sums[0], [&](int r) { return sums[r]; }));
}

// One warp, one lane per parameter.
__global__ void ChooseRiceKernel(const uint32_t* counts, RleHeader* header, CodeListSize* size) {
  __shared__ uint64_t sums[2][kNumberBits];
  sums[0][ThisLane()] = SumShifted(counts, ThisLane());
  sums[1][ThisLane()] = SumShifted(counts + kNumberBits, ThisLane());
  __syncwarp();
  if (ThisLane() != 0) return;
  header->zero_bits = ChooseRice(header->num_runs, sums[0]);
  header->one_bits = ChooseRice(header->num_runs, sums[1]);
  size->blocks_begin = kRleHeaderBytes;
}

// A run of zeros and the run of ones after it.
class RunCodes {
 public:
  using Source = Runs::Source;

  __device__ RunCodes(const Source& source, uint32_t)
      : runs_(source), zero_bits_(source.header->zero_bits), one_bits_(source.header->one_bits) {}

  __device__ Rice Zeros(uint64_t i) const { return Rice(runs_.Zeros(i), zero_bits_); }
  __device__ Rice Ones(uint64_t i) const { return Rice(runs_.Ones(i), one_bits_); }
  // Measures only: the code may have any length, and its bits are not set.
  __device__ ItemCode At(const uint32_t*, uint64_t i) const {
    return {0, static_cast<uint32_t>(Zeros(i).length() + Ones(i).length())};
  }

 private:
  Runs runs_;
  int zero_bits_;
  int one_bits_;
};

__device__ void WriteHead(const RleHeader& header, uint32_t* words) {
  OrBits(words, 0,
         uint64_t{header.num_runs} | uint64_t{header.zero_bits} << 32 |
             uint64_t{header.one_bits} << 40);
}

// Writes the one and the low bits of a code; the zeros before them are in the words already.
__device__ void WriteLast(const Rice& rice, uint64_t begin, uint32_t* words) {
  OrBits(words, begin + rice.unary, rice.last);
}

__global__ void WriteRunsKernel(Runs::Source source, const uint32_t* k, KeyLists runs,
                                CodeWriteBuffers buffers) {
  if (*k == 0) return;
  const RunCodes codes(source, 0);
  const ListBlocks blocks(runs, buffers.num_slots);
  uint32_t* words = buffers.words_dev;
  if (ThisThread() == 0) WriteHead(*source.header, words);
  for (uint64_t t = ThisWarp(); t < buffers.max_tiles; t += NumWarps()) {
    const KeyTile tile = runs.At(t);
    if (!tile.exists()) continue;
    uint64_t begin = BeginTile(blocks, buffers, tile, t, 0);
    for (uint32_t row = 0; row < kTileElements; row += kWarpThreads) {
      const uint64_t i = tile.FirstKey() + row + ThisLane();
      const uint32_t own = i < tile.size ? codes.At(nullptr, i).num_bits : 0;
      const uint32_t up_to_own = InclusiveSum(own);
      if (i < tile.size) {
        const Rice zeros = codes.Zeros(i);
        const uint64_t own_begin = begin + up_to_own - own;
        WriteLast(zeros, own_begin, words);
        WriteLast(codes.Ones(i), own_begin + zeros.length(), words);
      }
      begin += __shfl_sync(kAllLanes, up_to_own, kWarpThreads - 1);
    }
  }
}

Runs::Source SourceOf(const uint32_t* indices_dev, const uint32_t* k_dev,
                      const RleWriteBuffers& buffers) {
  return {indices_dev, k_dev, buffers.starts_dev, buffers.header_dev};
}

KeyLists RunsOf(const RleWriteBuffers& buffers) {
  return KeyLists::One(&buffers.header_dev->num_runs, buffers.codes.max_items);
}

}  // namespace

Status TakeRleWriteBuffers(uint32_t n, uint32_t max_k, Workspace* workspace,
                           RleWriteBuffers* buffers) {
  const uint64_t num_tiles = NumTiles(max_k);
  buffers->num_starts_dev = workspace->Take<uint64_t>(num_tiles + 1);
  TFC_RETURN_IF_ERROR(TakeScanStorage(num_tiles, workspace, &buffers->scan_storage));
  buffers->starts_dev = workspace->Take<uint32_t>(max_k);
  buffers->bit_counts_dev = workspace->Take<uint32_t>(2 * kNumberBits);
  buffers->header_dev = workspace->Take<RleHeader>(1);
  return TakeCodeWriteBuffers(1, max_k, MaxRleBytes(n, max_k), workspace, &buffers->codes);
}

Status MeasureRuns(const uint32_t* indices_dev, const uint32_t* k_dev,
                   const RleWriteBuffers& buffers, cudaStream_t stream) {
  const CodeWriteBuffers& codes = buffers.codes;
  const uint64_t num_tiles = NumTiles(codes.max_items);
  const Runs::Source source = SourceOf(indices_dev, k_dev, buffers);
  TFC_RETURN_IF_ERROR(LaunchWarps("count run starts", CountRunStartsKernel, num_tiles, stream,
                                  indices_dev, k_dev, num_tiles, buffers.num_starts_dev));
  TFC_RETURN_IF_ERROR(ScanCounts(buffers.num_starts_dev, num_tiles, buffers.scan_storage, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("list run starts", ListRunStartsKernel, num_tiles, stream,
                                  indices_dev, k_dev, num_tiles, buffers.num_starts_dev,
                                  buffers.starts_dev, buffers.header_dev));
  TFC_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(buffers.bit_counts_dev, 0, 2 * kNumberBits * sizeof(uint32_t), stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("count number bits", CountNumberBitsKernel, codes.max_items,
                                    stream, source, buffers.bit_counts_dev));
  TFC_RETURN_IF_ERROR(Launch("choose rice", ChooseRiceKernel, 1, kWarpThreads, stream,
                             buffers.bit_counts_dev, buffers.header_dev, codes.sizes_dev));
  const KeyLists runs = RunsOf(buffers);
  TFC_RETURN_IF_ERROR(MeasureCodes<RunCodes>(source, runs, codes.max_tiles, buffers.starts_dev,
                                             codes.tile_begins_dev, stream));
  return PlaceCodeBlocks(runs, codes, stream);
}

Status WriteRuns(const uint32_t* indices_dev, const uint32_t* k_dev, const RleWriteBuffers& buffers,
                 unsigned char* section_dev, cudaStream_t stream) {
  const CodeWriteBuffers& codes = buffers.codes;
  const SectionWords words = {codes.words_dev, buffers.num_bytes_dev(), k_dev};
  TFC_RETURN_IF_ERROR(ClearSection(words, codes.max_items, stream));
  TFC_RETURN_IF_ERROR(LaunchWarps("write runs", WriteRunsKernel, codes.max_tiles, stream,
                                  SourceOf(indices_dev, k_dev, buffers), k_dev, RunsOf(buffers),
                                  codes));
  return StoreSection(words, codes.max_items, section_dev, stream);
}

}  // namespace device
}  // namespace tfcompress
