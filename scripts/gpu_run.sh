#!/usr/bin/env bash
# Tests and measures the CUDA variants on this machine's GPU; needs nothing but NVIDIA's driver. Goes on after failures, and
# packs all that was found into RESULTS.tar.gz, which benchmarks/gpu_report.py of the sources reads.
#
#   ./run.sh [STEP...]   all steps, or the named ones:
#     machine      what this machine is
#     tests        all tests, in shards; then those that did not pass once more, each in a process of its own
#     large        tests of 25 million elements
#     benchmark    times of 4 thousand, 1 million and 25 million elements
#     memcheck racecheck synccheck initcheck   some tests under compute-sanitizer, where the machine has it
#     profile      kernels of the benchmark in Nsight Compute, where the machine has it
#
#   RESULTS=results    folder of what is found
#   PROCESSES=8        tests that run side by side
#   STEP_SECONDS=570   when a step is stopped
set -uo pipefail
cd "$(dirname "$0")" || exit 1

export LC_ALL=C RESULTS=${RESULTS:-results} SHARDS=64
PROCESSES=${PROCESSES:-8}
STEP_SECONDS=${STEP_SECONDS:-570}
all_steps=(machine tests large benchmark memcheck racecheck synccheck initcheck profile)
# One spec of each kind of kernel: under a sanitizer a test takes a hundred times as long.
sanitized='*EveryMemory.MakesTheSameSlots*:*FrameOfSomeSpecs.KeepsTheSameSlotsOverSteps*:*SumOfSomeSpecs*:LargestSelector.*:LinearCoder.*:DeltaLists.*:PrefixedDeltas.EqualTheCores*:GroupedSketch.*'

# say <step> <status> <text>: the status is passed, failed, stopped or skipped.
say() {
  printf '%s\t%s\n' "$2" "$3" >"$RESULTS/$1.status"
  printf '%-10s %-8s %s\n' "$1" "$2" "$3"
}

# limited <command...>: the command with what is left of the step's time.
limited() { timeout -k 10 "$((deadline > SECONDS ? deadline - SECONDS : 1))" "$@"; }

machine() {
  {
    uname -srm
    grep -m 1 'model name' /proc/cpuinfo | cut -d: -f2
    nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader
  } >"$RESULTS/machine.txt" 2>&1
  say machine passed "$(tail -n 1 "$RESULTS/machine.txt")"
}

# Names of the tests that passed, of logs.
passed() { sed -nE 's/^\[ +(OK|SKIPPED) \] ([^ ,]+).*/\2/p' "$@"; }

list_tests() {
  ./cuda_device_tests --gtest_list_tests |
    awk '/^[^ ].*\.( |$)/ { suite = $1; next } /^  / { print suite $1 }' | sort
}

run_shard() {
  GTEST_TOTAL_SHARDS=$SHARDS GTEST_SHARD_INDEX=$1 ./cuda_device_tests >"$RESULTS/tests/shard_$1.log" 2>&1
}
run_alone() {
  timeout -k 10 60 ./cuda_device_tests --gtest_filter="$1" >"$RESULTS/tests/alone_${1//\//_}.log" 2>&1
}
export -f run_shard run_alone

tests() {
  local folder=$RESULTS/tests num_all num_failed
  mkdir -p "$folder"
  list_tests >"$folder/all.txt"
  seq 0 $((SHARDS - 1)) | limited xargs -P "$PROCESSES" -I {} bash -c 'run_shard {}'
  passed "$folder"/shard_*.log | sort >"$folder/passed.txt"
  comm -23 "$folder/all.txt" "$folder/passed.txt" >"$folder/again.txt"
  # A kernel that fails leaves its process without a device: most of these only came after one.
  limited xargs -r -P "$PROCESSES" -I {} bash -c 'run_alone {}' <"$folder/again.txt"
  touch "$folder/alone_.log"
  passed "$folder"/alone_*.log | sort >"$folder/passed_alone.txt"
  comm -23 "$folder/again.txt" "$folder/passed_alone.txt" >"$folder/failed.txt"
  num_all=$(wc -l <"$folder/all.txt")
  num_failed=$(wc -l <"$folder/failed.txt")
  if ((SECONDS >= deadline)); then
    say tests stopped "$num_failed of $num_all tests have not passed by then"
  elif ((num_failed)); then
    say tests failed "$num_failed of $num_all tests, see failed.txt"
  else
    say tests passed "$num_all tests, $(wc -l <"$folder/again.txt") of them only in a process of their own"
  fi
}

# finish <step> <exit status> <text>
finish() {
  case $2 in
    0) say "$1" passed "$3" ;;
    124 | 137) say "$1" stopped "after $STEP_SECONDS s" ;;
    *) say "$1" failed "exit status $2, see $1.log" ;;
  esac
}

large() {
  TFC_LARGE_DEVICE_TESTS=1 limited ./cuda_device_tests --gtest_filter='*EncodesTheSizesOfARealModel*' \
    >"$RESULTS/large.log" 2>&1
  finish large $? "25 million elements"
}

benchmark() {
  local elements status=0
  for elements in 4096 1000000 25000000; do
    limited ./cuda_benchmark "$elements" >"$RESULTS/benchmark_$elements.log" 2>&1 || status=$?
  done
  cat "$RESULTS"/benchmark_*.log >"$RESULTS/benchmark.log"
  finish benchmark "$status" "4096, 1,000,000 and 25,000,000 elements"
}

# find_tool <name>: its path; CUDA's folders are not always in PATH.
find_tool() { command -v "$1" || ls /usr/local/cuda*/bin/"$1" 2>/dev/null | tail -n 1; }

# sanitize <tool of compute-sanitizer>
sanitize() {
  local sanitizer log=$RESULTS/$1.log
  sanitizer=$(find_tool compute-sanitizer)
  [[ $sanitizer ]] || { say "$1" skipped "this machine has no compute-sanitizer" && return; }
  limited "$sanitizer" --tool "$1" --error-exitcode 9 --print-limit 20 \
    ./cuda_device_tests --gtest_brief=1 --gtest_filter="$sanitized" >"$log" 2>&1
  finish "$1" $? "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//')"
}
memcheck() { sanitize memcheck; }
racecheck() { sanitize racecheck; }
synccheck() { sanitize synccheck; }
initcheck() { sanitize initcheck; }

profile() {
  local ncu
  ncu=$(find_tool ncu)
  [[ $ncu ]] || { say profile skipped "this machine has no ncu" && return; }
  limited "$ncu" --csv --page raw --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum \
    --launch-count 400 ./cuda_benchmark 25000000 >"$RESULTS/profile.log" 2>&1
  finish profile $? "time and bytes of each kernel"
}

main() {
  local step
  for step in "$@"; do
    [[ " ${all_steps[*]} " == *" $step "* ]] || { echo "run.sh: no step '$step'; there are ${all_steps[*]}" >&2 && exit 2; }
  done
  mkdir -p "$RESULTS"
  for step in "${@:-${all_steps[@]}}"; do
    deadline=$((SECONDS + STEP_SECONDS))
    "$step"
  done
  tar -czf "$RESULTS.tar.gz" -C "$(dirname "$RESULTS")" "$(basename "$RESULTS")"
  echo "all of it is in $RESULTS.tar.gz"
  ! grep -qE '^(failed|stopped)' "$RESULTS"/*.status
}

# Exit status 77, as of a skipped test: without a GPU there is nothing to do.
./cuda_benchmark 1 >/dev/null 2>&1
if [[ $? == 77 ]]; then
  ./cuda_benchmark 1
  exit 77
fi
main "$@"
