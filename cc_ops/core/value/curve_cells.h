// The points to which a double exponential is fitted: sorted magnitudes are cut into some hundred
// cells, each replaced by its mean, so that a fit costs the same for any number of values.
#ifndef TFCOMPRESS_CORE_VALUE_CURVE_CELLS_H_
#define TFCOMPRESS_CORE_VALUE_CURVE_CELLS_H_

#include <cstdint>

#include "core/codec.h"
#include "core/float_order.h"
#include "core/host_device.h"
#include "core/value/double_exponential.h"

namespace tfcompress {

// End of the cell that begins at `begin`, unless the part ends before. Cells grow with the distance
// from the head, where the curve is steep: the first hold one value, later ones 1/32 as many as are
// before them.
TFC_HOST_DEVICE constexpr uint64_t CellEnd(uint64_t begin) { return begin + 1 + begin / 32; }

TFC_HOST_DEVICE constexpr uint32_t NumCells(uint64_t count) {
  uint32_t num_cells = 0;
  for (uint64_t begin = 0; begin < count; begin = CellEnd(begin)) ++num_cells;
  return num_cells;
}
inline constexpr uint32_t kMaxCells = NumCells(kMaxElements);

// Returns the point of the cell [begin, end), given the sum of its terms.
TFC_HOST_DEVICE inline CurvePoint PointOfCell(const CurvePart& part, uint64_t begin, uint64_t end,
                                              double sum) {
  const auto first = static_cast<double>(begin);
  const auto last = static_cast<double>(end);
  const double unit = 1 / NormalOrZero(part.range.largest);
  return {0.5 * (first + last - 1) * part.Step(), sum / (last - first) * unit, last - first};
}
// The term of a magnitude: 0 for subnormal ones, which a curve cannot represent.
TFC_HOST_DEVICE inline double CellTerm(float magnitude) { return NormalOrZero(magnitude); }

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_VALUE_CURVE_CELLS_H_
