#!/usr/bin/env bash
# Packs the device tests and the benchmark of the CUDA variants for a machine that has NVIDIA's driver and nothing else:
# no compiler, no GoogleTest, no zlib, no TensorFlow. There: tar -xf tfcompress-gpu.tar.gz && tfcompress-gpu/run.sh
#
#   CUDA_ARCHITECTURES="80-real;90"   for which GPUs (80, 86, 89 and 90, and newer ones by its PTX)
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/gpu-bundle
folder=$build/tfcompress-gpu
archive=build/tfcompress-gpu.tar.gz
most_bytes=$((60 << 20))
executables=(cuda_device_tests cuda_benchmark)

cmake -S . -B $build -DTFC_STANDALONE=ON -DWITH_CUDA=ON -DWITH_TF=OFF -DWITH_PYBIND=OFF -DWITH_TESTS=ON \
  -DTFC_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-80-real;86-real;89-real;90}" >/dev/null
cmake --build $build --target "${executables[@]}"

rm -rf $folder && mkdir -p $folder
for executable in "${executables[@]}"; do
  strip -o $folder/"$executable" $build/cc_tests/cuda/"$executable"
  needed=$(objdump -p $folder/"$executable" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux.*)\.so' || true)
  [[ -z $needed ]] || { echo "gpu-bundle: $executable needs $needed, which a bare machine may not have" >&2 && exit 1; }
done
cp scripts/gpu_run.sh $folder/run.sh
tar -czf $archive -C $build tfcompress-gpu
bytes=$(stat -c %s $archive)
echo "$archive: $((bytes >> 20)) MiB"
((bytes < most_bytes)) || { echo "gpu-bundle: more than $((most_bytes >> 20)) MiB; choose fewer CUDA_ARCHITECTURES" >&2 && exit 1; }
