#include "core/entropy/bucket_tables.h"

#include <algorithm>

#include "core/bit_io.h"
#include "core/float_order.h"

namespace tfcompress {
namespace {

constexpr size_t kChunkCells = 4096;  // A multiple of 8: a chunk begins at a byte.

}  // namespace

void WriteBucketMeans(Span<const float> means, ByteWriter* writer) {
  writer->Write(static_cast<uint32_t>(means.size()));
  writer->WriteArray(means);
}

Status ReadBucketMeans(uint32_t max_buckets, ByteReader* reader, std::vector<float>* means) {
  uint32_t num_buckets = 0;
  TFC_RETURN_IF_ERROR(reader->Read("number of buckets", &num_buckets));
  if (num_buckets > max_buckets) {
    return DataLoss(num_buckets, " buckets, at most ", max_buckets, " expected");
  }
  TFC_RETURN_IF_ERROR(reader->ReadArray("means", num_buckets, means));
  for (float mean : *means) {
    // The bits of a negative number are greater than those of infinity.
    if (FloatBits(mean) >= kFloatInfinityBits) {
      return DataLoss("the magnitude of a bucket is ", mean);
    }
  }
  return OkStatus();
}

void WritePackedCells(Span<const uint16_t> cells, uint32_t width, ByteWriter* writer) {
  const int num_bits = BitsFor(width);
  unsigned char* const packed = writer->Extend(PackedBytes(cells.size(), num_bits));
  uint32_t numbers[kChunkCells];
  for (size_t begin = 0; begin < cells.size(); begin += kChunkCells) {
    const size_t size = std::min(kChunkCells, cells.size() - begin);
    std::copy_n(cells.data() + begin, size, numbers);
    PackBits({numbers, size}, num_bits, SerialExecutor(), packed + PackedBytes(begin, num_bits));
  }
}

Status ReadPackedCells(uint32_t width, ByteReader* reader, Span<uint16_t> cells) {
  const int num_bits = BitsFor(width);
  ByteSpan packed;
  TFC_RETURN_IF_ERROR(reader->ReadSpan("cells", PackedBytes(cells.size(), num_bits), &packed));
  uint32_t numbers[kChunkCells];
  uint32_t greatest = 0;
  for (size_t begin = 0; begin < cells.size(); begin += kChunkCells) {
    const size_t size = std::min(kChunkCells, cells.size() - begin);
    const uint64_t offset = PackedBytes(begin, num_bits);
    UnpackBits(packed.subspan(offset, PackedBytes(begin + size, num_bits) - offset), num_bits,
               SerialExecutor(), {numbers, size});
    for (size_t i = 0; i < size; ++i) greatest = std::max(greatest, numbers[i]);
    std::copy_n(numbers, size, cells.data() + begin);
  }
  if (greatest >= width) return DataLoss("a cell holds ", greatest, ", below ", width, " expected");
  return OkStatus();
}

}  // namespace tfcompress
