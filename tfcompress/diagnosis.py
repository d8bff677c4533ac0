"""Tells whether an installation can train, and how to mend what is broken. Loads no TensorFlow itself."""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import shlex
import signal
import subprocess
import sys

import numpy as np

from tfcompress import _core, cuda, frames, op_library
from tfcompress._version import __version__

# Seconds in which TensorFlow has to load, and two ranks to start and to exchange.
TIMEOUT_SECONDS = 300.0
_PYTHON = shlex.quote(sys.executable)
_PIP = f"{_PYTHON} -m pip install"
_REMEDIES = {
    "TensorFlow": f"{_PIP} tensorflow",
    "Keras": f"{_PIP} keras",
    "op library": op_library.BUILD_COMMAND,
    "Horovod": f"{_PYTHON} -m tfcompress.build_horovod",
}
_OPTIONAL = ("Keras",)
# Modules that can be missing whether TensorFlow is there or not.
_INSTALLED_ALONE = ("keras", "horovod")
_RANKS = "two ranks"
_LOOPBACK = ("-m", "tfcompress.loopback")


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was found of one part.

    Attributes:
      name: The part.
      state: "ok"; "broken", which includes missing; "note" where training does without it; "skipped" where
        something else has to be mended first.
      found: What was found.
      remedy: The command that mends it, or shows more of it; "" where there is nothing to mend.
    """

    name: str
    state: str
    found: str
    remedy: str = ""


def diagnose(timeout: float = TIMEOUT_SECONDS) -> list[Finding]:
    """Looks at versions, the core, TensorFlow, the op library, Keras, Horovod, and exchanges on two ranks.

    What may be broken is loaded in other processes.

    Args:
      timeout: Seconds that each of these may take.
    """
    findings = [
        Finding("Python", "ok", f"{platform.python_version()}, {sys.executable}"),
        Finding(
            "tfcompress",
            "ok",
            f"{__version__}, frames of version {frames.FORMAT_VERSION}, {pathlib.Path(__file__).parent}",
        ),
        Finding("NumPy", "ok", np.__version__),
        _core_finding(),
        _cuda_finding(),
    ]
    loaded = load_parts(timeout)
    ready = all(each.state == "ok" for each in loaded if each.name not in _OPTIONAL)
    ranks = (
        exchange_on_two_ranks(timeout) if ready else Finding(_RANKS, "skipped", "what they need is not there")
    )
    return [*findings, *loaded, *_tf_keras_findings(), ranks]


def load_parts(timeout: float) -> list[Finding]:
    """Loads TensorFlow, Keras, the op library and Horovod in a process of their own.

    Args:
      timeout: Seconds that they may take together.
    """
    ended, output = _run([sys.executable, "-m", "tfcompress.loading"], timeout)
    lines = [line for line in output.splitlines() if line.startswith('{"name": ')]
    outcomes = {each["name"]: each for each in map(json.loads, lines)}
    findings, needed = [], ""  # What has to load before all that comes after it.
    for name in _REMEDIES:
        outcome = outcomes.get(name, {"error": f"loading it {ended}"})
        if needed and "found" not in outcome and outcome.get("missing") not in _INSTALLED_ALONE:
            findings.append(Finding(name, "skipped", f"{needed} has to load first"))
            continue
        findings.append(_finding(name, outcome))
        if name not in outcomes or (name == "TensorFlow" and "error" in outcome):
            needed = name
    return findings


def exchange_on_two_ranks(timeout: float) -> Finding:
    """Starts two ranks on this machine, which exchange one gradient by `int8`, and compare what they got.

    Args:
      timeout: Seconds that this may take.
    """
    launch = [sys.executable, "-m", "horovod.runner.launch", "-np", "2", "-H", "localhost:2"]
    ended, output = _run([*launch, sys.executable, *_LOOPBACK], timeout)
    match = re.search(r'\{"ranks": 2, .*\}', output)
    if ended == "ended with status 0" and match:
        result = json.loads(match[0])
        return Finding(_RANKS, "ok", f"one result, error {result['error']:.1e}, {result['seconds']:.1f} s")
    said = [line for line in output.splitlines() if line.strip()]
    return Finding(
        _RANKS,
        "broken",
        "\n".join(
            [f"the job {ended}; the end of what it said, of which the command below shows all:", *said[-5:]]
        ),
        shlex.join(["horovodrun", "-np", "2", "--verbose", sys.executable, *_LOOPBACK]),
    )


def _core_finding() -> Finding:
    gradient = np.arange(1000, dtype=np.float32)
    decoded = frames.decode(frames.encode(gradient, "dense|raw|raw"))
    if np.array_equal(gradient, decoded):
        return Finding("core", "ok", f"encodes and decodes, {pathlib.Path(_core.__file__).name}")
    return Finding("core", "broken", "decodes other numbers than it encoded", op_library.BUILD_COMMAND)


def _cuda_finding() -> Finding:
    if cuda.is_available():
        return Finding("CUDA variants", "ok", "built, and there is a GPU")
    return Finding("CUDA variants", "note", f"codecs run on the CPU: {cuda.obstacle()}")


def _tf_keras_findings() -> list[Finding]:
    try:
        version = importlib.metadata.version("tf_keras")
    except importlib.metadata.PackageNotFoundError:
        return []
    release = tuple(map(int, version.split(".")[:2]))
    if sys.version_info < (3, 12) or release >= (2, 19):
        return []
    found = f"{version}: layers fail on this Python after `set_random_seed`; from 2.19 on they do not"
    return [Finding("tf_keras", "note", found, f"{_PIP} 'tensorflow>=2.19' 'tf_keras>=2.19'")]


def _finding(name: str, outcome: dict[str, str]) -> Finding:
    built = _built_for_text() if name == "op library" else ""
    if "found" in outcome:
        return Finding(name, "ok", outcome["found"] + built)
    state = "note" if name in _OPTIONAL else "broken"
    return Finding(name, state, outcome["error"] + built, _REMEDIES[name])


def _built_for_text() -> str:
    libraries = op_library.available()
    return f"; built for TensorFlow {op_library.describe(libraries)}" if libraries else ""


def _run(command: list[str], timeout: float) -> tuple[str, str]:
    """Runs a program and all that it starts; returns how it ended, and what it printed."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
            ended = f"ended with status {process.returncode}"
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            ended = f"did not end within {timeout:g} s"
    return ended, output
