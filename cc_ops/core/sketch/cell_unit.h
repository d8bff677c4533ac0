// How the cells of a Count Sketch are summed: in integers, multiples of a unit that the largest
// element sets, so that neither the order of the elements nor who adds them shows in a payload.
// FORMAT.md, "Linear payloads".
#ifndef TFCOMPRESS_CORE_SKETCH_CELL_UNIT_H_
#define TFCOMPRESS_CORE_SKETCH_CELL_UNIT_H_

#include <cstdint>
#include <cstring>

#include "core/float_order.h"
#include "core/host_device.h"

namespace tfcompress {

class CellUnit {
 public:
  // For sums of up to n finite elements, of which the largest magnitude, as an integer, is this.
  // No such sum reaches 2^63 units.
  TFC_HOST_DEVICE CellUnit(uint32_t max_magnitude, uint64_t n) {
    int num_digits = 0;
    for (; n != 0; n >>= 1) ++num_digits;
    const int exponent = static_cast<int>(max_magnitude >> 23) + num_digits - 189;
    unit_ = PowerOfTwo(exponent);
    units_per_one_ = PowerOfTwo(-exponent);
  }

  // How many units a finite element is, rounded towards zero; none for a subnormal one.
  TFC_HOST_DEVICE int64_t CountOf(float value) const {
    return static_cast<int64_t>(NormalOrZero(value) * units_per_one_);
  }
  // What a cell of so many units is, rounded once; +0 where that is subnormal.
  TFC_HOST_DEVICE float ValueOf(int64_t count) const {
    return RoundToNormal(double{static_cast<float>(count)} * unit_);
  }

 private:
  TFC_HOST_DEVICE static double PowerOfTwo(int exponent) {
    const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
    double power;
    std::memcpy(&power, &bits, sizeof(power));
    return power;
  }

  double unit_;
  double units_per_one_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_SKETCH_CELL_UNIT_H_
