"""Trains on two ranks with every TensorFlow, Python and Keras that go together; writes docs/compatibility.md.

    python scripts/matrix.py                                   all pairs (after `make wheels`)
    python scripts/matrix.py --tensorflow 2.18.1 --python 3.12 some, of which the page's rows are replaced

Each pair has an environment of its own in build/matrix, with the wheel of this package from build/wheels, and
with Horovod as `python -m tfcompress.build_horovod` builds it: once for each TensorFlow, which takes minutes.
What has run before with the same wheels is not run again, unless --again says so.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

import rich.progress

ROOT = pathlib.Path(__file__).parents[1]
FOLDER, WHEELS = ROOT / "build" / "matrix", ROOT / "build" / "wheels"
RESULTS, PAGE = ROOT / "docs" / "results" / "compatibility.json", ROOT / "docs" / "compatibility.md"


def read_versions() -> dict[str, tuple[str, ...]]:
    """Returns the TensorFlows, and the Pythons that each has wheels for."""
    lines = (ROOT / "scripts" / "tensorflow_versions.txt").read_text().splitlines()
    newest = dict(line.split() for line in lines if line.strip() and line[0] != "#")
    return {
        tensorflow: tuple(f"3.{minor}" for minor in range(10, int(python.removeprefix("3.")) + 1))
        for tensorflow, python in newest.items()
    }


PYTHONS = read_versions()
JOB_SECONDS = 300
# What works in the job and fails in other programs.
CAVEAT = (
    "On Python 3.12 a program that calls `tf_keras.utils.set_random_seed` fails with tf_keras 2.16 to\n"
    "2.18, without this package, too: they draw seeds with `random.randint(1, 1e9)`, which Python 3.12\n"
    "refuses; from 2.19 on it is `int(1e9)`. The job sets TensorFlow's seed alone; `tfcompress doctor`\n"
    "names such a tf_keras."
)


class SetupError(Exception):
    """What a pair needs is missing, or a command failed; the message ends with what it printed."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """A TensorFlow and a Python, and how they are found."""

    tensorflow: str
    python: str

    @property
    def kerases(self) -> tuple[str, ...]:
        """The Kerases that it has."""
        return ("Keras 2",) if self.tensorflow.startswith("2.15.") else ("Keras 3", "tf_keras")

    @property
    def folder(self) -> pathlib.Path:
        return FOLDER / f"tensorflow-{self.tensorflow}-python-{self.python}"

    @property
    def interpreter(self) -> pathlib.Path:
        return self.folder / "bin" / "python"

    @property
    def wheel(self) -> pathlib.Path:
        """The wheel of this package.

        Raises:
          SetupError: There is none.
        """
        tag = f"cp{self.python.replace('.', '')}"
        found = sorted(WHEELS.glob(f"tfcompress-*-{tag}-{tag}-*.whl"))
        if not found:
            raise SetupError(f"no wheel for Python {self.python} in {WHEELS}: run `make wheels` first")
        return found[-1]

    @property
    def wheel_digest(self) -> str:
        """What tells wheels apart; raises as `wheel` does."""
        return hashlib.sha256(self.wheel.read_bytes()).hexdigest()

    @property
    def sources(self) -> str:
        """What `make wheels` says that it has built the wheel of."""
        told = WHEELS / f"sources-{self.python}"
        return told.read_text().strip() if told.exists() else "sources that were not recorded"


def run(
    command: Sequence[object], environment: dict[str, str] | None = None, seconds: float | None = None
) -> None:
    """Runs a command, outside the sources: `-m tfcompress` is to find the wheel.

    Raises:
      SetupError: It failed or took longer.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env=environment,
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"took longer than {seconds} s: {' '.join(words)}") from error
    if done.returncode:
        raise SetupError(f"{' '.join(words)}\n{(done.stdout + done.stderr)[-3000:]}")


