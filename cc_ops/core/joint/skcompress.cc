// skcompress: grouped MinMaxSketches with Huffman-coded cells and adaptive delta-coded keys
// (SKCompress 4.2, 4.3 and 5.2; the defaults of 7.1).
//
// The minimum rule of the sketch makes small bucket numbers frequent (4.3), so each group has its
// own Huffman code, or packed cells if those are shorter.
#include "core/bit_io.h"
#include "core/entropy/adaptive_delta.h"
#include "core/entropy/bit_stream.h"
#include "core/entropy/bucket_tables.h"
#include "core/entropy/huffman.h"
#include "core/joint/grouped_sketch.h"

namespace tfcompress {
namespace {

class SkcompressFormat : public GroupFormat {
 public:
  const char* name() const override { return "skcompress"; }

  void WriteKeys(Span<const uint32_t> keys, Bytes* out) const override {
    EncodeAdaptiveDeltas(keys, SerialExecutor(), out);
  }
  Status ReadKeys(uint32_t num_keys, uint32_t n, ByteReader* reader,
                  std::vector<uint32_t>* keys) const override {
    return DecodeAdaptiveDeltas(num_keys, n, SerialExecutor(), reader, keys);
  }
  uint64_t MaxKeyBytes(uint64_t num_keys, uint64_t num_groups) const override {
    // The constant part of the cost of a list is less than the cost of one key.
    return MaxAdaptiveDeltaBytes(num_keys) + num_groups * MaxAdaptiveDeltaBytes(1);
  }

  void WriteCells(Span<const uint16_t> cells, uint32_t width, Bytes* out) const override {
    std::vector<uint64_t> counts(width);
    for (uint16_t cell : cells) ++counts[cell];
    const HuffmanCode code = HuffmanCode::FromCounts(counts);
    const size_t num_code_bytes = BytesOfBits(code.NumBits(counts));
    const bool pays = BytesOfBits(code.NumLengthBits()) + num_code_bytes <
                      PackedBytes(cells.size(), BitsFor(width));
    ByteWriter writer(out);
    writer.Write(pays ? CellCoding::kHuffman : CellCoding::kPacked);
    if (!pays) return WritePackedCells(cells, width, &writer);
    code.WriteLengths(out);
    unsigned char* begin = writer.Extend(num_code_bytes);
    BitWriter bits(begin, begin + num_code_bytes);
    code.Encode(cells, &bits);
  }

  Status ReadCells(uint32_t width, ByteReader* reader, Span<uint16_t> cells) const override {
    CellCoding coding;
    TFC_RETURN_IF_ERROR(reader->Read("cell coding", &coding));
    if (coding == CellCoding::kPacked) return ReadPackedCells(width, reader, cells);
    if (coding != CellCoding::kHuffman)
      return DataLoss("unknown cell coding ", static_cast<int>(coding));
    TFC_ASSIGN_OR_RETURN(const HuffmanCode code, HuffmanCode::ReadLengths(width, reader));
    ByteSpan rest;  // Cells are the last part of a group.
    TFC_RETURN_IF_ERROR(reader->ReadSpan("cells", reader->remaining(), &rest));
    BitReader bits(rest);
    HuffmanDecoder(code).Decode(&bits, cells);
    size_t num_bytes = 0;
    TFC_RETURN_IF_ERROR(bits.Finish("cells", &num_bytes));
    if (num_bytes == rest.size()) return OkStatus();
    return DataLoss("cells: ", rest.size() - num_bytes, " bytes too many");
  }
  uint64_t MaxExtraCellBytes() const override { return sizeof(CellCoding); }
};

}  // namespace

Definition<SparseCodec> SkcompressJoint() {
  return {"sketchml with Huffman-coded cells and adaptive deltas (SKCompress 4.2, 4.3, 5.2)",
          GroupedSketchParams(),
          [](const Params& params) {
            static const SkcompressFormat format;
            return MakeGroupedSketch(params, &format);
          },
          "as sketchml", "as sketchml, keys of delta_adaptive, cells Huffman-coded"};
}

}  // namespace tfcompress
