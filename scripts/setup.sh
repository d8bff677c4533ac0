#!/usr/bin/env bash
# Prepares everything that the other targets of the Makefile need, in .venv. Can be repeated, and is quick then.
#
#   scripts/setup.sh          all of it
#   scripts/setup.sh tools    only compiler, libraries and build tools: enough for `make asan lint`
#   scripts/setup.sh fuzz     the same, and clang with libFuzzer
#   scripts/setup.sh docs     the build tools, and the packages of the extra `docs`; no compiler is needed
#
#   PYTHON=python3.12      interpreter of a new .venv (3.10 to 3.13)
#   TF_VERSION=2.15.1      TensorFlow to use from now on (2.15.1 or later; 2.21.0 for a new .venv)
#   TFC_WITH_CUDA=OFF      no variants for GPUs even if nvcc is found
#   TFC_CUDA_ARCHITECTURES="80-real;90"  for which GPUs (those of this machine, or 90)
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=${1:-all}
venv=.venv
stamps=$venv/.stamps

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# done_before <step> <inputs>: whether <step> ran to its end with the same inputs.
done_before() { [[ -f $stamps/$1 && $(<"$stamps/$1") == "$2" ]]; }
mark_done() { mkdir -p "$stamps" && printf '%s\n' "$2" >"$stamps/$1"; }
checksum() { cat "$@" | sha256sum | cut -d' ' -f1; }

pip_install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" </dev/null
}

