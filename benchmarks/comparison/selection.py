"""Compares selections of the k largest magnitudes, with ascending indices as codecs of keys need them."""

import dataclasses
from collections.abc import Callable

import numpy as np
from measuring import seconds

import tfcompress as tfc
from comparison import peers


@dataclasses.dataclass(frozen=True)
class SelectionMethod:
    """A selection: `prepare` takes the dense float32 vector and k, and returns the call to time."""

    name: str
    package: str
    prepare: Callable[[np.ndarray, int], Callable[[], np.ndarray]]


def methods() -> list[SelectionMethod]:
    found = [
        SelectionMethod("topk", peers.OURS, prepare_ours),
        SelectionMethod("np.argpartition", "numpy", prepare_numpy),
        SelectionMethod("tf.math.top_k", "tensorflow", prepare_tensorflow),
    ]
    return [method for method in found if method.package not in peers.missing()]


def prepare_ours(dense: np.ndarray, k: int) -> Callable[[], np.ndarray]:
    part = f"topk:ratio={k / dense.size}"
    return lambda: tfc.codecs.select(part, dense)


def prepare_numpy(dense: np.ndarray, k: int) -> Callable[[], np.ndarray]:
    return lambda: np.sort(np.argpartition(np.abs(dense), -k)[-k:])


def prepare_tensorflow(dense: np.ndarray, k: int) -> Callable[[], np.ndarray]:
    import tensorflow as tf

    tensor = tf.constant(dense)
    return lambda: tf.sort(tf.math.top_k(tf.abs(tensor), k, sorted=False).indices).numpy()


def use_one_thread() -> None:
    """Makes TensorFlow compute on one thread. To be called before its first operation."""
    if "tensorflow" in peers.missing():
        return
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)


def measure(method: SelectionMethod, dense: np.ndarray, k: int, budget: float) -> dict:
    select = method.prepare(dense, k)
    chosen, took = select(), seconds(select, budget)
    return {
        "k": len(chosen),
        # With ties the indices may differ, but not the magnitudes.
        "smallest": float(np.abs(dense[chosen]).min()),
        "milliseconds": 1e3 * took,
        "m_per_s": dense.size / took / 1e6,
    }
