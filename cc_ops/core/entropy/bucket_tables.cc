#include "core/entropy/bucket_tables.h"

#include <algorithm>

#include "core/bit_io.h"
#include "core/float_order.h"

namespace tfcompress {

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
  const std::vector<uint32_t> numbers(cells.begin(), cells.end());
  const int num_bits = BitsFor(width);
  PackBits(numbers, num_bits, SerialExecutor(),
           writer->Extend(PackedBytes(cells.size(), num_bits)));
}

Status ReadPackedCells(uint32_t width, ByteReader* reader, Span<uint16_t> cells) {
  const int num_bits = BitsFor(width);
  ByteSpan packed;
  TFC_RETURN_IF_ERROR(reader->ReadSpan("cells", PackedBytes(cells.size(), num_bits), &packed));
  std::vector<uint32_t> numbers(cells.size());
  UnpackBits(packed, num_bits, SerialExecutor(), numbers);
  uint32_t greatest = 0;
  for (uint32_t number : numbers) greatest = std::max(greatest, number);
  if (greatest >= width) return DataLoss("a cell holds ", greatest, ", below ", width, " expected");
  std::copy(numbers.begin(), numbers.end(), cells.begin());
  return OkStatus();
}

}  // namespace tfcompress
