"""What the guides run on several ranks: what `python_tests/single/test_guides.py` leaves out."""

import pathlib
import re
import sys

import pytest
from launch import horovodrun, run_job
from pages import DOCS, PAGES, commands_of, programs_of

LAUNCH = pathlib.Path(__file__).parents[2] / "examples" / "launch"
GET_STARTED = DOCS / "get_started.md"
CHECKPOINTS = DOCS / "guides" / "checkpoints.md"
# Programs of `examples/launch` that need packages.
PACKAGES = {"ray_job.py": ["ray"], "spark_job.py": ["pyspark", "pyarrow", "fsspec"]}
# What the pages leave to the reader's hosts, as far as ranks of this machine need it.
STAND_INS = {
    "discover_hosts.sh": "echo localhost:2; echo 127.0.0.1:2",
    "scontrol": "echo localhost",
    "srun": """
SLURM_NTASKS=2 SLURM_PROCID=1 "$@" & other=$!
SLURM_NTASKS=2 SLURM_PROCID=0 "$@" && wait $other
""",
}


def jobs() -> list:
    """The commands of all pages that start ranks; one is for `make test-ci`, too."""
    return [
        pytest.param(page, block, marks=() if page == GET_STARTED else pytest.mark.long)
        for page in PAGES
        for block in commands_of(page)
        if not block.reason and not block.text.startswith("tfcompress ")
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where commands run: with stand-ins on the path, and not where the programs of `examples/launch` are."""
    for name, script in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "localhost")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program_for(page: pathlib.Path) -> str:
    """The program that a page's commands start."""
    if page == CHECKPOINTS:
        first, *_, elastic = programs_of(page)
        return first.text + elastic.text
    first, asked, *_ = programs_of(GET_STARTED)
    return first.text + asked.text


def shown_by(page: pathlib.Path, program: str | None) -> list[str]:
    """What a job prints that has trained: one of `PACKAGES`, or None for that of `program_for`."""
    if program is not None:
        return [f"'rank': {rank}, 'ranks': 2" for rank in range(2)]
    ranks = [f"rank {rank} of" for rank in range(2)]
    return ranks if page == CHECKPOINTS else [*ranks, "Epoch 3/3", "ratio"]


@pytest.mark.parametrize(("page", "block"), jobs(), ids=lambda each: getattr(each, "stem", ""))
def test_commands_train_on_several_ranks(page, block, folder):
    program = next((name for name in PACKAGES if name in block.text), None)
    for package in PACKAGES.get(program, []):
        pytest.importorskip(package, reason=f"pip install {package}")
    told = 'print(f"rank {hvd.rank()} of {hvd.size()}")\n'
    (folder / "train.py").write_text(program_for(page) + told)
    # Workers find what they run wherever they start.
    command = re.sub("|".join(["start_rank.py", *PACKAGES]), rf"{LAUNCH}/\g<0>", block.text)
    printed = run_job(["bash", "-e", "-c", command])
    assert [text for text in shown_by(page, program) if text not in printed] == []


@pytest.mark.long
def test_two_levels_train_on_four_ranks(folder):
    first, *others = programs_of(DOCS / "guides" / "slow_links.md")
    [two_levels] = [block for block in others if block.reason == "needs four ranks"]
    program = folder / "train.py"
    train = """
model.compile(opt, "mse")
model.fit(x, x[:, :1], callbacks=[tfc.callbacks.BroadcastVariables(0)], verbose=2)
"""
    program.write_text(f"import horovod.tensorflow as hvd\n{first.text}{two_levels.text}{train}")
    printed = horovodrun(4, program)
    assert len(re.findall(r"loss: \d", printed)) == 4