check_python() {
  local version
  python=${PYTHON:-python3}
  [[ -z ${PYTHON:-} && -x $venv/bin/python ]] && python=$venv/bin/python
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') ||
    fail "cannot run '$python'; choose a Python 3.10 to 3.13 with PYTHON=<interpreter>."
  case $version in
    3.10 | 3.11 | 3.12 | 3.13) ;;
    *) fail "'$python' is Python $version; supported are 3.10, 3.11, 3.12 and 3.13. Choose one with PYTHON=<interpreter>." ;;
  esac
  if [[ -x $venv/bin/python && $("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') != "$version" ]]; then
    fail "$venv has another Python than '$python' ($version); remove $venv to start over."
  fi
}

# Prints the missing Debian packages, for tools that PyPI does not have.
missing_packages() {
  local packages=()
  "$python" -c 'import ensurepip, venv' 2>/dev/null || packages+=("$(debian_python)-venv")
  if [[ $wanted == docs ]]; then
    echo "${packages[@]}"
    return
  fi
  command -v c++ >/dev/null || packages+=(g++)
  command -v make >/dev/null || packages+=(make)
  [[ -e /usr/include/gtest/gtest.h || -e /usr/local/include/gtest/gtest.h ]] || packages+=(libgtest-dev)
  [[ -e /usr/include/benchmark/benchmark.h || -e /usr/local/include/benchmark/benchmark.h ]] ||
    packages+=(libbenchmark-dev)
  [[ -e /usr/include/zlib.h || -e /usr/local/include/zlib.h ]] || packages+=(zlib1g-dev)
  "$python" -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
    packages+=("$(debian_python)-dev")
  [[ $wanted != fuzz ]] || have_libfuzzer || packages+=(clang)
  echo "${packages[@]}"
}

have_libfuzzer() {
  local program='extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
  "${FUZZ_CXX:-clang++}" -fsanitize=fuzzer -x c++ -o /dev/null - <<<"$program" 2>/dev/null
}

debian_python() { "$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])'; }

install_packages() {
  local missing as_root=()
  missing=$(missing_packages)
  [[ -n $missing ]] || return 0
  if ((EUID != 0)); then
    as_root=(sudo -n)
  fi
  if command -v apt-get >/dev/null && { ((EUID == 0)) || sudo -n true 2>/dev/null; }; then
    echo "setup: installing $missing"
    # shellcheck disable=SC2086  # a list of words
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq && apt-get install -y -qq --install-recommends $missing" \
      </dev/null >/dev/null
    missing=$(missing_packages)
    [[ -z $missing ]] || fail "still missing after apt-get install: $missing"
  else
    fail "missing: $missing. Install them and run this again; on Debian and Ubuntu:
  sudo apt-get update && sudo apt-get install -y $missing"
  fi
}

install_tools() {
  [[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
  local inputs
  inputs=$(checksum scripts/requirements-build.txt)
  done_before tools "$inputs" && return
  echo "setup: build tools"
  pip_install -r scripts/requirements-build.txt
  mark_done tools "$inputs"
}

# Sets tf_version and numpy_limit.
choose_tensorflow() {
  tf_version=${TF_VERSION:-$(cat "$stamps/tensorflow" 2>/dev/null || echo 2.21.0)}
  [[ $tf_version =~ ^2\.([0-9]+)\.[0-9]+ ]] || fail "TF_VERSION=$tf_version is not a version such as 2.21.0."
  tf_minor=${BASH_REMATCH[1]}
  ((tf_minor >= 15)) || fail "TensorFlow $tf_version is too old; 2.15.1 is the oldest supported."
  # Wheels up to 2.15 are compiled against the binary interface of NumPy 1.
  numpy_limit=()
  ((tf_minor >= 16)) || numpy_limit=('numpy<2')
}

install_tensorflow() {
  done_before tensorflow "$tf_version" && return
  echo "setup: TensorFlow $tf_version"
  # Both packages own the same files: remove one before installing the other.
  "$venv/bin/python" -m pip uninstall --quiet -y tensorflow tensorflow-cpu tf_keras </dev/null 2>/dev/null
  # tensorflow-cpu is half the download, but does not exist for every version and machine.
  pip_install "tensorflow-cpu==$tf_version" "${numpy_limit[@]}" 2>/dev/null ||
    pip_install "tensorflow==$tf_version" "${numpy_limit[@]}" ||
    fail "cannot install TensorFlow $tf_version for $("$venv/bin/python" -V); choose another with TF_VERSION=<version> or PYTHON=<interpreter>."
  # Since 2.16 tf.keras is Keras 3, and Keras 2 a package of its own.
  if ((tf_minor >= 16)); then
    pip_install --no-deps "tf_keras==2.$tf_minor.*"
  fi
  mark_done tensorflow "$tf_version"
}

install_horovod() {
  local inputs
  inputs="$tf_version $(checksum tfcompress/build_horovod.py)"
  done_before horovod "$inputs" && return
  echo "setup: Horovod"
  "$venv/bin/python" tfcompress/build_horovod.py
  mark_done horovod "$inputs"
}

install_requirements() {
  local inputs
  inputs="$tf_version $(checksum scripts/requirements-test.txt)"
  done_before requirements "$inputs" && return
  echo "setup: packages of the tests and the demo"
  pip_install -r scripts/requirements-test.txt "${numpy_limit[@]}"
  mark_done requirements "$inputs"
}

install_docs_requirements() {
  local requirements
  requirements=$("$venv/bin/python" -W ignore -c 'from setuptools.config.pyprojecttoml import read_configuration
print(*read_configuration("pyproject.toml", expand=False)["project"]["optional-dependencies"]["docs"], sep="\n")')
  done_before docs "$requirements" && return
  echo "setup: packages of the documentation"
  pip_install -r <(printf '%s\n' "$requirements")
  mark_done docs "$requirements"
}

# Builds only for the GPUs of this machine: all architectures would take minutes.
cuda_architectures() {
  local found
  found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | tr -d . | paste -sd ';')
  echo "${found:-90}"
}

install_tfcompress() {
  local inputs
  export TFC_CUDA_ARCHITECTURES=${TFC_CUDA_ARCHITECTURES:-$(cuda_architectures)}
  inputs="$tf_version $(checksum setup.py pyproject.toml CMakeLists.txt) ${TFC_WITH_CUDA:-} $TFC_CUDA_ARCHITECTURES"
  if done_before tfcompress "$inputs" && [[ -e build/release/CMakeCache.txt ]]; then
    # Compiles changed files only.
    PATH=$PWD/$venv/bin:$PATH cmake --build build/release --target python_package
    PATH=$PWD/$venv/bin:$PATH cmake --install build/release --prefix .
  else
    echo "setup: tfcompress"
    pip_install --no-build-isolation --no-deps --editable .
    mark_done tfcompress "$inputs"
  fi
}

check_python
install_packages
install_tools
[[ $wanted != docs ]] || install_docs_requirements
[[ $wanted == all ]] || exit 0
choose_tensorflow
install_tensorflow
install_horovod
install_requirements
install_tfcompress
