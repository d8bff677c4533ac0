#!/usr/bin/env bash
# Wheels that need no compiler: one for each Python, in each an op library for each TensorFlow. Can be repeated, and is
# quick then. Everything goes into build/wheels.
#
#   scripts/wheels.sh build   builds them
#   scripts/wheels.sh test    installs them into bare virtual environments and tests them there
#   scripts/wheels.sh sdist   archives the sources, and builds them without a network
#
#   PYTHONS="python3.10 python3.12"   interpreters (those of python3.10 to python3.13 that are here)
#   TF_VERSIONS="2.15.1 2.21.0"       TensorFlows, one a minor version (those of scripts/tensorflow_versions.txt)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/stages.sh

folder=$PWD/build/wheels
pip=(.venv/bin/python -m pip --disable-pip-version-check)
# Of the tests those of codecs and ops, which need neither Horovod nor the rest of the sources, and what they import.
oracles=(python_tests/single/oracle_*.py)
codec_tests=(python_tests/single/test_{op_library,core_bindings,custom_packets,paper_bounds,sketched_sgd}.py
  python_tests/single/test_oracle_*.py)
tensorflow_tests=(python_tests/single/test_{op_library,ops,linear_ops,low_rank_ops,probe,public_types}.py)
versions=scripts/tensorflow_versions.txt
read -ra tf_versions <<<"${TF_VERSIONS:-$(awk '!/^#/ { printf "%s ", $1 }' "$versions")}"

fail() {
  printf 'wheels: %s\n' "$*" >&2
  exit 1
}

