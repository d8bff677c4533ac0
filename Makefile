# `make` alone lists the targets.
SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export CMAKE_GENERATOR ?= Ninja
# Horovod and TensorFlow greet at every start; warnings and errors still show.
export TF_CPP_MIN_LOG_LEVEL ?= 1

RANKS ?= 2 3 4
DEMO_ARGS ?=
BENCH_ARGS ?=
FUZZ_CXX ?= clang++
FUZZ_SECONDS ?= 60
# As CUDA_ARCHITECTURES of CMake: "90" is that one and its PTX. Empty: all.
CUDA_ARCHITECTURES ?=
CXX_FILES = $$(find cc_ops cc_tests -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')

# What tests training on any Keras: TF_USE_LEGACY_KERAS=1 is chosen for a whole run.
LEGACY_TESTS = $(addprefix python_tests/parallel/test_,tf_keras.py callbacks.py checkpoint.py faults.py linear.py policy.py semantics.py stock.py tables.py)
# The other jobs are examples, which choose their Keras themselves.
LEGACY_JOBS = $(addprefix python_tests/jobs/test_,elastic.py killed.py resume.py)

# A rank that fails must stop at once (-x), or the others wait for it in a collective.
horovodrun_pytest = horovodrun -np $(1) -H localhost:$(1) --gloo \
	    python -m pytest -x -p no:cacheprovider

.DEFAULT_GOAL := help
.PHONY: help tools setup demo test bench lint format asan fuzz cuda gpu-test gpu-bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 17

tools:
	@scripts/setup.sh tools

setup:  ## .venv with TensorFlow, Horovod and this package (PYTHON=python3.12 TF_VERSION=2.15.1 choose)
	@scripts/setup.sh

demo: setup  ## train with and without compression on this machine (DEMO_ARGS="--quick")
	python examples/demo.py $(DEMO_ARGS)

test: setup  ## all tests: C++, Python in one process, Python under horovodrun (RANKS="2 3 4")
	@echo "=== C++ tests"
	cmake -S . -B build/release -DWITH_TESTS=ON >/dev/null
	cmake --build build/release
	ctest --test-dir build/release --output-on-failure --parallel $$(nproc)
	@echo "=== Python tests, one process"
	python -m pytest python_tests/single
	@for ranks in $(RANKS); do \
	  echo "=== Python tests, $$ranks ranks"; \
	  $(call horovodrun_pytest,$$ranks) python_tests/parallel || exit 1; \
	  echo "=== Python tests, $$ranks ranks, tf_keras"; \
	  if ! python -c 'import tf_keras' 2>/dev/null; then \
	    echo "TensorFlow 2.15 has no tf_keras: its own Keras 2 was tested above"; continue; \
	  fi; \
	  TF_USE_LEGACY_KERAS=1 \
	    $(call horovodrun_pytest,$$ranks) $(LEGACY_TESTS) || exit 1; \
	done
	@echo "=== Python tests that start whole jobs: ranks that die, join, or go on from a checkpoint"
	python -m pytest python_tests/jobs
	@if python -c 'import tf_keras' 2>/dev/null; then \
	  echo "=== the same, tf_keras"; TF_USE_LEGACY_KERAS=1 python -m pytest $(LEGACY_JOBS); \
	fi

bench: tools  ## speed of the codecs (BENCH_ARGS="--benchmark_filter=topk")
	cmake -S . -B build/bench -DWITH_CUDA=OFF -DWITH_TF=OFF -DWITH_PYBIND=OFF -DWITH_BENCH=ON >/dev/null
	cmake --build build/bench
	build/bench/cc_tests/codec_benchmark $(BENCH_ARGS)

lint: tools  ## formatting and static checks
	ruff format --check .
	ruff check .
	clang-format --dry-run -Werror $(CXX_FILES)

format: tools  ## format the sources, fix what ruff can fix
	ruff check --fix-only .
	ruff format .
	clang-format -i $(CXX_FILES)

asan: tools  ## the core alone under the address and undefined-behaviour sanitizers, fuzzer corpus included
	cmake -S . -B build/asan -DCMAKE_BUILD_TYPE=Debug -DSANITIZE=address,undefined \
	  -DWITH_CUDA=OFF -DWITH_TF=OFF -DWITH_PYBIND=OFF -DWITH_TESTS=ON -DWITH_FUZZ=ON -DWITH_BENCH=ON >/dev/null
	cmake --build build/asan
	ctest --test-dir build/asan --output-on-failure --parallel $$(nproc)

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
	@for test in build/cuda/cc_tests/cuda/cuda_*_device_test; do \
	  echo "=== $$(basename $$test)"; \
	  TFC_LARGE_DEVICE_TESTS=1 $$test --gtest_brief=1; status=$$?; \
	  if [ $$status -eq 77 ]; then echo "gpu-test: CUDA finds no GPU on this machine" >&2; fi; \
	  if [ $$status -ne 0 ]; then exit $$status; fi; \
	done

gpu-bench: cuda  ## time the CUDA variants on this machine's GPU, against copies
	@build/cuda/cc_tests/cuda/cuda_benchmark; status=$$?; \
	if [ $$status -eq 77 ]; then echo "gpu-bench: CUDA finds no GPU on this machine" >&2; fi; exit $$status

clean:  ## remove what was built; .venv stays
	rm -rf build dist *.egg-info tfcompress/*.so
