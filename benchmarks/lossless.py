"""Bits a value of the exact value codecs on real gradients, and of Zstandard.

    python benchmarks/lossless.py --output results

Each variable is compressed alone, with its shape, as in training; of embeddings the rows that were touched,
equal ones added. Value sections are counted: indices cost the same with all codecs. Gradients are taken in
float32, and rounded to bfloat16 and float16, since those of mixed precision are widened to float32.
"""

import pathlib

import numpy as np
import options
import rich.progress
from codec_choice import MIN_ELEMENTS, variables
from comparison import peers, values
from comparison.gradients import find_files, read_dump

import tfcompress as tfc

CODECS = ("lossless", "deflate:shuffle=1")
ZSTD = "zstd-19"
# How values are rounded first.
PRECISIONS = {"float32": "raw", "bfloat16": "bf16", "float16": "fp16"}


def tables(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the values of the touched rows of each table: float32 [rows, width]; [rows] for width 1."""
    _, found = read_dump(path)
    return {name: rows.values.squeeze() for name, rows in found.items() if rows.values.size >= MIN_ELEMENTS}


def num_bytes(array: np.ndarray, sparsifier: str) -> tuple[int, dict[str, int]]:
    """Returns how many values are sent, and the bytes that each method makes of them."""
    index = "raw" if sparsifier == "dense" else "delta_adaptive"
    found = {}
    for codec in CODECS:
        frame = tfc.encode(array, f"{sparsifier}|{index}|{codec}")
        [header] = tfc.inspect(frame)
        found[codec] = header["value_bytes"]
        same = tfc.decode(frame).tobytes() == tfc.decode(tfc.encode(array, f"{sparsifier}|raw|raw")).tobytes()
        if not same:
            raise AssertionError(f"{codec} is not exact")
    zstd = peers.byte_compressor(ZSTD)
    flat = array.ravel()
    sent = flat if sparsifier == "dense" else flat[tfc.codecs.select(sparsifier, flat)]
    return header["k"], {**found, ZSTD: len(values.shuffled(zstd).encode(sent))}


def measure(name: str, arrays: dict[str, np.ndarray], sparsifier: str, precision: str) -> dict:
    """Bits a value of all variables together, and the variables for which others take fewer."""
    num_values, total, beaten = 0, dict.fromkeys((*CODECS, ZSTD), 0), []
    for variable, array in arrays.items():
        rounded = tfc.decode(tfc.encode(array, f"dense|raw|{PRECISIONS[precision]}")).reshape(array.shape)
        count, found = num_bytes(rounded, sparsifier)
        num_values += count
        total = {method: total[method] + found[method] for method in total}
        if min(found.values()) < found["lossless"]:
            bits = {method: 8 * found[method] / count for method in found}
            beaten.append({"variable": variable, "values": count, "bits": bits})
    bits = {method: 8 * total[method] / num_values for method in total}
    return {
        "gradient": name,
        "sent": sparsifier,
        "precision": precision,
        "values": num_values,
        "bits": bits,
        "beaten": beaten,
    }


def main() -> None:
    arguments = options.parse_gradients(__doc__)
    cases = []
    for path in find_files(arguments.gradients):
        name = path.stem
        cases += [(name, variables(path), s) for s in ("dense", f"topk:ratio={arguments.ratio}")]
        cases.append((f"{name}, rows", tables(path), "dense"))
    rows = [
        measure(*case, precision)
        for case in rich.progress.track(cases, "gradients")
        if case[1]
        for precision in PRECISIONS
    ]
    for row in rows:
        bits = "  ".join(f"{method} {number:5.2f}" for method, number in row["bits"].items())
        print(f"{row['gradient']:30} {row['sent']:15} {row['precision']:8} {bits}  {row['beaten'] or ''}")
    options.save({"ratio": arguments.ratio, "rows": rows}, arguments.output, "lossless")


if __name__ == "__main__":
    main()
