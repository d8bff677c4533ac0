#include <algorithm>

#include "cuda/code_walk.h"
#include "cuda/cuda_status.h"
#include "cuda/huffman_index.h"

namespace tfcompress {
namespace device {
namespace {

// One block, a thread for each value of a byte.
static_assert(kNumByteValues == kBlockThreads);
__global__ void BuildTablesKernel(ByteCode code, ByteTables* tables) {
  __shared__ uint8_t lengths[kNumByteValues];
  __shared__ uint32_t next_words[kMaxHuffmanBits + 1];
  __shared__ HuffmanWord words[kNumByteValues];
  const uint32_t byte = threadIdx.x;
  lengths[byte] = code.lengths[byte];
  __syncthreads();
  if (byte == 0) AssignHuffmanWords(lengths, kNumByteValues, next_words, words);
  __syncthreads();
  tables->words[byte] = words[byte];
  FillHuffmanEntries(byte, words[byte], code.is_alone, 1u << code.max_length, tables->entries);
}

__global__ void BeginSizeKernel(CodeSectionSize* size) {
  if (ThisThread() == 0) size->blocks_begin = 0;
}

__global__ void BeginSectionKernel(uint32_t max_code_bits, CodeSection* section) {
  if (ThisThread() != 0) return;
  section->blocks_begin = 0;
  section->max_code_bits = max_code_bits;
}

class ByteWords {
 public:
  using Source = const ByteTables*;

  __device__ explicit ByteWords(Source tables) : words_(tables->words) {}

  __device__ ItemCode At(const uint32_t* indices, uint64_t i) const {
    const uint32_t index = indices[i];
    ItemCode code = {0, 0};
    for (int byte = 0; byte < kBytesPerIndex; ++byte) {
      const HuffmanWord word = words_[index >> (8 * byte) & 0xFF];
      code.bits |= static_cast<uint64_t>(word.bits) << code.num_bits;
      code.num_bits += word.length;
    }
    return code;
  }
  __device__ void WriteHead(const uint32_t*, uint64_t, bool, uint32_t*) const {}

 private:
  const HuffmanWord* words_;
};

class ByteEntries {
 public:
  struct Source {
    const ByteTables* tables;
    uint32_t mask;
  };

  __device__ explicit ByteEntries(const Source& source)
      : entries_(source.tables->entries), mask_(source.mask) {}

  __device__ uint32_t Length(uint64_t window) const {
    uint32_t index = 0;
    return Read(window, &index);
  }
  // Returns the length of the code.
  __device__ uint32_t Read(uint64_t window, uint32_t* index) const {
    uint32_t num_bits = 0, read = 0;
    for (int byte = 0; byte < kBytesPerIndex; ++byte) {
      const HuffmanEntry entry = entries_[static_cast<uint32_t>(window >> num_bits) & mask_];
      read |= uint32_t{entry.symbol} << (8 * byte);
      num_bits += entry.length;
    }
    *index = read;
    return num_bits;
  }

