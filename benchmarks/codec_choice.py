"""Bits against error of all codecs on real gradients: which one to take for a sparse message.

    python benchmarks/codec_choice.py --output results

Each variable is compressed alone, as in training: its largest elements, 1 %, as a frame of its own. Whole
frames are counted, with headers and checksums. The error is that of the sent elements; what is not sent stays
in the residual either way.
"""

import math
import pathlib

import drawing
import numpy as np
import options
import rich.progress
from comparison.gradients import find_files, read_dump

import tfcompress as tfc

MIN_ELEMENTS = 1024  # What presets send whole.
MARKERS = "os^"  # Of lines, ten in a row.
TICKS = (5, 7, 10, 15, 20, 30, 50, 100)
RATIOS = (5, 10, 15, 20, 25, 30, 40, 50, 60)  # Of signal and noise, dB, that ecsq is asked for.
# Points of a line share all but one parameter, or all but the index codec. Together they have all codecs.
LINES = {
    "rowcol|ecsq": [f"rowcol|ecsq:snr={snr}" for snr in RATIOS],
    "delta_adaptive|ecsq": [f"delta_adaptive|ecsq:snr={snr}" for snr in RATIOS],
    "other indices|ecsq": [
        f"{index}|ecsq:snr=25" for index in ("rle", "delta_flag", "delta_binary", "huffman", "raw", "bitmap")
    ],
    "delta_adaptive|qsgd": [f"delta_adaptive|qsgd:bits={bits}" for bits in (2, 4, 8)],
    "delta_adaptive|block_int": [
        f"delta_adaptive|block_int:bits={bits},block=64" for bits in (2, 3, 4, 6, 8)
    ],
    "delta_adaptive|block_int, squares": [
        f"delta_adaptive|block_int:bits={bits},block=64,levels=square" for bits in (3, 4, 6, 8)
    ],
    "delta_adaptive|quantile": [f"delta_adaptive|quantile:buckets={count}" for count in (4, 16, 64, 256)],
    "delta_adaptive|uniform": ["delta_adaptive|uniform:bits=8", "delta_adaptive|uniform:bits=16"],
    "delta_adaptive|logquant": [f"delta_adaptive|logquant:bits={bits}" for bits in (2, 3, 4, 8)],
    "delta_adaptive|bf16": ["delta_adaptive|bf16"],
    "delta_adaptive|fp16": ["delta_adaptive|fp16"],
    "delta_adaptive|sign": ["delta_adaptive|sign"],
    "delta_adaptive|ternary": ["delta_adaptive|ternary"],
    "delta_adaptive|raw": ["delta_adaptive|raw"],
    "delta_adaptive|deflate": ["delta_adaptive|deflate:shuffle=1"],
    "rowcol|block_int": [f"rowcol|block_int:bits={bits},block=64" for bits in (2, 3, 4, 6, 8)],
    "rowcol|uniform": ["rowcol|uniform:bits=8", "rowcol|uniform:bits=16"],
    "rowcol|sign": ["rowcol|sign"],
    "rowcol|fp16": ["rowcol|fp16"],
    "rowcol|lossless": ["rowcol|lossless"],
    "delta_flag|log (FastSGD)": ["delta_flag|log"],
    "delta_adaptive|dexp (DeepReduce)": ["delta_adaptive|dexp"],
    "delta_adaptive|poly (DeepReduce)": ["delta_adaptive|poly"],
    "bloom|qsgd (DeepReduce)": ["bloom:policy=p2|qsgd:bits=8"],
    "delta_adaptive|minmax (SketchML)": ["delta_adaptive|minmax"],
    "sketchml": ["sketchml"],
    "skcompress": ["skcompress"],
    "threelc": ["threelc"],
}


def variables(path: pathlib.Path, min_elements: int = MIN_ELEMENTS) -> dict[str, np.ndarray]:
    """Returns the dense variables of a dump; without another bound, those that training would compress."""
    found, _ = read_dump(path)
    return {name: array for name, array in found.items() if array.size >= min_elements and array.any()}


