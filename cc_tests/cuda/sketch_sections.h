// Groups of sketches in the form of a section, for tests that make sections by hand.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_SKETCH_SECTIONS_H_
#define TFCOMPRESS_CC_TESTS_CUDA_SKETCH_SECTIONS_H_

#include <cstdint>

#include "core/byte_io.h"

namespace tfcompress {

struct SketchGroupBytes {
  uint32_t num_keys;
  uint32_t num_columns;
  Bytes keys;   // As the codec writes them.
  Bytes cells;  // As the codec writes them.
};

inline void Append(const SketchGroupBytes& group, ByteWriter* writer) {
  writer->Write(
      static_cast<uint32_t>(2 * sizeof(uint32_t) + group.keys.size() + group.cells.size()));
  writer->Write(group.num_keys);
  writer->Write(group.num_columns);
  writer->WriteArray<unsigned char>(group.keys);
  writer->WriteArray<unsigned char>(group.cells);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CC_TESTS_CUDA_SKETCH_SECTIONS_H_
