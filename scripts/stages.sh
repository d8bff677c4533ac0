# shellcheck shell=bash
# Sourced by scripts that work in stages: each stage says how long it took, and the first failure ends the script.

stage_times=()

# stage <name> <command...>
stage() {
  local name=$1 start=$SECONDS
  shift
  echo "##### $name"
  "$@" || {
    echo "##### $name: FAILED after $((SECONDS - start)) s" >&2
    exit 1
  }
  stage_times+=("$(printf '%6d s  %s' $((SECONDS - start)) "$name")")
  echo "##### $name: $((SECONDS - start)) s"
}

# print_stage_times: the table of all stages so far, and their total.
print_stage_times() {
  printf '%s\n' "${stage_times[@]}"
  printf '%6d s  total\n' "$SECONDS"
}
