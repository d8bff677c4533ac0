#!/usr/bin/env bash
# Tests and measures the CUDA variants on this machine's GPU; needs nothing but NVIDIA's driver. Goes on after failures, and
# packs all that was found into RESULTS.tar.gz, which benchmarks/gpu_report.py of the sources reads.
#
#   ./run.sh [STEP...]   all steps, or the named ones:
#     machine      what this machine is
#     tests        all tests, in shards; then those that did not pass once more, each in a process of its own
#     large        tests of 25 million elements
#     benchmark    times of 4 thousand, 1 million and 25 million elements, and of the gradients of ResNet-50
#     sanitizers   some tests under each tool of compute-sanitizer, side by side, where the machine has it; or one of
#                  memcheck racecheck synccheck initcheck
#     profile      kernels of the benchmark in Nsight Compute, where the machine has it
#
#   RESULTS=results    folder of what is found
#   PROCESSES=16       tests that run side by side (default: the number of cores, at least 8 and at most 32)
#   SHARDS=256         of the tests
#   STEP_SECONDS=570   when a step is stopped, and each of the sanitizers
set -uo pipefail
cd "$(dirname "$0")" || exit 1

export LC_ALL=C RESULTS=${RESULTS:-results} SHARDS=${SHARDS:-256}
cores=$(nproc)
PROCESSES=${PROCESSES:-$((cores < 8 ? 8 : cores > 32 ? 32 : cores))}
STEP_SECONDS=${STEP_SECONDS:-570}
sanitizers=(memcheck racecheck synccheck initcheck)
all_steps=(machine tests large benchmark sanitizers profile)
# One spec of each kind of kernel: under a sanitizer a test takes a hundred times as long.
sanitized='*EveryMemory.MakesTheSameSlots*:*FrameOfSomeSpecs.KeepsTheSameSlotsOverSteps*:*SumOfSomeSpecs*:*EncodesTensorsSideBySide*:*PiecesOfSomeSpecs.AreEncodedToTheSameBytes*:*PiecesOfSomeSpecs.HaveSums*:LargestSelector.*:FindBounds.*:LinearCoder.*:*EveryLinearSpec*:HeaderFinder.*:DenseBlocks.*:DenseSums.*:TileSums.*:*PutsTheSlotsBack*block_int*:*SumGroups.AreAdded*dense*:DeltaLists.*:PrefixedDeltas.EqualTheCores*:GroupedSketch.*:CopyFrames.*'

# say <step> <status> <text>: the status is passed, failed, stopped or skipped.
say() {
  printf '%s\t%s\n' "$2" "$3" >"$RESULTS/$1.status"
  printf '%-10s %-8s %s\n' "$1" "$2" "$3"
}

# limited <command...>: the command with what is left of the step's time; no process of it goes on after that.
limited() {
  local group status
  timeout -k 10 "$((deadline > SECONDS ? deadline - SECONDS : 1))" "$@" <&0 &
  group=$!  # timeout makes a process group of its own, in which also those stay that outlive the command.
  wait $group
  status=$?
  kill -KILL -- -$group 2>/dev/null
  return $status
}

machine() {
  {
    uname -srm
    grep -m 1 'model name' /proc/cpuinfo | cut -d: -f2
    timeout 60 nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader
  } >"$RESULTS/machine.txt" 2>&1
  say machine passed "$(tail -n 1 "$RESULTS/machine.txt")"
}

# Names of the tests that passed or failed, in the logs whose names begin so.
passed() { cat "$folder/$1"*.log 2>/dev/null | sed -nE 's/^\[ +(OK|SKIPPED) \] ([^ ,]+).*/\2/p'; }
failed() { cat "$folder/$1"*.log 2>/dev/null | sed -nE 's/^\[  FAILED  \] ([^ ,]+).*/\1/p'; }

list_tests() {
  timeout 60 ./cuda_device_tests --gtest_list_tests |
    awk '/^[^ ].*\.( |$)/ { suite = $1; next } /^  / { print suite $1 }' | sort
}

run_shard() {
  GTEST_TOTAL_SHARDS=$SHARDS GTEST_SHARD_INDEX=$1 ./cuda_device_tests >"$RESULTS/tests/shard_$1.log" 2>&1
}
# --foreground: it stays in the process group that ends with the step. Lists the tests that have come to an end.
run_alone() {
  timeout --foreground -k 10 60 ./cuda_device_tests --gtest_filter="$1" >"$RESULTS/tests/alone_${1//\//_}.log" 2>&1
  echo "$1" >>"$RESULTS/tests/ended.txt"
}
export -f run_shard run_alone

