// e^x with the same bits on every machine. The C library's exp picks a variant by CPU and its
// results differ in the last bit between versions, which would let replicas drift apart.
#ifndef TFCOMPRESS_CORE_EXP_H_
#define TFCOMPRESS_CORE_EXP_H_

#include <cstdint>
#include <cstring>

#include "core/host_device.h"

namespace tfcompress {

// Returns e^x for x clamped to [-708, 708], with relative error below 1e-15. Uses additions and
// multiplications only, without branches; they are not contracted to fused ones (the project is
// compiled with -ffp-contract=off).
TFC_HOST_DEVICE inline double DeterministicExp(double x) {
  x = x < -708.0 ? -708.0 : x;
  x = x > 708.0 ? 708.0 : x;

  // x = n ln 2 + r with |r| <= ln(2)/2. Adding 1.5 * 2^52 rounds to an integer, and leaves it in
  // the low bits of the sum. The high part of ln 2 has 21 zero bits at the end: n * high is exact.
  constexpr double kShift = 0x1.8p52;
  constexpr double kLog2E = 0x1.71547652b82fep0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const double shifted = x * kLog2E + kShift;
  const double n = shifted - kShift;
  const double r = (x - n * kLn2High) - n * kLn2Low;

  // Taylor's series: the first term left out is below 0.35^13 / 13! = 2e-16.
  double p = 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;

  uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + 1023) << 52;  // 2^n
  double scale;
  std::memcpy(&scale, &bits, sizeof(scale));
  return p * scale;
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_CORE_EXP_H_
