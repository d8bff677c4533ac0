# `make` alone lists the targets.
SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export CMAKE_GENERATOR ?= Ninja
# Horovod and TensorFlow greet at every start; warnings and errors still show.
export TF_CPP_MIN_LOG_LEVEL ?= 1

export RANKS ?= 2 3 4
DEMO_ARGS ?=
BENCH_ARGS ?=
FUZZ_CXX ?= clang++
FUZZ_SECONDS ?= 60
LONG_FUZZ_SECONDS ?= 600
# As CUDA_ARCHITECTURES of CMake: "90" is that one and its PTX. Empty: all.
CUDA_ARCHITECTURES ?=
CXX_FILES = $$(find cc_ops cc_tests -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')

.DEFAULT_GOAL := help
.PHONY: help tools setup demo test test-ci test-all bench docs lint format asan aarch64 fuzz cuda gpu-test gpu-bench gpu-bundle wheels wheel-test sdist matrix clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 17

tools:
	@scripts/setup.sh tools

setup:  ## .venv with TensorFlow, Horovod and this package (PYTHON=python3.12 TF_VERSION=2.15.1 choose)
	@scripts/setup.sh

demo: setup  ## train with and without compression on this machine (DEMO_ARGS="--quick")
	python examples/demo.py $(DEMO_ARGS)

test: setup  ## the tests, in stages: C++, Python in one process, Python under horovodrun (RANKS="2 3 4")
	@scripts/test.sh

test-ci: setup  ## what CI runs beside `make test`: variants for GPUs over an emulator, 3 ranks, tf_keras, whole jobs
	@scripts/test.sh ci

test-all: test asan  ## both, and what takes long: other ranks and tf_keras, killed ranks, convergence, long fuzzing
	@scripts/test.sh ci
	@scripts/test.sh long
	$(MAKE) fuzz FUZZ_SECONDS=$(LONG_FUZZ_SECONDS)

bench: setup  ## speed of the TensorFlow ops and of the core's codecs (BENCH_ARGS=--save writes the tables)
	cmake -S . -B build/bench -DWITH_CUDA=OFF -DWITH_TF=OFF -DWITH_PYBIND=OFF -DWITH_BENCH=ON >/dev/null
	cmake --build build/bench --target codec_benchmark
	python benchmarks/speed.py $(BENCH_ARGS)

docs:  ## the documentation site, in build/site; warnings and broken links are errors
	@scripts/setup.sh docs
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

lint: tools  ## formatting, static checks and types
	ruff format --check .
	ruff check .
	mypy
	clang-format --dry-run -Werror $(CXX_FILES)

format: tools  ## format the sources, fix what ruff can fix
	ruff check --fix-only .
	ruff format .
	clang-format -i $(CXX_FILES)

asan: tools  ## the core alone under the address and undefined-behaviour sanitizers, fuzzer corpus included
	cmake -S . -B build/asan -DCMAKE_BUILD_TYPE=Debug -DSANITIZE=address,undefined \
	  -DWITH_CUDA=OFF -DWITH_TF=OFF -DWITH_PYBIND=OFF -DWITH_TESTS=ON -DWITH_FUZZ=ON -DWITH_BENCH=ON >/dev/null
	cmake --build build/asan --target core_tests codec_benchmark registry_names frame_fuzzer
	ctest --test-dir build/asan --output-on-failure --parallel $$(nproc) -LE long -E '^cuda_'

aarch64: tools  ## the core's tests compiled for aarch64, under qemu (CONTRIBUTING.md says what it needs)
	cmake -S . -B build/aarch64 --toolchain scripts/aarch64.cmake \
	  -DWITH_CUDA=OFF -DWITH_TF=OFF -DWITH_PYBIND=OFF -DWITH_TESTS=ON >/dev/null
	cmake --build build/aarch64 --target core_tests
	ctest --test-dir build/aarch64 --output-on-failure --parallel $$(nproc) -LE long -R '^core_tests_[0-9]'

fuzz:  ## run every fuzzer for FUZZ_SECONDS=60 (FUZZ_CXX=<clang++>)
	@FUZZ_CXX=$(FUZZ_CXX) scripts/setup.sh fuzz
	cmake -S . -B build/fuzz -DCMAKE_CXX_COMPILER=$(FUZZ_CXX) -DCMAKE_BUILD_TYPE=Debug \
	  -DSANITIZE=address,undefined -DWITH_CUDA=OFF -DWITH_TF=OFF -DWITH_PYBIND=OFF -DWITH_FUZZ=ON >/dev/null
	cmake --build build/fuzz
	@for fuzzer in build/fuzz/cc_tests/*_fuzzer; do \
	  name=$$(basename $$fuzzer); mkdir -p build/fuzz/corpus/$$name; echo "=== $$name"; \
	  seeds=$$(ls -d cc_tests/fuzz/corpus/$$name cc_tests/golden 2>/dev/null); \
	  $$fuzzer -max_total_time=$(FUZZ_SECONDS) -timeout=60 -rss_limit_mb=4096 build/fuzz/corpus/$$name $$seeds || exit 1; \
	done

cuda:  ## compile the CUDA variants and their device tests (CUDA_ARCHITECTURES="80-real;90")
	cmake -S . -B build/cuda -DWITH_CUDA=ON -DTFC_CUDA_ARCHITECTURES="$(CUDA_ARCHITECTURES)" \
	  -DWITH_TF=OFF -DWITH_PYBIND=OFF -DWITH_TESTS=ON >/dev/null
	cmake --build build/cuda --target cuda_device_tests

gpu-test: cuda  ## run the CUDA variants' tests on this machine's GPU
	@TFC_LARGE_DEVICE_TESTS=1 build/cuda/cc_tests/cuda/cuda_device_tests --gtest_brief=1; status=$$?; \
	if [ $$status -eq 77 ]; then echo "gpu-test: CUDA finds no GPU on this machine" >&2; fi; exit $$status

gpu-bundle: tools  ## pack the GPU tests and benchmark for a machine that has a driver and nothing else
	@scripts/gpu_bundle.sh

gpu-bench: cuda  ## time the CUDA variants on this machine's GPU, against copies
	@build/cuda/cc_tests/cuda/cuda_benchmark; status=$$?; \
	if [ $$status -eq 77 ]; then echo "gpu-bench: CUDA finds no GPU on this machine" >&2; fi; exit $$status

wheels:  ## wheels that need no compiler, in build/wheels (PYTHONS="python3.12" TF_VERSIONS="2.18.1 2.21.0")
	@scripts/wheels.sh build

wheel-test:  ## install these wheels into bare environments, and test them there (the same variables)
	@scripts/wheels.sh test

sdist:  ## the archive of the sources, in build/wheels; builds it once without a network
	@scripts/wheels.sh sdist

matrix: wheels  ## train with every TensorFlow, Python and Keras that go together; writes docs/compatibility.md
	python scripts/matrix.py

clean:  ## remove what was built; .venv stays
	rm -rf build dist *.egg-info tfcompress/*.so
