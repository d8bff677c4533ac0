#include <algorithm>

#include "cuda/code_walk.h"
#include "cuda/cuda_status.h"
#include "cuda/huffman_index.h"

namespace tfcompress {
namespace device {
namespace {

// One block, with one thread for each value of a byte.
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

__global__ void BeginSizeKernel(CodeListSize* size) {
  if (ThisThread() == 0) size->blocks_begin = 0;
}

__global__ void BeginSectionKernel(CodeHead head, CodeHead* to) {
  if (ThisThread() == 0) *to = head;
}

class ByteWords {
 public:
  using Source = const ByteTables*;

  __device__ ByteWords(Source tables, uint32_t) : words_(tables->words) {}

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
  __device__ void WriteHead(const uint32_t*, uint64_t, bool, uint64_t, uint32_t*) const {}

 private:
  const HuffmanWord* words_;
};

class ByteEntries {
 public:
  struct Source {
    const ByteTables* tables;
    uint32_t mask;
  };

  __device__ ByteEntries(const Source& source, uint32_t)
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

// One thread per tile.
__global__ void DecodeBytesKernel(ByteEntries::Source source, CodeExtent extent,
                                  CodeReadBuffers buffers, uint32_t bits, uint32_t* error,
                                  uint32_t* indices) {
  if (HasError(error)) return;
  const StreamMap map(buffers.streams_dev, extent.num_streams);
  for (uint64_t i = ThisThread(); i < extent.num_tiles(); i += NumThreads()) {
    const WalkTile tile = map.At(i);
    if (!tile.exists()) continue;
    const CodeStream& stream = buffers.streams_dev[tile.stream];
    const ByteEntries codes(source, stream.list);
    uint32_t* stream_indices = indices + stream.first_item;
    const auto decode = [&](uint64_t item, uint64_t window) {
      return codes.Read(window, &stream_indices[item]);
    };
    if (!DecodeTile(stream, tile, buffers.starts_dev[i], buffers.words_dev, buffers.list_ends_dev,
                    decode))
      atomicOr(error, bits);
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
  return TakeCodeWriteBuffers(1, max_k, code.MaxBytes(max_k), workspace, &buffers->codes);
}

Status MeasureHuffmanIndices(const ByteCode& code, const uint32_t* indices_dev,
                             const uint32_t* k_dev, const HuffmanWriteBuffers& buffers,
                             cudaStream_t stream) {
  const CodeWriteBuffers& codes = buffers.codes;
  const KeyLists list = KeyLists::One(k_dev, codes.max_items);
  TFC_RETURN_IF_ERROR(BuildTables(code, buffers.tables_dev, stream));
  TFC_RETURN_IF_ERROR(
      Launch("begin size", BeginSizeKernel, 1, kWarpThreads, stream, codes.sizes_dev));
  TFC_RETURN_IF_ERROR(MeasureCodes<ByteWords>(buffers.tables_dev, list, codes.max_tiles,
                                              indices_dev, codes.tile_begins_dev, stream));
  return PlaceCodeBlocks(list, codes, stream);
}

Status WriteHuffmanIndices(const uint32_t* indices_dev, const uint32_t* k_dev,
                           const HuffmanWriteBuffers& buffers, unsigned char* section_dev,
                           cudaStream_t stream) {
  const CodeWriteBuffers& codes = buffers.codes;
  const SectionWords words = {codes.words_dev, buffers.num_bytes_dev(), k_dev};
  TFC_RETURN_IF_ERROR(ClearSection(words, codes.max_items, stream));
  TFC_RETURN_IF_ERROR(WriteCodes<ByteWords>(buffers.tables_dev,
                                            KeyLists::One(k_dev, codes.max_items), codes,
                                            indices_dev, nullptr, stream));
  return StoreSection(words, codes.max_items, section_dev, stream);
}

Status TakeHuffmanReadBuffers(const CodeExtent& max_extent, Workspace* workspace,
                              HuffmanReadBuffers* buffers) {
  buffers->tables_dev = workspace->Take<ByteTables>(1);
  buffers->head_dev = workspace->Take<CodeHead>(1);
  return TakeCodeReadBuffers(1, max_extent, workspace, &buffers->codes);
}

Status ReadHuffmanIndices(const ByteCode& code, const unsigned char* section_dev,
                          uint64_t num_bytes, uint32_t k, const HuffmanReadBuffers& buffers,
                          uint32_t bits, uint32_t* error_dev, uint32_t* indices_dev,
                          cudaStream_t stream) {
  const CodeReadBuffers& codes = buffers.codes;
  const KeyLists list = KeyLists::One(k);
  const CodeExtent extent = ExtentOf(1, k, num_bytes);
  const ByteEntries::Source source = {buffers.tables_dev, (1u << code.max_length) - 1};
  const CodeHead head = {0, num_bytes, static_cast<uint32_t>(kBytesPerIndex * code.max_length)};
  TFC_RETURN_IF_ERROR(LoadSection(section_dev, num_bytes, codes.words_dev, stream));
  TFC_RETURN_IF_ERROR(BuildTables(code, buffers.tables_dev, stream));
  TFC_RETURN_IF_ERROR(
      Launch("begin section", BeginSectionKernel, 1, kWarpThreads, stream, head, buffers.head_dev));
  TFC_RETURN_IF_ERROR(FindCodeBlocks(list, buffers.head_dev, extent, codes.words_dev, bits,
                                     error_dev, codes.streams_dev, stream));
  TFC_RETURN_IF_ERROR(WalkTiles<ByteEntries>(source, extent, codes, error_dev, stream));
  TFC_RETURN_IF_ERROR(FollowWalk(extent, codes, bits, error_dev, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("decode bytes", DecodeBytesKernel, extent.max_used_tiles(),
                                    stream, source, extent, codes, bits, error_dev, indices_dev));
  return CheckSectionEnd(num_bytes, codes, bits, error_dev, stream);
}

}  // namespace device
}  // namespace tfcompress
