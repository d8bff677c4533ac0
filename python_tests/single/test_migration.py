"""docs/migration.md names presets and parts that exist."""

import pathlib
import re

import tfcompress as tfc

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "migration.md").read_text()
# The cells of the second column: what something is here.
HERE = [line.split(" | ")[1] for line in PAGE.replace("\\|", "!").splitlines() if line.startswith("| ")]
CODES = [code.replace("!", "|") for cell in HERE for code in re.findall(r"`([^`]+)`", cell)]


def test_presets_exist():
    names = {match[1] for code in CODES if (match := re.match(r"(\w+)\(", code))}
    assert len(names) > 10
    for name in names:
        assert hasattr(tfc.Compression, name), name


def test_parts_of_specs_exist():
    indices = [code for code in CODES if code.startswith("bloom:") and "..." not in code]
    assert len(indices) >= 5
    for index in indices:
        assert tfc.describe_spec(f"nonzero|{index}|raw")
    for spec in (code for code in CODES if code.count("|") == 2):
        assert tfc.describe_spec(spec)


def test_example_of_a_whole_spec():
    [text, spec] = re.search(r"`(deepreduce\(.*?\))` is `(.*?)`", PAGE, re.DOTALL).groups()
    whole = tfc.describe_spec(tfc.make_compressor(text).spec)
    assert whole == tfc.describe_spec(spec)
