"""README.md and the page that goes on from it: tables are true, snippets run."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

import tfcompress as tfc

ROOT = pathlib.Path(__file__).parents[2]
README, CHOOSE, RESULTS = (
    (ROOT / name).read_text() for name in ("README.md", "docs/choose.md", "docs/results.md")
)


def result_rows(name):
    result = json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())
    return {row["compression"]: row for row in result["rows"]}


def test_preset_table_gives_the_presets_specs():
    rows = re.findall(r"^\| `(\w+)\(.*\)` \| `(\S+)` \|", CHOOSE, re.MULTILINE)
    assert {name for name, _ in rows} == {
        name
        for cls in tfc.Compression.__mro__
        for name, preset in vars(cls).items()
        if not name.startswith("_") and not isinstance(preset, tfc.Compressor)
    } - {"auto", "sparse", "compact", "smallest"}
    for name, spec in rows:
        assert getattr(tfc.Compression, name)().spec == spec.replace("\\|", "|")


def test_the_first_sentence_is_true_of_the_measurements():
    said = re.search(
        r"moves (\d+) to (\d+) times fewer bytes .*: (\d+) .* \(`int4`\), (\d+) .* \(`sparse`", README
    )
    rows = re.findall(r"^\| `(\w+)` \| [\d.]+ \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|", README, re.MULTILINE)
    ratios = {}
    for name, plain, wire, ratio in rows:
        ratios[name] = float(ratio)
        assert ratios[name] == pytest.approx(
            int(plain.replace(",", "")) / int(wire.replace(",", "")), abs=0.05
        )
    assert ratios["none"] == 1 and len(ratios) > 4
    assert tuple(map(int, said.groups())) == (round(ratios["int4"]), round(ratios["sparse"])) * 2


def test_its_choice_has_the_measured_numbers():
    section = README[README.index("## Presets") : README.index("## Codecs")]
    said = dict(re.findall(r"^\| .* \| `(\w+)\(\).*?\| (.*) \|$", section, re.MULTILINE))
    adam, momentum = result_rows("no_loss_mlp_adam"), result_rows("no_loss_mlp_momentum")["sparse"]
    assert said["int8"].startswith(f"{adam['int8']['ratio']:.1f} and {adam['int4']['ratio']:.1f} times")
    assert adam["sparse"]["difference"] > 0 and round(adam["sparse"]["ratio"]) == round(momentum["ratio"])
    behind = f"{-100 * momentum['difference']:.2f} points behind under SGD"
    assert said["sparse"].startswith(f"{momentum['ratio']:.0f} times fewer: ahead under Adam, {behind}")
    name = "sparse(index='rowcol',value='ecsq:snr=15')"
    compact, momentum = adam[name], result_rows("no_loss_mlp_momentum")[name]
    fewer = f"{compact['ratio']:.0f} to {result_rows('no_loss_mlp_momentum_long')[name]['ratio']:.0f} times"
    behind = f"{-100 * momentum['difference']:.2f} points behind under SGD"
    assert said["compact"] == f"{fewer} fewer: ahead under Adam, {behind}" and compact["difference"] > 0
    large = result_rows("time_to_accuracy_large_mlp")
    assert f"{100 * (large['none']['final'] - large['sparse']['final']):.2f} behind" in said["sparse"]
    smallest = result_rows("convergence_fashion_adam")["smallest(warmup_steps=468)"]
    behind = f"{-100 * smallest['difference']:.1f} points behind"
    assert said["smallest"] == f"{smallest['ratio']:.0f} times fewer, {behind}"
    ncf = result_rows("convergence_ncf_rows")["int4"]
    behind = f"{-100 * ncf['difference']:.2f} points of HR@10 behind, less than seeds differ"
    assert said["int4"].startswith(f"NeuMF: [{ncf['ratio']:.1f} times fewer than rows as they are](")
    assert said["int4"].endswith(behind) and ncf["highest"] - ncf["lowest"] > -ncf["difference"]


def test_what_it_says_of_its_measurements_is_in_them():
    second = result_rows("convergence_large_mlp")["sparse"]
    assert f"with a second seed [{-100 * second['difference']:.2f}]" in README
    lower = json.loads((ROOT / "docs" / "results" / "time_to_accuracy_large_mlp_rate.json").read_text())
    faster = {(row["compression"], row["bandwidth"]): f"{row['faster']:.1f}" for row in lower["rows"]}
    slow, fast = ([faster[name, link] for name in ("sparse", "int4")] for link in ("100mbit", "1gbit"))
    said = f"`sparse` arrives there at 100 Mbit/s in {slow[0]} times less time, `int4` in {slow[1]}, "
    assert said + f"and at 1 Gbit/s in {' and '.join(fast)}" in README
    rows = json.loads((ROOT / "docs" / "results" / "network_mlp.json").read_text())["rows"]
    to_fp16 = {(row["compression"], row["bandwidth"]): row["throughput_to"]["fp16"] for row in rows}
    int8, int4 = (
        [f"{to_fp16[name, link]:.1f}" for link in ("100mbit", "1gbit")] for name in ("int8", "int4")
    )
    said = f"`int8` is {' and '.join(int8)} times as fast as `fp16` at 100 Mbit/s and at 1 Gbit/s, `int4` "
    assert said + f"{' and '.join(int4)} times" in README


def test_recommended_presets_have_the_measured_numbers():
    section = CHOOSE[CHOOSE.index("## By job") : CHOOSE.index("## By the number of ranks")]
    jobs = dict(re.findall(r"^\| ([\w ,]+) \| `(.*?)`", section, re.MULTILINE))
    assert len(jobs) == 7
    for preset in jobs.values():
        tfc.make_compressor(preset)
    mnist, fashion = result_rows("convergence_mnist"), result_rows("convergence_fashion")
    adam = result_rows("convergence_fashion_adam")
    for name, compression in (
        ("smallest", "smallest(warmup_steps=468)"),
        ("uncompressed", "none"),
        ("int4", "int4"),
    ):
        assert f"{100 * adam[compression]['mean']:.2f}" in section, name
    assert f"{adam['smallest(warmup_steps=468)']['ratio']:.0f} times fewer bytes" in section
    momentum, slower = result_rows("no_loss_mlp_momentum"), "sparse(index='rowcol',value='ecsq:snr=15')"
    for name, said in (("sparse", ("points ", " times fewer bytes")), (slower, ("", ""))):
        for row in (adam[name], momentum[name]):
            side = "ahead" if row["difference"] > 0 else "behind"
            points = f"{abs(100 * row['difference']):.2f} {said[0]}{side} at {row['ratio']:.0f}{said[1]}"
            assert points in section
    ncf, linear = result_rows("convergence_ncf"), result_rows("network_linear_models")
    behind = [mnist["dgc(0.01)"], mnist["topk"], fashion["dgc(0.02)"]]
    for row in (*behind, mnist["skcompress"], ncf["skcompress"]):
        assert f"{row['ratio']:.1f} times" in section
    for row in behind:
        assert f"{-100 * row['difference']:.2f} points behind" in section
    assert f"`topk` {-100 * fashion['topk(0.02)']['difference']:.2f}" in section
    assert f"{100 * mnist['skcompress']['difference']:.2f} points ahead" in section
    assert f"{-100 * ncf['skcompress']['difference']:.1f} points of HR@10 behind" in section
    rows = result_rows("convergence_ncf_rows")
    assert f"{rows['int4']['ratio']:.1f} times fewer bytes than rows" in section
    for name in ("int4", "skcompress"):
        assert f"{-100 * rows[name]['difference']:.2f} " in section
    row = linear["skcompress(row_sparsifier='topk:ratio=0.05',row_residual=True)"]
    assert f"{linear['none']['wire']['expected'] / row['wire']['expected']:.1f} times" in section


def test_the_better_value_codec_has_the_numbers_of_the_codecs_page():
    page = (ROOT / "docs" / "codecs.md").read_text()
    for name in ("uniform:bits=8", "quantile"):
        bits, decibels = re.search(
            rf"^\| `{name}` \| ([\d. to]+) \| ([\d to]+) \|$", page, re.MULTILINE
        ).groups()
        assert re.search(
            rf"`{name}` (has )?{bits} bits( a value)? and {decibels} dB", RESULTS.replace("\n", " ")
        )


def test_the_smallest_codecs_have_the_numbers_of_the_page_that_compares_them():
    rows = json.loads((ROOT / "docs" / "results" / "codec_choice.json").read_text())["rows"]
    found = {row["codecs"]: row for row in rows}
    native, fixed = found["rowcol|ecsq:snr=40"], found["delta_adaptive|uniform:bits=8"]
    said = f"{native['bits']:.1f} bits an element for whole frames, where .* {fixed['bits']:.1f}, which"
    assert re.search(rf"{said} are closer: {fixed['snr']:.0f} dB", RESULTS.replace("\n", " "))


def test_numpy_snippet_runs():
    [snippet] = [s for s in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "import numpy" in s]
    output = subprocess.run(
        [sys.executable, "-c", snippet], check=True, capture_output=True, text=True
    ).stdout
    assert "bytes instead of 400000" in output
