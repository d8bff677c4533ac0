"""Starts an example on several ranks of this machine, from a script."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).parent
# What TensorFlow says on loading whatever TF_CPP_MIN_LOG_LEVEL is, with horovodrun's prefix.
_STARTING = re.compile(r"(\[\d+\]<stderr>:)?(WARNING: All log messages before absl|I0000 )")


def run_example(
    program: str, num_ranks: int, arguments: list[str], output: pathlib.Path | None = None
) -> list[dict]:
    """Runs an example under horovodrun and returns its results, one for each `--compression`.

    Args:
      program: Name of the example, without ".py".
      num_ranks: Number of ranks, all on this machine.
      arguments: Arguments of the example, without `--output`.
      output: JSON file that gets each result as soon as it is there (default: none is kept).

    Raises:
      FileNotFoundError: There is no such example.
      subprocess.CalledProcessError: The example failed; its output says why.
    """
    script = EXAMPLES / f"{program}.py"
    if not script.exists():
        raise FileNotFoundError(f"no example {program}.py in {EXAMPLES}")
    # The ranks must find the tools of this environment even if it is not activated.
    folder = str(pathlib.Path(sys.executable).parent)
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
    environment["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", "")])
    launcher = ["horovodrun", "--gloo", "-np", str(num_ranks), "-H", f"localhost:{num_ranks}"]
    with tempfile.TemporaryDirectory() as scratch:
        output = output or pathlib.Path(scratch) / "results.json"
        command = [*launcher, sys.executable, str(script), *arguments, "--output", str(output)]
        _run(command, environment)
        return json.loads(output.read_text())


def _run(command: list[str], environment: dict[str, str]) -> None:
    """Runs a program, and shows all of its messages but those of TensorFlow's start."""
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as program:
        for line in program.stderr:
            if not _STARTING.match(line):
                print(line, end="", file=sys.stderr, flush=True)
    if program.returncode:
        raise subprocess.CalledProcessError(program.returncode, command)
