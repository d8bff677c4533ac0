"""What of the guides needs several ranks: what `python_tests/single/test_guides.py` leaves out."""

import pathlib
import re

import pytest
from launch import horovodrun

DOCS = pathlib.Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ON_FOUR_RANKS = re.compile(
    r"^<!-- not run: needs four ranks -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def test_the_first_program_trains_on_two_ranks(tmp_path):
    first, asked = _BLOCK.findall((DOCS / "get_started.md").read_text())[:2]
    program = tmp_path / "train.py"
    program.write_text(first + asked)
    printed = horovodrun(2, program)
    assert "Epoch 3/3" in printed and "ratio" in printed


@pytest.mark.long
def test_two_levels_train_on_four_ranks(tmp_path):
    page = (DOCS / "guides" / "slow_links.md").read_text()
    first = _BLOCK.findall(page)[0]
    [two_levels] = _ON_FOUR_RANKS.findall(page)
    program = tmp_path / "train.py"
    train = """
model.compile(opt, "mse")
model.fit(x, x[:, :1], callbacks=[tfc.callbacks.BroadcastVariables(0)], verbose=2)
"""
    program.write_text(f"import horovod.tensorflow as hvd\n{first}{two_levels}{train}")
    printed = horovodrun(4, program)
    assert len(re.findall(r"loss: \d", printed)) == 4
