// Shared wire format of codecs with a MinMaxSketch: the mean magnitudes of the buckets, and the
// cells, which hold bucket numbers.
#ifndef TFCOMPRESS_CORE_ENTROPY_BUCKET_TABLES_H_
#define TFCOMPRESS_CORE_ENTROPY_BUCKET_TABLES_H_

#include <cstdint>
#include <vector>

#include "core/byte_io.h"
#include "core/span.h"
#include "core/status.h"

namespace tfcompress {

// Appends the number of buckets and their means.
void WriteBucketMeans(Span<const float> means, ByteWriter* writer);
// Reads at most `max_buckets` finite means without a sign bit; else fails with DataLoss.
Status ReadBucketMeans(uint32_t max_buckets, ByteReader* reader, std::vector<float>* means);

// Appends cells below `width` as numbers of ceil(log2 width) bits.
void WritePackedCells(Span<const uint16_t> cells, uint32_t width, ByteWriter* writer);
// Reads cells.size() cells. Fails with DataLoss if a cell is not below `width`.
Status ReadPackedCells(uint32_t width, ByteReader* reader, Span<uint16_t> cells);

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_ENTROPY_BUCKET_TABLES_H_
