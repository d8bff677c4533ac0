// Marks the small functions that GPU kernels share with the core; empty unless nvcc compiles.
#ifndef TFCOMPRESS_CORE_HOST_DEVICE_H_
#define TFCOMPRESS_CORE_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define TFC_HOST_DEVICE __host__ __device__
#else
#define TFC_HOST_DEVICE
#endif

#endif  // TFCOMPRESS_CORE_HOST_DEVICE_H_