def prepare(pair: Pair, python: str) -> None:
    """Makes the environment of a pair, with an interpreter of its Python.

    Raises:
      SetupError: Something cannot be installed or built.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    pip = [pair.interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not pair.interpreter.exists():
        run([python, "-m", "venv", pair.folder])
    packages = [f"tensorflow-cpu=={pair.tensorflow}", "cmake<4"]
    run([*pip, *packages])
    if "tf_keras" in pair.kerases:
        minor = pair.tensorflow.split(".")[1]
        run([*pip, "--no-deps", f"tf_keras==2.{minor}.*"])
    run([*pip, "--force-reinstall", "--no-deps", pair.wheel])
    run([pair.interpreter, "-m", "tfcompress.build_horovod"])


def train(pair: Pair, keras: str) -> None:
    """Runs the job.

    Raises:
      SetupError: It failed.
    """
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(pair.folder / "bin"), os.environ["PATH"]]),
        "TF_USE_LEGACY_KERAS": "1" if keras == "tf_keras" else "0",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    command = [pair.folder / "bin" / "horovodrun", "-np", 2, "-H", "localhost:2", "--gloo", pair.interpreter]
    run([*command, ROOT / "scripts" / "matrix_job.py"], environment, JOB_SECONDS)


def try_pair(pair: Pair, python: str) -> list[dict]:
    """Returns a row for each Keras of a pair."""
    failure = ""
    try:
        prepare(pair, python)
    except SetupError as error:
        failure = str(error)
    rows = []
    for keras in pair.kerases:
        begin, problem = time.monotonic(), failure
        if not failure:
            try:
                train(pair, keras)
            except SetupError as error:
                problem = str(error)
        rows.append(
            {
                "tensorflow": pair.tensorflow,
                "python": pair.python,
                "keras": keras,
                "wheel": pair.wheel_digest,
                "sources": pair.sources,
                "seconds": round(time.monotonic() - begin, 1),
                "failure": problem,
            }
        )
    return rows


def interpreters(wanted: Sequence[str]) -> dict[str, str]:
    """Returns the interpreters of the Pythons that are here, among those of PYTHONS as for `make wheels`."""
    names = os.environ.get("PYTHONS", "").split() or [f"python{version}" for version in wanted]
    tell = "import sys; print('%d.%d' % sys.version_info[:2])"
    found = {}
    for path in filter(None, map(shutil.which, names)):
        # A shim may be there without an interpreter behind it.
        said = subprocess.run([path, "-c", tell], capture_output=True, text=True, check=False)
        if said.returncode == 0:
            found[said.stdout.strip()] = path
    for version in [each for each in wanted if each not in found]:
        print(f"matrix: no Python {version} here; PYTHONS names interpreters", file=sys.stderr)
    return {version: found[version] for version in wanted if version in found}


def page(rows: Sequence[dict]) -> str:
    """Returns the text of the page."""
    kerases = ("Keras 2", "Keras 3", "tf_keras")
    pythons = sorted({row["python"] for row in rows}, key=lambda each: int(each.split(".")[1]))
    lines = [
        "# Compatibility",
        "",
        "<!-- Written by scripts/matrix.py. -->",
        "",
        "Jobs of two ranks under `horovodrun` that trained with a sharded, a gathered and a summed exchange,",
        "and ended with equal weights on both: with wheels of this package, and with Horovod 0.28.1 as",
        "`python -m tfcompress.build_horovod` builds it (`make matrix`). TensorFlow has wheels where a cell",
        "does not say otherwise.",
        "",
        "| TensorFlow | " + " | ".join(f"Python {each}" for each in pythons) + " |",
        "|" + " --- |" * (1 + len(pythons)),
    ]
    for tensorflow in dict.fromkeys(row["tensorflow"] for row in rows):
        cells = [_cell(rows, tensorflow, python, kerases) for python in pythons]
        lines.append(f"| {tensorflow} | " + " | ".join(cells) + " |")
    failures: dict[str, list[str]] = {}
    for row in [row for row in rows if row["failure"]]:
        reason = f"`{row['failure'].strip().splitlines()[-1]}`"
        where = f"TensorFlow {row['tensorflow']}, Python {row['python']}, {row['keras']}"
        failures.setdefault(reason, []).append(where)
    for reason, places in failures.items():
        lines += ["", f"- {'; '.join(places)}: {reason}"]
    lines += ["", CAVEAT]
    built: dict[str, list[str]] = {}
    for pair in dict.fromkeys((row["sources"], row["tensorflow"], row["python"]) for row in rows):
        built.setdefault(pair[0], []).append(f"TensorFlow {pair[1]}, Python {pair[2]}")
    *fewer, most = sorted(built, key=lambda sources: len(built[sources]))
    for sources in [*fewer, most]:
        where = "; ".join(built[sources]) if sources in fewer else f"all {'other ' if fewer else ''}pairs"
        lines += ["", f"Wheels of {where} were built of {sources}; what was changed later is not in them."]
    return "\n".join(lines) + "\n"


def _cell(rows: Sequence[dict], tensorflow: str, python: str, kerases: Sequence[str]) -> str:
    own = [row for row in rows if (row["tensorflow"], row["python"]) == (tensorflow, python)]
    if not own:
        return "no wheels" if python not in PYTHONS[tensorflow] else "not tried"
    own.sort(key=lambda row: kerases.index(row["keras"]))
    return ", ".join(f"{row['keras']}: {'fails' if row['failure'] else 'works'}" for row in own)


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tensorflow", nargs="+", default=list(PYTHONS), choices=list(PYTHONS), metavar="2.X.Y"
    )
    all_pythons = list(dict.fromkeys(each for own in PYTHONS.values() for each in own))
    parser.add_argument("--python", nargs="+", default=all_pythons, choices=all_pythons, metavar="3.X")
    parser.add_argument("--again", action="store_true", help="also what has run before with the same wheel")
    return parser.parse_args(words)


def main() -> None:
    arguments = parse_arguments()
    try:
        rows = run_all(arguments)
    except SetupError as error:
        sys.exit(f"matrix: {error}")
    print(PAGE.read_text())
    sys.exit(any(row["failure"] for row in rows))


def run_all(arguments: argparse.Namespace) -> list[dict]:
    """Runs what has not run; returns all rows, and writes them after each pair.

    Raises:
      SetupError: There is no wheel of this package.
    """
    pythons = interpreters(arguments.python)
    pairs = [
        Pair(tensorflow, python)
        for tensorflow in arguments.tensorflow
        for python in PYTHONS[tensorflow]
        if python in pythons
    ]
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for pair in rich.progress.track(pairs, "pairs"):
        own = [row for row in rows if (row["tensorflow"], row["python"]) == (pair.tensorflow, pair.python)]
        digest = pair.wheel_digest
        if own and not arguments.again and all(row["wheel"] == digest for row in own):
            continue
        rows = [row for row in rows if row not in own] + try_pair(pair, pythons[pair.python])
        order = list(PYTHONS)
        rows.sort(key=lambda row: (order.index(row["tensorflow"]), int(row["python"].split(".")[1])))
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
        PAGE.write_text(page(rows))
    return rows


if __name__ == "__main__":
    main()
