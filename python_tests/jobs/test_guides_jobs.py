"""What of the guides needs several ranks: what `python_tests/single/test_guides.py` leaves out."""

import pathlib
import re

import pytest
from launch import horovodrun

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def blocks_of(page: str) -> list[tuple[str, str]]:
    """Why a block is not run on one rank, if it is not, and its code."""
    pattern = r"^(?:<!-- not run: (.*?) -->\n)?```python\n(.*?)^```$"
    return re.findall(pattern, (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_first_program_trains_on_two_ranks(tmp_path):
    (_, first), (_, asked), *_ = blocks_of("get_started.md")
    program = tmp_path / "train.py"
    program.write_text(first + asked)
    printed = horovodrun(2, program)
    assert "Epoch 3/3" in printed and "ratio" in printed


@pytest.mark.long
def test_two_levels_train_on_four_ranks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # The program writes a file.
    (_, first), *others = blocks_of("guides/slow_links.md")
    [two_levels] = [code for reason, code in others if reason == "needs four ranks"]
    program = tmp_path / "train.py"
    train = """
model.compile(opt, "mse")
model.fit(x, x[:, :1], callbacks=[tfc.callbacks.BroadcastVariables(0)], verbose=2)
"""
    program.write_text(f"import horovod.tensorflow as hvd\n{first}{two_levels}{train}")
    printed = horovodrun(4, program)
    assert len(re.findall(r"loss: \d", printed)) == 4
