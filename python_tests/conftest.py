"""Leaves out what needs Keras 3, where TensorFlow 2.15 brings Keras 2, and collects garbage seldom."""

import gc
import importlib.metadata

# Traced functions are many objects that live long: looking through them again and again took a fifth
# of the time.
gc.set_threshold(100_000, 50, 1000)

_IS_KERAS_2 = importlib.metadata.version("keras").startswith("2.")
_NEED_KERAS_3 = [
    "jobs/test_linear_models.py",
    "jobs/test_ncf.py",
    "jobs/test_network.py",
    "jobs/test_vision_text.py",
    "single/test_cifar10.py",
    "single/test_ncf.py",
    "single/test_sparse_rows.py",
    "single/test_text_lm.py",
]
collect_ignore = _NEED_KERAS_3 if _IS_KERAS_2 else []


def pytest_collection_finish() -> None:
    gc.freeze()  # All modules are imported.


def pytest_report_header() -> str | None:
    return f"left out, because they need Keras 3: {', '.join(_NEED_KERAS_3)}" if _IS_KERAS_2 else None
