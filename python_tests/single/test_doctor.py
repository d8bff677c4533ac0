"""`tfcompress doctor` on installations that lack something, and the two ranks' program on one rank."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import pytest

import tfcompress as tfc
from tfcompress import cli, diagnosis, op_library
from tfcompress.diagnosis import Finding

ROOT = pathlib.Path(__file__).parents[2]
# A finder that comes before all others, in every process: as if a package were not installed.
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.fixture
def doctor(tmp_path):
    """Runs `tfcompress doctor --json` with some files ahead of what is installed; returns what it found."""

    def run(*arguments: str, **files: str) -> dict[str, dict]:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        path = os.pathsep.join([str(tmp_path), str(ROOT)])
        command = [sys.executable, "-m", "tfcompress", "doctor", "--json", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}
        )
        assert (done.returncode, done.stderr) == (1, ""), done.stderr
        report = json.loads(done.stdout)
        assert not report["ok"]
        return {finding.pop("name"): finding for finding in report["findings"]}

    return run


def states(found: dict[str, dict]) -> dict[str, str]:
    return {name: finding["state"] for name, finding in found.items()}


def test_without_tensorflow_and_horovod(doctor):
    found = doctor(sitecustomize=BLOCKED.format(names={"tensorflow", "horovod", "keras"}))
    assert states(found) == {
        **dict.fromkeys(["Python", "tfcompress", "NumPy", "core"], "ok"),
        "CUDA variants": "ok" if tfc.cuda.is_available() else "note",
        "TensorFlow": "broken",
        "Keras": "note",
        "op library": "skipped",
        "Horovod": "broken",
        "two ranks": "skipped",
    }
    assert found["TensorFlow"]["remedy"].endswith("-m pip install tensorflow")
    assert found["Horovod"]["remedy"].endswith("-m tfcompress.build_horovod")
    assert "No module named 'tensorflow'" in found["TensorFlow"]["found"]


def test_horovod_alone_waits_for_tensorflow(doctor):
    found = doctor(sitecustomize=BLOCKED.format(names={"tensorflow"}))
    waiting = {name for name, state in states(found).items() if state == "skipped"}
    assert {"op library", "two ranks"} <= waiting and found["TensorFlow"]["state"] == "broken"


@pytest.mark.parametrize(
    ("python", "version", "is_named"),
    [
        ((3, 11), "2.18.0", False),
        ((3, 12), "2.18.0", True),
        ((3, 12), "2.19.0", False),
        ((3, 12), None, False),
    ],
)
def test_a_tf_keras_that_python_refuses_is_named(python, version, is_named, monkeypatch):
    def installed(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(sys, "version_info", python)
    monkeypatch.setattr(importlib.metadata, "version", installed)
    monkeypatch.setattr(diagnosis, "load_parts", lambda _: [Finding("TensorFlow", "broken", "", "")])
    named = [finding for finding in diagnosis.diagnose() if finding.name == "tf_keras"]
    assert [(finding.state, version in finding.found) for finding in named] == [("note", True)] * is_named


def test_without_horovod(doctor):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    found = doctor(sitecustomize=BLOCKED.format(names={"horovod"}))
    broken = {name for name, state in states(found).items() if state == "broken"}
    assert broken == {"Horovod"} and found["two ranks"]["state"] == "skipped"
    assert found["op library"]["state"] == "ok"


def test_a_part_that_ends_the_process_is_told(doctor):
    found = doctor(tensorflow="import os\nos.abort()")
    assert found["TensorFlow"]["found"] == "loading it ended with status -6"
    for name in ("Keras", "op library", "Horovod"):
        assert (found[name]["state"], found[name]["found"]) == ("skipped", "TensorFlow has to load first")


def test_a_part_that_hangs_is_told(doctor):
    found = doctor("--timeout", "1", tensorflow="import time\ntime.sleep(60)")
    assert found["TensorFlow"]["found"] == "loading it did not end within 1 s"


def lines(**outcomes: dict) -> tuple[str, str]:
    """What the process that loads the parts prints, among other things."""
    told = [json.dumps({"name": name.replace("_", " "), **outcome}) for name, outcome in outcomes.items()]
    return "ended with status 0", "\n".join(["a warning", *told])


OK = {"found": "1"}


def test_an_op_library_for_another_tensorflow_has_to_be_rebuilt(monkeypatch, tmp_path):
    monkeypatch.setattr(op_library, "available", lambda: {tmp_path / "ops.so": "2.15.1"})
    told = lines(TensorFlow=OK, Keras=OK, op_library={"error": "ImportError: undefined symbol"}, Horovod=OK)
    monkeypatch.setattr(diagnosis, "_run", lambda *_: told)
    found = {each.name: each for each in diagnosis.load_parts(1)}
    library = found["op library"]
    assert library.found == "ImportError: undefined symbol; built for TensorFlow 2.15.1"
    assert library.state == "broken" and "--no-build-isolation" in library.remedy
    assert found["Horovod"].state == "ok"


@pytest.mark.parametrize(
    ("ended", "output", "state", "said"),
    [
        (
            "ended with status 0",
            '[0]<stdout>:{"ranks": 2, "error": 0.007, "seconds": 0.3}',
            "ok",
            "7.0e-03, 0.3 s",
        ),
        (
            "ended with status 1",
            "first\n2\n3\n4\n\n5\nlast",
            "broken",
            "status 1; the end of what it said, of which the command below shows all:\n2\n3\n4\n5\nlast",
        ),
        ("ended with status 0", "", "broken", "status 0"),
        ("did not end within 9 s", '{"ranks": 2, "error": 0}', "broken", "within 9 s"),
    ],
)
def test_two_ranks_have_to_end_well(monkeypatch, ended, output, state, said):
    monkeypatch.setattr(diagnosis, "_run", lambda *_: (ended, output))
    finding = diagnosis.exchange_on_two_ranks(9)
    assert finding.state == state and said in finding.found
    assert ("horovodrun -np 2" in finding.remedy) == (state == "broken")


@pytest.mark.parametrize(("state", "status"), [("ok", 0), ("note", 0), ("broken", 1)])
def test_table_and_exit_status(monkeypatch, capsys, state, status):
    findings = [Finding("core", "ok", "fine"), Finding("Keras", state, "version 3", "pip install keras")]
    monkeypatch.setattr(diagnosis, "diagnose", lambda timeout: findings)
    ended = 0
    try:
        cli.main(["doctor"])
    except SystemExit as error:
        ended = error.code
    text = capsys.readouterr().out
    assert ended == status and "fine" in text and "Keras:\n  pip install keras\n" in text


def test_remedies_can_be_copied_and_states_are_coloured(monkeypatch, capsys):
    remedy = diagnosis._REMEDIES["op library"]
    findings = [Finding("core", "ok", "fine"), Finding("op library", "broken", "missing", remedy)]
    monkeypatch.setattr(diagnosis, "diagnose", lambda timeout: findings)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        cli.main(["doctor"])
    text = capsys.readouterr().out
    assert len(remedy) > 120 and f"  {remedy}\n" in text
    assert text.count("\x1b[32m") == 1 and "\x1b[1;31m" in text  # Green, and bold red.


@pytest.mark.parametrize("name", diagnosis._REMEDIES)
def test_remedies_are_commands_of_a_shell(name):
    done = subprocess.run(["sh", "-n", "-c", diagnosis._REMEDIES[name]], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_core_that_is_missing_is_named():
    program = "import sys; sys.modules['tfcompress._core'] = None; import tfcompress"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "core of tfcompress does not load" in done.stderr and "--no-build-isolation" in done.stderr
