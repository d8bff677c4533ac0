"""Splits the bytes of encoded gradients into keys and values (as DeepReduce's Figure 10a)."""

import pathlib

import numpy as np

import tfcompress as tfc

# Joint codecs have one section for both.
PARTS = ("keys", "values", "keys and values in one", "headers")
# Gradients by variable: a dense array, or the values, indices and dense shape of sparse rows.
Gradients = dict[str, np.ndarray | tuple[np.ndarray, np.ndarray, tuple[int, ...]]]


def read_gradients(path: pathlib.Path) -> Gradients:
    """Reads the gradients of one step, written by an example's `--dump-gradients`."""
    with np.load(path) as arrays:
        gradients = {name: arrays[name] for name in arrays if ":" not in name}
        for name in (name.removesuffix(":values") for name in arrays if name.endswith(":values")):
            values, indices, shape = (arrays[f"{name}:{part}"] for part in ("values", "indices", "shape"))
            gradients[name] = values, indices, tuple(shape.tolist())
    return gradients


def dense_bytes(gradients: Gradients) -> int:
    """Returns the size of the gradients of one step as dense tensors."""
    shapes = [each[2] if isinstance(each, tuple) else each.shape for each in gradients.values()]
    return 4 * sum(int(np.prod(shape)) for shape in shapes)


def split(gradients: Gradients, compressor: tfc.Compressor) -> dict[str, int]:
    """Encodes the gradients of one step with an empty memory; returns the bytes of each of `PARTS`.

    Args:
      gradients: The result of `read_gradients`.
      compressor: A compressor that makes frames.

    Raises:
      ValueError: The compressor makes no frames.
    """
    if compressor.is_summed:
        raise ValueError(f"'{compressor.spec}' makes no frames: what travels is summed")
    parts = dict.fromkeys(PARTS, 0)
    for name, gradient in gradients.items():
        [frame] = tfc.inspect(_encode(name, gradient, compressor))
        parts["headers"] += frame["header_bytes"]
        parts["keys"] += frame["index_bytes"]
        parts["values" if frame["joint"] is None else "keys and values in one"] += frame["value_bytes"]
    return parts


def _encode(name: str, gradient: np.ndarray | tuple, compressor: tfc.Compressor) -> bytes:
    if not isinstance(gradient, tuple):
        return tfc.encode(gradient, compressor.route(name, gradient.dtype.name, gradient.shape).spec)
    values, indices, shape = gradient
    route = compressor.route(name, values.dtype.name, shape, is_table=True)
    sizes = (shape[0], int(np.prod(shape[1:])))
    return tfc.codecs.encode_rows(
        values.reshape(-1), "float32", indices, *sizes, route.spec, route.row_sparsifier
    )