run_tests() {
  seq 0 $((SHARDS - 1)) | limited xargs -P "$PROCESSES" -I {} bash -c 'run_shard {}'
  passed shard_ | sort >"$folder/passed.txt"
  comm -23 "$folder/all.txt" "$folder/passed.txt" >"$folder/again.txt"
  # A kernel that fails leaves its process without a device: most of these only came after one.
  ((SECONDS >= deadline)) || limited xargs -r -P "$PROCESSES" -I {} bash -c 'run_alone {}' <"$folder/again.txt"
}

# Lists, sorted: failed.txt has the tests that failed alone; not_run.txt those that came to no end alone, and did not pass in
# a shard; not_repeated.txt those of them that failed in one.
sort_out_tests() {
  passed alone_ | sort >"$folder/passed_alone.txt"
  sort "$folder/ended.txt" | comm -23 - "$folder/passed_alone.txt" >"$folder/failed.txt"
  sort "$folder/failed.txt" "$folder/passed_alone.txt" | comm -23 "$folder/again.txt" - >"$folder/not_run.txt"
  failed shard_ | sort -u | comm -12 - "$folder/not_run.txt" >"$folder/not_repeated.txt"
}

# count <name>: the tests of a list.
count() { wc -l <"$folder/$1.txt"; }

tests() {
  local folder=$RESULTS/tests
  rm -rf "$folder" && mkdir -p "$folder"
  list_tests >"$folder/all.txt"
  touch "$folder/ended.txt"
  run_tests
  sort_out_tests
  if ! (($(count all))); then
    say tests failed "cuda_device_tests lists no tests"
  elif (($(count not_run))); then
    say tests stopped "$(($(count passed) + $(count passed_alone))) of $(count all) tests passed, $(count failed) failed, $(count not_run) have not run ($(count not_repeated) of these failed in a shard, and were not repeated alone)"
  elif (($(count failed))); then
    say tests failed "$(count failed) of $(count all) tests failed, also alone, see failed.txt"
  else
    say tests passed "$(count all) tests, $(count again) of them only in a process of their own"
  fi
}

# finish <step> <exit status> <text> [<text if it was stopped>]
finish() {
  case $2 in
    0) say "$1" passed "$3" ;;
    124 | 137) say "$1" stopped "after $STEP_SECONDS s${4:+, $4}" ;;
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
  limited ./cuda_benchmark resnet50 >"$RESULTS/resnet50.log" 2>&1 || status=$?
  cat "$RESULTS"/benchmark_*.log "$RESULTS/resnet50.log" >"$RESULTS/benchmark.log"
  finish benchmark "$status" "4096, 1,000,000 and 25,000,000 elements, and ResNet-50"
}

# find_tool <name>: its path; CUDA's folders are not always in PATH.
find_tool() { command -v "$1" || ls /usr/local/cuda*/bin/"$1" 2>/dev/null | tail -n 1; }

# sanitize <tool of compute-sanitizer>
sanitize() {
  local sanitizer log=$RESULTS/$1.log options=()
  sanitizer=$(find_tool compute-sanitizer)
  # Tests copy whole buffers to the host, of which kernels have written a part.
  [[ $1 != initcheck ]] || options=(--check-api-memory-access no)
  [[ $sanitizer ]] || { say "$1" skipped "this machine has no compute-sanitizer" && return; }
  limited "$sanitizer" --tool "$1" "${options[@]}" --error-exitcode 9 --print-limit 20 \
    ./cuda_device_tests --gtest_filter="$sanitized" >"$log" 2>&1
  finish "$1" $? "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//')" \
    "when $(grep -cE '^\[ +OK \]' "$log") tests had passed"
}
sanitizers() {
  local tool
  for tool in "${sanitizers[@]}"; do sanitize "$tool" & done
  wait
}
memcheck() { sanitize memcheck; }
racecheck() { sanitize racecheck; }
synccheck() { sanitize synccheck; }
initcheck() { sanitize initcheck; }

profile() {
  local ncu
  ncu=$(find_tool ncu)
  [[ $ncu ]] || { say profile skipped "this machine has no ncu" && return; }
  limited "$ncu" --csv --page raw --clock-control none --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum \
    ./cuda_benchmark profile >"$RESULTS/profile.log" 2>&1
  finish profile $? "time and bytes of each kernel"
}

main() {
  local step
  for step in "$@"; do
    [[ " ${all_steps[*]} ${sanitizers[*]} " == *" $step "* ]] || { echo "run.sh: no step '$step'; there are ${all_steps[*]} ${sanitizers[*]}" >&2 && exit 2; }
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
no_gpu=$(timeout 60 ./cuda_benchmark help 2>/dev/null)
if [[ $? == 77 ]]; then
  echo "$no_gpu"
  exit 77
fi
main "$@"
