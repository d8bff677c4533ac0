"""Loads what training needs, and prints what it found of each: one JSON a line.

`tfcompress.diagnosis` runs it in a process of its own, because what is broken may end the process.
"""

import json
from collections.abc import Callable
from importlib import import_module


def main() -> None:
    """Loads one part after the other."""
    for name, load in PARTS.items():
        print(json.dumps({"name": name, **outcome_of(load)}), flush=True)


def outcome_of(load: Callable[[], str]) -> dict[str, str]:
    """Returns what was found, or an `error` and, where a module is not installed, its name as `missing`."""
    try:
        return {"found": load()}
    except ModuleNotFoundError as error:
        return {"error": str(error), "missing": error.name or ""}
    except Exception as error:  # Whatever a broken installation raises is what is to be told.
        return {"error": f"{type(error).__name__}: {error}"}


def tensorflow() -> str:
    """Returns the version of TensorFlow."""
    import tensorflow

    return tensorflow.__version__


def keras() -> str:
    """Returns the version of Keras, which TensorFlow brings."""
    return import_module("keras").__version__


def op_library() -> str:
    """Loads the op library and encodes a gradient with it."""
    import tensorflow as tf

    from tfcompress import ops

    frame, *_ = ops.encode(tf.ones([16]), [], tf.constant(0, tf.int64), "dense|raw|raw")
    return f"encodes, {frame.shape[0]} bytes"


def horovod() -> str:
    """Returns the version of Horovod, and what it was built with."""
    version = import_module("horovod").__version__

    from tfcompress import comm

    built = comm.horovod()
    features = [name for name in ("gloo", "mpi", "nccl") if getattr(built, f"{name}_built")()]
    return f"{version} with {', '.join(features)}"


PARTS = {"TensorFlow": tensorflow, "Keras": keras, "op library": op_library, "Horovod": horovod}

if __name__ == "__main__":
    main()
