"""The pages for who comes from other libraries name presets, parts and arguments that exist."""

import inspect
import pathlib
import re

import pytest

import tfcompress as tfc

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "migration.md").read_text()
DEEPSPEED = (DOCS / "guides" / "from_deepspeed.md").read_text()


def codes_here(page):
    """The codes in the cells of the second column: what something is here."""
    rows = [line for line in page.replace("\\|", "!").splitlines() if line.startswith("| ")]
    cells = [row.split(" | ")[1] for row in rows]
    return [code.replace("!", "|") for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


CODES = codes_here(PAGE)
# Of the guide, only the tables whose second column is what something is here.
OF_DEEPSPEED = codes_here(DEEPSPEED[DEEPSPEED.index("## 1-bit optimizers") :])


@pytest.mark.parametrize(("codes", "least"), [(CODES, 11), (OF_DEEPSPEED, 2)], ids=["migration", "deepspeed"])
def test_presets_exist(codes, least):
    names = {match[1] for code in codes if (match := re.match(r"(\w+)\(", code))}
    assert len(names) >= least
    for name in names:
        assert hasattr(tfc.Compression, name), name


def test_parts_of_specs_exist():
    indices = [code for code in CODES if code.startswith("bloom:") and "..." not in code]
    assert len(indices) >= 5
    for index in indices:
        assert tfc.describe_spec(f"nonzero|{index}|raw")
    for spec in (code for code in CODES if code.count("|") in (2, 3)):
        assert tfc.describe_spec(spec)


def test_example_of_a_whole_spec():
    [text, spec] = re.search(r"`(deepreduce\(.*?\))` is `(.*?)`", PAGE, re.DOTALL).groups()
    whole = tfc.describe_spec(tfc.make_compressor(text).spec)
    assert whole == tfc.describe_spec(spec)


def test_what_stands_for_options_of_deepspeed_can_be_evaluated():
    import horovod.tensorflow as hvd
    import keras

    hvd.init()
    functions = (tfc.DistributedOptimizer, tfc.LocalSteps)
    arguments = {name for each in functions for name in inspect.signature(each).parameters}
    kinds = set()
    for code in OF_DEEPSPEED:
        name, is_argument, value = code.partition("=")
        if is_argument and name.isidentifier():
            kinds.add("argument")
            assert name in arguments, code
            assert not value or eval(value, {"hvd": hvd}) is not None
        elif code.startswith(("tfc.", "keras.")):
            kinds.add("expression")
            assert eval(code, {"tfc": tfc, "keras": keras})
        elif code.endswith("|"):
            kinds.add("memory")
            assert tfc.describe_spec(f"{code}dense|raw|raw")["memory"] == code[:-1]
        else:
            kinds.add("preset")
            assert tfc.make_compressor(code)
    assert kinds == {"argument", "expression", "memory", "preset"}
