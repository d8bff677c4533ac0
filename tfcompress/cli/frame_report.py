"""Reports headers and sections of frames."""

import pathlib

import numpy as np

import tfcompress as tfc
from tfcompress.cli import console
from tfcompress.measure import entropy_bits

_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def report(path: pathlib.Path, as_json: bool, decoded: bool) -> dict[str, np.ndarray]:
    """Prints a description of the frames of a file; returns their decoded magnitudes, by name.

    Args:
      path: The file.
      as_json: Whether to print JSON.
      decoded: Whether to return the magnitudes; if not, nothing is decoded.

    Raises:
      SystemExit: The file holds no frames, or damaged ones.
    """
    data = path.read_bytes()
    frames = describe(path, data)
    if as_json:
        console.print_json({"file": str(path), "num_bytes": len(data), "frames": frames})
    else:
        _print(path, len(data), frames)
    return _decoded_magnitudes(path, data, frames) if decoded else {}


def describe(path: pathlib.Path, data: bytes) -> list[dict]:
    """Returns `tfc.inspect` of the frames, with sizes per element, None where there are none.

    Raises:
      SystemExit: The data is not frames end to end, or a frame is damaged.
    """
    try:
        frames = tfc.inspect(data)
    except tfc.DataLossError as error:
        raise SystemExit(f"{path}: neither an array nor whole frames: {error}") from error
    if not frames:
        raise SystemExit(f"{path}: has no frame")
    damaged = [str(i) for i, frame in enumerate(frames) if not frame["checksum_ok"]]
    if damaged:
        raise SystemExit(f"{path}: frame {', '.join(damaged)}: damaged, the checksum does not match")
    return [{**frame, **_sizes(frame)} for frame in frames]


def _sizes(frame: dict) -> dict[str, float | None]:
    """Returns the sizes per element of one frame.

    In a frame of sparse rows, indices are row numbers; if it has no rows, the width is unknown.
    """
    k, is_rows = frame["k"], frame["support"] == "rows"
    width = frame["width"] if is_rows else 1
    dense = frame["n"] * width * _ITEM_BYTES[frame["dtype"]] if width else None
    values = k * (width or 0)
    has_index, has_values = frame["index_bytes"] > 0, frame["joint"] is None and values > 0
    sections = frame["index_bytes"] + frame["value_bytes"]
    return {
        "dense_bytes": dense,
        "ratio": dense / frame["num_bytes"] if dense is not None else None,
        "bits_per_index": 8 * frame["index_bytes"] / k if has_index else None,
        "entropy_limit_bits": entropy_bits(frame["n"], k) if k else None,
        "bits_per_value": 8 * frame["value_bytes"] / values if has_values else None,
        "bits_per_element": 8 * sections / values if values else None,
    }


def _print(path: pathlib.Path, num_bytes: int, frames: list[dict]) -> None:
    title = f"{path}: {num_bytes:,} bytes, {len(frames)} frame{'s' if len(frames) > 1 else ''}"
    headings = ("", "codecs", "support", "dtype", "n", "k", "bytes", "ratio")
    table = console.make_table(title, *headings, text=4)
    for i, frame in enumerate(frames):
        table.add_row(
            str(i),
            "|".join(frame[part] for part in ("index", "value", "joint") if frame[part]),
            "none: NaN everywhere" if frame["nonfinite"] else frame["support"],
            frame["dtype"],
            f"{frame['n']:,}" + (f" x {frame['width']:,}" if frame["width"] else ""),
            f"{frame['k']:,}",
            f"{frame['num_bytes']:,}",
            console.number(frame["ratio"], 1),
        )
    console.print_table(table)
    _print_sections(frames)


def _print_sections(frames: list[dict]) -> None:
    sections = ("header\nbytes", "index\nbytes", "value\nbytes")
    bits = ("bits per\nindex", "entropy\nlimit", "bits per\nvalue", "bits per\nelement")
    table = console.make_table("Sections", "", *sections, *bits)
    for i, frame in enumerate(frames):
        keys = ("bits_per_index", "entropy_limit_bits", "bits_per_value", "bits_per_element")
        table.add_row(
            str(i),
            *(f"{frame[part]:,}" for part in ("header_bytes", "index_bytes", "value_bytes")),
            *(console.number(frame[key]) for key in keys),
        )
    console.print_table(table)


def _decoded_magnitudes(path: pathlib.Path, data: bytes, frames: list[dict]) -> dict[str, np.ndarray]:
    if any(frame["support"] == "rows" for frame in frames):
        raise SystemExit(f"{path}: --plot draws frames of whole tensors, not of rows of a table")
    try:
        arrays = tfc.codecs.decode_packet(data)
    except tfc.DataLossError as error:
        raise SystemExit(f"{path}: {error}") from error
    return {f"frame {i}": _magnitudes(*decoded) for i, decoded in enumerate(arrays)}


def _magnitudes(dtype: str, array: np.ndarray) -> np.ndarray:
    if dtype == "float16":
        array = array.view(np.float16).astype(np.float32)
    elif dtype == "bfloat16":
        # bfloat16 is the upper half of float32.
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return np.abs(array[np.isfinite(array)])
