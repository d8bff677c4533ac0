// The index codec huffman on the device: codes the bytes of the indices with a Huffman code that
// follows from n. core/index/huffman_index.cc.
#ifndef TFCOMPRESS_CUDA_HUFFMAN_INDEX_H_
#define TFCOMPRESS_CUDA_HUFFMAN_INDEX_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/entropy/huffman_words.h"
#include "core/index/byte_code.h"
#include "core/status.h"
#include "cuda/code_blocks.h"
#include "cuda/workspace.h"

namespace tfcompress {
namespace device {

// The code as a kernel argument: everything else follows from the lengths.
struct ByteCode {
  static ByteCode For(uint32_t n);

  // Upper bound of the bytes that k indices take.
  uint64_t MaxBytes(uint64_t k) const { return MaxByteCodeBytes(max_length, k); }

  uint8_t lengths[kNumByteValues];
  int max_length;
  bool is_alone;
};

inline constexpr int kMaxByteCodeBits = kSmallAlphabetHuffmanBits;
static_assert(kBytesPerIndex * kMaxByteCodeBits <= static_cast<int>(kMaxCodeBits));

struct ByteTables {
  HuffmanWord words[kNumByteValues];
  HuffmanEntry entries[1 << kMaxByteCodeBits];
};

struct HuffmanWriteBuffers {
  ByteTables* tables_dev;
  CodeWriteBuffers codes;

  const uint64_t* num_bytes_dev() const { return &codes.sizes_dev->num_bytes; }
};

// Takes buffers for up to max_k indices.
Status TakeHuffmanWriteBuffers(const ByteCode& code, uint32_t max_k, Workspace* workspace,
                               HuffmanWriteBuffers* buffers);

// Finds the length of the section of the *k_dev indices.
Status MeasureHuffmanIndices(const ByteCode& code, const uint32_t* indices_dev,
                             const uint32_t* k_dev, const HuffmanWriteBuffers& buffers,
                             cudaStream_t stream);
// Writes the measured section. Does nothing if *k_dev is 0.
Status WriteHuffmanIndices(const uint32_t* indices_dev, const uint32_t* k_dev,
                           const HuffmanWriteBuffers& buffers, unsigned char* section_dev,
                           cudaStream_t stream);

struct HuffmanReadBuffers {
  ByteTables* tables_dev;
  CodeHead* head_dev;
  CodeReadBuffers codes;
};

// Takes buffers for sections of that extent.
Status TakeHuffmanReadBuffers(const CodeExtent& max_extent, Workspace* workspace,
                              HuffmanReadBuffers* buffers);

// Decodes the k indices of a section into indices_dev. Sets bits of *error_dev if the section is
// invalid; does nothing if an error is set before. Does not check the indices: CheckIndices does.
Status ReadHuffmanIndices(const ByteCode& code, const unsigned char* section_dev,
                          uint64_t num_bytes, uint32_t k, const HuffmanReadBuffers& buffers,
                          uint32_t bits, uint32_t* error_dev, uint32_t* indices_dev,
                          cudaStream_t stream);

}  // namespace device
}  // namespace tfcompress

#endif  // TFCOMPRESS_CUDA_HUFFMAN_INDEX_H_
