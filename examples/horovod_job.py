"""Starts an example on several ranks of this machine, from a script."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).parent


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
    environment = {**os.environ, "PATH": os.pathsep.join([folder, os.environ.get("PATH", "")])}
    launcher = ["horovodrun", "--gloo", "-np", str(num_ranks), "-H", f"localhost:{num_ranks}"]
    with tempfile.TemporaryDirectory() as scratch:
        output = output or pathlib.Path(scratch) / "results.json"
        command = [*launcher, sys.executable, str(script), *arguments, "--output", str(output)]
        subprocess.run(command, check=True, env=environment)
        return json.loads(output.read_text())