# Those of PYTHONS, or of the supported ones, that run; a shim may be there without an interpreter behind it.
find_pythons() {
  local python
  pythons=()
  for python in ${PYTHONS:-python3.10 python3.11 python3.12 python3.13}; do
    if "$python" -c '' 2>/dev/null; then
      pythons+=("$python")
    elif [[ ${PYTHONS:-} ]]; then
      fail "cannot run '$python', which PYTHONS names."
    fi
  done
  ((${#pythons[@]})) || fail "there is none of python3.10 to python3.13; name interpreters with PYTHONS=<interpreters>."
  echo "wheels: for ${pythons[*]} and TensorFlow ${tf_versions[*]}"
}

minor_of() { "$1" -c 'import sys; print(sys.version_info[1])'; }

# newest_python_of <TensorFlow>: the minor version of the last Python that it has wheels for.
newest_python_of() { awk -v minor="${1%.*}." 'index($1, minor) == 1 { sub(/.*\./, "", $2); print $2 }' "$versions"; }

# What a wheel is built of, in words.
sources_of_now() {
  local changed=''
  [[ -z $(git status --porcelain 2>/dev/null) ]] || changed=' with changes'
  git show --no-patch --format="commit %h of %cs$changed" 2>/dev/null || echo "sources without a commit"
}

# Stages go on after an error (`set -e` does not hold in them), so that commands are chained by && in what follows.

# make_environment <name> <interpreter> <pip's arguments...>: a virtual environment with these packages, without pip.
make_environment() {
  environment=$folder/environments/$1
  [[ -x $environment/bin/python ]] || "$2" -m venv --without-pip "$environment" &&
    "${pip[@]}" --python "$environment/bin/python" install --quiet "${@:3}" </dev/null
}

# What of TensorFlow's wheel the ops are compiled with, in $folder/tensorflow/<version>; the rest is not kept.
fetch_tensorflow() {
  local version=$1 download=$folder/download
  [[ -d $folder/tensorflow/$version ]] && return
  rm -rf "$download"
  # Headers are the same for every Python; 3.11 has all versions.
  "${pip[@]}" download --quiet --no-deps --only-binary :all: --python-version 3.11 --dest "$download" \
    "tensorflow-cpu==$version" </dev/null &&
    .venv/bin/python - "$download" <<'PYTHON' &&
import pathlib, sys, zipfile

download = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(download.glob("*.whl"))) as wheel:
    kept = ("tensorflow/include/", "tensorflow/libtensorflow_framework.so.2")
    wheel.extractall(download, [name for name in wheel.namelist() if name.startswith(kept)])
PYTHON
    mkdir -p "$folder/tensorflow" &&
    mv "$download/tensorflow" "$folder/tensorflow/$version" &&
    rm -r "$download"
}

build_wheel() {
  local folders=("${tf_versions[@]/#/$folder/tensorflow/}") minor
  minor=$(minor_of "$1")
  # setuptools would put what lies in build/lib.* from another build into the wheel.
  rm -rf build/lib.* build/bdist.* "$folder"/{,linked/}*-cp3"$minor"-*.whl
  sources_of_now >"$folder/sources-3.$minor"
  # TensorFlow's library, which the ops need, is in memory before they are loaded: it stays outside.
  make_environment "build-3.$minor" "$1" -c scripts/requirements-build.txt packaging pybind11 setuptools wheel &&
    TFC_WITH_CUDA=OFF TFC_TF_FOLDERS=$(IFS=';' && echo "${folders[*]}") PATH=$PWD/.venv/bin:$PATH \
      "${pip[@]}" --python "$environment/bin/python" wheel --quiet --no-build-isolation --no-deps \
      --wheel-dir "$folder/linked" . </dev/null &&
    PATH=$PWD/.venv/bin:$PATH auditwheel repair --strip --exclude libtensorflow_framework.so.2 \
      --wheel-dir "$folder" "$folder"/linked/*-cp3"$minor"-*.whl
}

# run_bare <tests...>: runs them in $environment, and the program; there is no compiler, no CMake and no other source.
run_bare() {
  local empty
  empty=$(mktemp -d)
  cp "$@" "${oracles[@]}" "$empty" && "$environment/bin/tfcompress" list >"$empty/list" && (cd "$empty" && env -i HOME="$empty" LANG=C.UTF-8 TF_CPP_MIN_LOG_LEVEL=2 PATH="$environment/bin" \
    "$environment/bin/python" -c '
import pathlib, shutil, sys, tfcompress
assert not [tool for tool in ("c++", "cc", "g++", "gcc", "cmake") if shutil.which(tool)]
assert pathlib.Path(tfcompress.__file__).is_relative_to(sys.prefix), tfcompress.__file__
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))' "${@##*/}") && rm -r "$empty"
}

# The wheel that the last build made for Python 3.<minor>.
wheel_of() {
  local wheels=("$folder"/*-cp3"$1"-*.whl)
  [[ -e ${wheels[0]} ]] || fail "no wheel for Python 3.$1 in $folder: run scripts/wheels.sh build first."
  echo "${wheels[0]}"
}

# test_codecs <interpreter> <NumPy>
test_codecs() {
  local minor wheel
  minor=$(minor_of "$1")
  wheel=$(wheel_of "$minor") &&
    make_environment "codecs-3.$minor" "$1" --only-binary :all: pytest hypothesis rich "$2" &&
    make_environment "codecs-3.$minor" "$1" --force-reinstall --no-deps "$wheel" &&
    run_bare "${codec_tests[@]}"
}

# test_tensorflow <TensorFlow>: with the last of the Pythons that it has wheels for.
test_tensorflow() {
  local version=$1 python chosen='' newest minor wheel
  newest=$(newest_python_of "$version")
  [[ $newest ]] || fail "$versions has no release of the minor version of TensorFlow $version."
  for python in "${pythons[@]}"; do
    (($(minor_of "$python") > newest)) || chosen=$python
  done
  [[ $chosen ]] || fail "TensorFlow $version needs Python 3.$newest or older, which is none of ${pythons[*]}."
  minor=$(minor_of "$chosen")
  wheel=$(wheel_of "$minor") &&
    make_environment "tensorflow-$version-3.$minor" "$chosen" --only-binary :all: pytest rich "tensorflow-cpu==$version" &&
    make_environment "tensorflow-$version-3.$minor" "$chosen" --force-reinstall --no-deps "$wheel" &&
    run_bare "${tensorflow_tests[@]}"
}

# Writes the archive of the sources, and builds a wheel of it for .venv where no network can be reached.
build_sdist() {
  local scratch wheel
  rm -f "$folder"/tfcompress-*.tar.gz
  scratch=$(mktemp -d) &&
    .venv/bin/python setup.py --quiet sdist --dist-dir "$folder" &&
    tar -xzf "$folder"/tfcompress-*.tar.gz -C "$scratch" &&
    TFC_WITH_CUDA=OFF PATH=$PWD/.venv/bin:$PATH unshare --map-root-user --net "${pip[@]}" wheel --quiet --no-index \
      --no-build-isolation --no-deps --wheel-dir "$scratch" "$scratch"/tfcompress-*/ </dev/null &&
    wheel=$(ls "$scratch"/tfcompress-*.whl) &&
    .venv/bin/python -m zipfile -l "$wheel" | grep -cE '_(core|tfcompress_ops)[^/]*\.so ' | grep -qx 2 &&
    rm -r "$scratch"
}

sdist_all() {
  stage "tools" scripts/setup.sh tools
  stage "sources, built without a network" build_sdist
}

build_all() {
  local version python
  stage "tools" scripts/setup.sh tools
  for version in "${tf_versions[@]}"; do
    stage "headers of TensorFlow $version" fetch_tensorflow "$version"
  done
  for python in "${pythons[@]}"; do
    stage "wheel for $python" build_wheel "$python"
  done
}

test_all() {
  local version python
  for python in "${pythons[@]}"; do
    # NumPy 1 has no wheels for Python 3.13.
    (($(minor_of "$python") > 12)) || stage "codecs, $python, NumPy 1" test_codecs "$python" "numpy==1.26.4"
    stage "codecs, $python, NumPy 2" test_codecs "$python" "numpy>=2"
  done
  for version in "${tf_versions[@]}"; do
    stage "TensorFlow $version" test_tensorflow "$version"
  done
}

case ${1:-} in
  build | test) find_pythons && "$1_all" ;;
  sdist) sdist_all ;;
  *) echo "usage: scripts/wheels.sh build|test|sdist" >&2 && exit 2 ;;
esac
print_stage_times
