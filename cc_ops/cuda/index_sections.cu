#include "core/bit_io.h"
#include "cuda/coded_values.h"
#include "cuda/index_sections.h"
#include "cuda/launch_frames.h"
#include "cuda/raw_bytes.h"
#include "cuda/tiles.h"

namespace tfcompress {
namespace device {
namespace {

__global__ void WriteIndicesKernel(const EncodedFrame* frames) {
  const EncodedFrame& frame = frames[blockIdx.y];
  const uint32_t* const indices = frame.support_dev;
  const uint32_t k = frame.state_dev->k;
  unsigned char* const section = frame.data_dev + kFrameHeaderBytes;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads()) StoreAt(section, i, indices[i]);
}

__global__ void ReadIndicesKernel(const unsigned char* section, uint32_t k, uint32_t* indices) {
  for (uint64_t i = ThisThread(); i < k; i += NumThreads())
    indices[i] = LoadAt<uint32_t>(section, i);
}

__global__ void WriteBitmapsKernel(const EncodedFrame* frames) {
  const EncodedFrame& frame = frames[blockIdx.y];
  if (frame.state_dev->k == 0) return;
  StoreBytes(frame.marks.words_dev, PackedBytes(frame.marks.n, 1),
             frame.data_dev + kFrameHeaderBytes);
}

__global__ void ReadBitmapKernel(const unsigned char* section, uint64_t num_bytes,
                                 uint64_t num_words, uint32_t* words) {
  LoadBytes(section, num_bytes, num_words, words);
}

__global__ void CheckBitmapKernel(const unsigned char* section, uint64_t num_bytes, uint32_t n,
                                  uint32_t k, const uint64_t* num_marked, uint32_t bits,
                                  uint32_t* error) {
  if (ThisThread() != 0) return;
  const bool has_more = n % 8 != 0 && section[num_bytes - 1] >> (n % 8) != 0;
  if (has_more || *num_marked != k) atomicOr(error, bits);
}

__global__ void CheckIndicesKernel(const AddedValues* sections, uint32_t bits) {
  const AddedValues& added = sections[blockIdx.y];
  const uint32_t* indices = added.indices_dev;
  const uint32_t k = added.NumIndices(), n = added.n;
  bool valid = true;
  for (uint64_t i = ThisThread(); i < k; i += NumThreads()) {
    const uint32_t index = indices[i];
    valid &= index < n && (i == 0 || indices[i - 1] < index);
  }
  if (!valid) atomicOr(added.error_dev, bits);
}

}  // namespace

Status WriteIndices(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchFrames("write indices", WriteIndicesKernel, frames, MaxSupportOf, stream);
}

Status ReadIndices(const unsigned char* section_dev, uint32_t k, uint32_t* indices_dev,
                   cudaStream_t stream) {
  return LaunchThreads("read indices", ReadIndicesKernel, k, stream, section_dev, k, indices_dev);
}

Status WriteBitmaps(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchFrames(
      "write bitmaps", WriteBitmapsKernel, frames,
      [](const EncodedFrame& frame) { return CeilDiv(frame.marks.n, 32); }, stream);
}

Status ReadBitmap(const unsigned char* section_dev, uint32_t k, const Marks& marks, uint32_t bits,
                  uint32_t* error_dev, uint32_t* indices_dev, cudaStream_t stream) {
  const uint64_t num_bytes = PackedBytes(marks.n, 1);
  const uint64_t num_words = marks.num_tiles() * kTileWords;
  TFC_RETURN_IF_ERROR(LaunchThreads("read bitmap", ReadBitmapKernel, num_words, stream, section_dev,
                                    num_bytes, num_words, marks.words_dev));
  TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
  TFC_RETURN_IF_ERROR(Launch("check bitmap", CheckBitmapKernel, 1, kWarpThreads, stream,
                             section_dev, num_bytes, marks.n, k, marks.num_marked_dev(), bits,
                             error_dev));
  return ListMarks(marks, k, indices_dev, stream);
}

Status CheckIndices(const Parts<AddedValues>& sections, uint32_t bits, cudaStream_t stream) {
  const PartItems indices =
      CountItems(sections.on_host, [](const AddedValues& added) { return added.NumIndices(); });
  return LaunchParts("check indices", CheckIndicesKernel, indices, sections.size(), stream,
                     sections.data_dev, bits);
}

}  // namespace device
}  // namespace tfcompress