 private:
  const HuffmanEntry* entries_;
  uint32_t mask_;
};

// A thread a tile.
__global__ void DecodeBytesKernel(ByteEntries::Source source, CodeList list, CodeSection* section,
                                  const uint64_t* begins, const WalkStart* starts,
                                  const uint32_t* words, uint32_t bits, uint32_t* error,
                                  uint32_t* indices) {
  if (HasError(error)) return;
  const ByteEntries codes(source);
  const BlockMap map(list, section, begins);
  const uint64_t num_tiles = NumWalkTiles(list.num_items, list.num_bytes);
  for (uint64_t i = ThisThread(); i < num_tiles; i += NumThreads()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    uint32_t* block_indices = indices + tile.block * kCodeBlockItems;
    const bool is_whole = DecodeTile(map, tile, starts[i], words, section,
                                     [&](uint32_t item, uint64_t window) -> uint32_t {
                                       return codes.Read(window, &block_indices[item]);
                                     });
    if (!is_whole) atomicOr(error, bits);
  }
}

Status BuildTables(const ByteCode& code, ByteTables* tables_dev, cudaStream_t stream) {
  return Launch("build tables", BuildTablesKernel, 1, kBlockThreads, stream, code, tables_dev);
}

}  // namespace

ByteCode ByteCode::For(uint32_t n) {
  const HuffmanCode code = ByteCodeFor(n);
  ByteCode byte_code{};
  std::copy(code.lengths().begin(), code.lengths().end(), byte_code.lengths);
  byte_code.max_length = code.max_length();
  byte_code.is_alone = code.is_alone();
  return byte_code;
}

Status TakeHuffmanWriteBuffers(const ByteCode& code, uint32_t max_k, Workspace* workspace,
                               HuffmanWriteBuffers* buffers) {
  buffers->tables_dev = workspace->Take<ByteTables>(1);
  return TakeCodeWriteBuffers(max_k, code.MaxBytes(max_k), workspace, &buffers->codes);
}

Status MeasureHuffmanIndices(const ByteCode& code, const uint32_t* indices_dev,
                             const uint32_t* k_dev, const HuffmanWriteBuffers& buffers,
                             cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(BuildTables(code, buffers.tables_dev, stream));
  TFC_RETURN_IF_ERROR(
      Launch("begin size", BeginSizeKernel, 1, kWarpThreads, stream, buffers.codes.size_dev));
  TFC_RETURN_IF_ERROR(
      MeasureCodes<ByteWords>(buffers.tables_dev, indices_dev, k_dev, buffers.codes, stream));
  return PlaceCodeBlocks(k_dev, buffers.codes, stream);
}

Status WriteHuffmanIndices(const uint32_t* indices_dev, const uint32_t* k_dev,
                           const HuffmanWriteBuffers& buffers, unsigned char* section_dev,
                           cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(ClearCodeSection(k_dev, buffers.codes, stream));
  TFC_RETURN_IF_ERROR(
      WriteCodes<ByteWords>(buffers.tables_dev, indices_dev, k_dev, buffers.codes, stream));
  return StoreCodeSection(k_dev, buffers.codes, section_dev, stream);
}

Status TakeHuffmanReadBuffers(uint32_t max_k, uint64_t max_bytes, Workspace* workspace,
                              HuffmanReadBuffers* buffers) {
  buffers->tables_dev = workspace->Take<ByteTables>(1);
  return TakeCodeReadBuffers(max_k, max_bytes, workspace, &buffers->codes);
}

Status ReadHuffmanIndices(const ByteCode& code, const unsigned char* section_dev,
                          const CodeList& list, const HuffmanReadBuffers& buffers, uint32_t bits,
                          uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream) {
  const CodeReadBuffers& codes = buffers.codes;
  const ByteEntries::Source source = {buffers.tables_dev, (1u << code.max_length) - 1};
  const auto max_code_bits = static_cast<uint32_t>(kBytesPerIndex * code.max_length);
  TFC_RETURN_IF_ERROR(LoadCodeSection(section_dev, list, codes, stream));
  TFC_RETURN_IF_ERROR(BuildTables(code, buffers.tables_dev, stream));
  TFC_RETURN_IF_ERROR(Launch("begin section", BeginSectionKernel, 1, kWarpThreads, stream,
                             max_code_bits, codes.section_dev));
  TFC_RETURN_IF_ERROR(FindCodeBlocks(list, codes, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(WalkTiles<ByteEntries>(source, list, codes, error_dev, stream));
  TFC_RETURN_IF_ERROR(FollowWalk(list, codes, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("decode bytes", DecodeBytesKernel,
                                    NumWalkTiles(list.num_items, list.num_bytes), stream, source,
                                    list, codes.section_dev, codes.begins_dev, codes.starts_dev,
                                    codes.words_dev, bits, error_dev, indices_dev));
  return CheckCodeSectionEnd(list, codes, bits, error_dev, stream);
}

}  // namespace device
}  // namespace tfcompress
