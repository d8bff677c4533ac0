#!/usr/bin/env bash
# Runs the tests in stages and prints what each took; `make setup` must have run.
#
#   scripts/test.sh          the tests of `make test`
#   scripts/test.sh ci       those of `make test-ci`: what CI runs beside
#   scripts/test.sh long     those that `make test-all` runs beside both: everything that they leave out, no more
#
#   RANKS="2 3 4"  numbers of ranks under horovodrun: `make test` runs all tests on the first, `make test-ci` those marked
#                  `ranks` on the second, `make test-all` the others on the second, and those marked `ranks` on all further ones
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

part=${1:-quick}
read -ra all_ranks <<<"${RANKS:-2 3 4}"
num_cores=$(nproc)
# Horovod looks every millisecond for what is to be sent, on all ranks: where cores are busy, that takes most of the time.
export HOROVOD_CYCLE_TIME=${HOROVOD_CYCLE_TIME:-4}
parallel=python_tests/parallel
# About the variants for GPUs, mostly over the emulator, which takes as long to compile and run as all else in C++.
gpu_files=(python_tests/single/test_{cuda,emulated_ops,gpu_bundle}.py)

# TF_USE_LEGACY_KERAS=1 chooses tf_keras for a whole run. These files are about what Keras itself does,
keras_files=("$parallel"/test_{tf_keras,checkpoint}.py)
# these train with an optimizer of any Keras,
training_files=("$parallel"/test_{auto,callbacks,faults,linear,local_steps,policy,semantics,stock,tables}.py)
# and so do these jobs; the others are examples, which choose their Keras themselves.
keras_jobs=(python_tests/jobs/test_{elastic,killed,resume}.py)

compile() {
  cmake -S . -B build/release -DWITH_TESTS=ON >/dev/null && cmake --build build/release "$@"
}

# run_ctest <folder> <arguments...>
run_ctest() { ctest --test-dir "$1" --output-on-failure --parallel "$num_cores" "${@:2}"; }

# under_horovodrun <ranks> <pytest's arguments...>: a rank that fails must stop at once (-x), or the others wait for it
# in a collective.
under_horovodrun() {
  horovodrun -np "$1" -H "localhost:$1" --gloo python -m pytest -x -p no:cacheprovider "${@:2}"
}

has_tf_keras() {
  python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("tf_keras") is None)' && return
  echo "TensorFlow 2.15 has no tf_keras: its own Keras 2 is what all other stages test"
  return 1
}

# By file: fixtures of a module are made once.
in_one_process() { python -m pytest -n "$num_cores" --dist loadfile -m "not long" "$@"; }

quick() {
  stage "C++: compile" compile --target core_tests
  stage "C++: ctest" run_ctest build/release -LE long -R '^core_'
  stage "Python: one process" in_one_process python_tests/single "${gpu_files[@]/#/--ignore=}"
  stage "Python: ${all_ranks[0]} ranks" under_horovodrun "${all_ranks[0]}" -m "not long" "$parallel"
}

ci() {
  stage "emulated CUDA: compile" compile
  stage "emulated CUDA: ctest" run_ctest build/release -LE long -R '^cuda_'
  stage "emulated CUDA: Python" in_one_process "${gpu_files[@]}"
  local ranks=${all_ranks[1]:-}
  if [[ $ranks ]]; then
    stage "Python: $ranks ranks, where their number matters" under_horovodrun "$ranks" -m "ranks and not long" "$parallel"
  fi
  if has_tf_keras; then
    TF_USE_LEGACY_KERAS=1 stage "Python: ${all_ranks[0]} ranks, tf_keras" \
      under_horovodrun "${all_ranks[0]}" -m "not long" "${keras_files[@]}"
  fi
  stage "Python: jobs" python -m pytest -n "$num_cores" -m "not long" python_tests/jobs
}

long() {
  stage "C++: long tests, compile" compile --target long_tests
  stage "C++: long tests" run_ctest build/release -L long
  stage "C++: emulated CUDA under sanitizers, compile" cmake --build build/asan
  stage "C++: emulated CUDA and other SIMD under sanitizers" run_ctest build/asan -R '^cuda_|^core_tests_[a-z]'
  stage "Python: one process, long tests" python -m pytest -m long python_tests/single
  local ranks
  ranks=${all_ranks[1]:-}
  if [[ $ranks ]]; then
    stage "Python: $ranks ranks, the other tests" under_horovodrun "$ranks" -m "not ranks or long" "$parallel"
  fi
  for ranks in "${all_ranks[@]:2}"; do
    stage "Python: $ranks ranks, where their number matters" under_horovodrun "$ranks" -m ranks "$parallel"
  done
  if has_tf_keras; then
    export TF_USE_LEGACY_KERAS=1
    stage "Python: ${all_ranks[0]} ranks, tf_keras, the other tests" \
      under_horovodrun "${all_ranks[0]}" "${training_files[@]}"
    ranks=${all_ranks[1]:-}
    if [[ $ranks ]]; then
      stage "Python: $ranks ranks, tf_keras" under_horovodrun "$ranks" "${keras_files[@]}" "${training_files[@]}"
    fi
    stage "Python: jobs, tf_keras" python -m pytest "${keras_jobs[@]}"
    unset TF_USE_LEGACY_KERAS
  fi
  stage "Python: long jobs" python -m pytest -m long python_tests/jobs
}

case $part in
  quick | ci | long) "$part" ;;
  *) echo "usage: scripts/test.sh [quick|ci|long]" >&2 && exit 2 ;;
esac
print_stage_times