def measure(gradients: list[dict[str, np.ndarray]], codecs: str, ratio: float) -> dict:
    """Bits an element sent, and the signal-to-noise ratio in dB of what is sent, None if exact; means."""
    sparsifier = f"topk:ratio={ratio}"
    bits, ratios, exact = [], [], True
    for arrays in gradients:
        num_bytes = num_sent = signal = noise = 0
        for array in arrays.values():
            frame = tfc.encode(array, f"{sparsifier}|{codecs}", seed=1)
            sent = tfc.decode(tfc.encode(array, f"{sparsifier}|raw|raw")).astype(np.float64)
            num_bytes += len(frame)
            num_sent += np.count_nonzero(sent)
            signal += np.sum(sent**2)
            noise += np.sum((tfc.decode(frame) - sent) ** 2)
        bits.append(8 * num_bytes / num_sent)
        ratios.append(10 * np.log10(signal / max(noise, 1e-12 * signal)))
        exact = exact and noise == 0
    snr = None if exact else float(np.mean(ratios))
    return {"codecs": codecs, "bits": float(np.mean(bits)), "snr": snr, "of_each": bits}


def decibels(point: dict) -> float:
    """The signal-to-noise ratio of a point, infinite if it is exact."""
    return math.inf if point["snr"] is None else point["snr"]


def front(points: list[dict]) -> list[dict]:
    """The points that no other one beats in bits and error, by ascending bits."""
    best, found = -np.inf, []
    for point in sorted(points, key=lambda each: (each["bits"], -decibels(each))):
        if decibels(point) > best:
            found.append(point)
            best = decibels(point)
    return found


def plot(lines: dict[str, list[dict]], path: pathlib.Path) -> None:
    figure, axes = drawing.subplots(size=(10, 6.5))
    every = [point for points in lines.values() for point in points]
    exact = 15 + max(point["snr"] for point in every if point["snr"] is not None)

    def coordinates(points: list[dict]) -> tuple[list[float], list[float]]:
        return [point["bits"] for point in points], [min(decibels(point), exact) for point in points]

    for i, (name, points) in enumerate(lines.items()):
        axes.plot(*coordinates(points), f"{MARKERS[i // 10]}-", label=name, markersize=4, color=f"C{i % 10}")
    axes.step(
        *coordinates(front(every)), where="post", color="black", alpha=0.25, linewidth=4, label="Pareto front"
    )
    axes.axhline(exact, color="black", linewidth=0.5, linestyle=":")
    axes.annotate("exact", (0.99, exact), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    axes.set(
        xscale="log",
        xlabel="bits an element sent, whole frames",
        ylabel="signal-to-noise ratio of sent elements, dB",
        title="Codecs of the largest 1 % of real gradients: better is up and left",
    )
    axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(fontsize="x-small", loc="outside right upper")
    figure.savefig(path, dpi=150)


def main() -> None:
    arguments = options.parse_gradients(__doc__)
    gradients = [found for path in find_files(arguments.gradients) if (found := variables(path))]
    lines = {
        name: [measure(gradients, codecs, arguments.ratio) for codecs in specs]
        for name, specs in rich.progress.track(LINES.items(), "codecs")
    }
    points = [point for found in lines.values() for point in found]
    best = {point["codecs"] for point in front(points)}
    ordered = sorted(points, key=lambda point: (-decibels(point), point["bits"]))
    rows = [{**point, "front": point["codecs"] in best} for point in ordered]
    for row in rows:
        mark = "*" if row["front"] else " "
        print(f"{row['bits']:7.2f} bits {decibels(row):6.1f} dB {mark} {row['codecs']}")
    options.save(
        {"ratio": arguments.ratio, "gradients": len(gradients), "rows": rows},
        arguments.output,
        "codec_choice",
    )
    plot(lines, arguments.output / "figures" / "codec_choice.png")


if __name__ == "__main__":
    main()
