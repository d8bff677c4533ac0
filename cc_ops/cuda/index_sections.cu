#include "core/bit_io.h"
#include "cuda/index_sections.h"
#include "cuda/launch_frames.h"
#include "cuda/load_volatile.h"
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

__global__ void ReadIndicesKernel(const SupportSection* sections) {
  const SupportSection& section = sections[blockIdx.y];
  for (uint64_t i = ThisThread(); i < section.k; i += NumThreads())
    section.indices_dev[i] = LoadAt<uint32_t>(section.data_dev, i);
}

__global__ void WriteBitmapsKernel(const EncodedFrame* frames) {
  const EncodedFrame& frame = frames[blockIdx.y];
  if (frame.state_dev->k == 0) return;
  StoreBytes(frame.marks.words_dev, PackedBytes(frame.marks.n, 1),
             frame.data_dev + kFrameHeaderBytes);
}

__global__ void ReadBitmapsKernel(const SupportSection* sections) {
  const SupportSection& section = sections[blockIdx.y];
  if (section.k == 0) return;
  LoadBytes(section.data_dev, PackedBytes(section.n, 1), section.marks.num_tiles() * kTileWords,
            section.marks.words_dev);
}

// One thread for each section.
__global__ void CheckBitmapsKernel(const SupportSection* sections, uint64_t num_sections,
                                   uint32_t bits) {
  for (uint64_t i = ThisThread(); i < num_sections; i += NumThreads()) {
    const SupportSection& section = sections[i];
    if (section.k == 0) continue;
    const uint32_t n = section.n;
    const bool has_more = n % 8 != 0 && section.data_dev[n / 8] >> (n % 8) != 0;
    if (has_more || section.marks.NumMarked() != section.k) atomicOr(section.error_dev, bits);
  }
}

__global__ void CheckIndicesKernel(const SupportSection* sections, const uint32_t* common_error,
                                   uint32_t bits) {
  const SupportSection& section = sections[blockIdx.y];
  if (section.k == 0 || LoadVolatile(section.error_dev) != 0) return;
  const uint32_t* const indices = section.indices_dev;
  bool valid = *common_error == 0;
  for (uint64_t i = ThisThread(); i < section.k && valid; i += NumThreads()) {
    const uint32_t index = indices[i];
    valid = index < section.n && (i == 0 || indices[i - 1] < index);
  }
  if (!valid) atomicOr(section.error_dev, bits);
}

}  // namespace

Status WriteIndices(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchFrames("write indices", WriteIndicesKernel, frames, MaxSupportOf, stream);
}

Status ReadIndices(const Parts<SupportSection>& sections, cudaStream_t stream) {
  return LaunchParts("read indices", ReadIndicesKernel, CountItems(sections.on_host, SupportSizeOf),
                     sections.size(), stream, sections.data_dev);
}

Status WriteBitmaps(const Parts<EncodedFrame>& frames, cudaStream_t stream) {
  return LaunchFrames(
      "write bitmaps", WriteBitmapsKernel, frames,
      [](const EncodedFrame& frame) { return CeilDiv(frame.marks.n, 32); }, stream);
}

Status ReadBitmaps(const Parts<SupportSection>& sections, const Marks& marks, uint32_t bits,
                   cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(LaunchParts("read bitmaps", ReadBitmapsKernel,
                                  CountItems(sections.on_host, MarkWordsOf), sections.size(),
                                  stream, sections.data_dev));
  TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
  TFC_RETURN_IF_ERROR(LaunchThreads("check bitmaps", CheckBitmapsKernel, sections.size(), stream,
                                    sections.data_dev, sections.size(), bits));
  return ListMarks(sections, stream);
}

Status ListSeeded(const Parts<SupportSection>& sections, const Marks& marks, cudaStream_t stream) {
  TFC_RETURN_IF_ERROR(ClearMarks(marks, stream));
  TFC_RETURN_IF_ERROR(MarkSeeds(sections, stream));
  TFC_RETURN_IF_ERROR(CountMarks(marks, stream));
  TFC_RETURN_IF_ERROR(ScanMarks(marks, stream));
  return ListMarks(sections, stream);
}

Status CheckIndices(const Parts<SupportSection>& sections, const uint32_t* common_error_dev,
                    uint32_t bits, cudaStream_t stream) {
  return LaunchParts("check indices", CheckIndicesKernel,
                     CountItems(sections.on_host, SupportSizeOf), sections.size(), stream,
                     sections.data_dev, common_error_dev, bits);
}

}  // namespace device
}  // namespace tfcompress
