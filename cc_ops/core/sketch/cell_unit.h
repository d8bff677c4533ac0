// Cells of a Count Sketch are summed in integers, multiples of a unit that the largest element
// determines, so that a payload depends neither on the order of the elements nor on the threads.
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
  // The unit for sums of up to n finite elements with this largest magnitude, as an integer. No
  // such sum reaches 2^63 units.
  TFC_HOST_DEVICE CellUnit(uint32_t max_magnitude, uint64_t n) {
    int num_digits = 0;
    for (; n != 0; n >>= 1) ++num_digits;
    const int exponent = static_cast<int>(max_magnitude >> 23) + num_digits - 189;
    unit_ = PowerOfTwo(exponent);
    units_per_one_ = PowerOfTwo(-exponent);
  }

  // A finite element in units, rounded towards zero; 0 for a subnormal one.
  TFC_HOST_DEVICE int64_t CountOf(float value) const {
    return static_cast<int64_t>(NormalOrZero(value) * units_per_one_);
  }
  // The value of a cell of `count` units, rounded once; +0 if it is subnormal.
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
