"""Language models that predict a text byte by byte: an LSTM and a small transformer (Sketched-SGD 5.3).

    horovodrun -np 2 python examples/text_lm.py --compression none topk
    horovodrun -np 2 python examples/text_lm.py --model transformer --data-dir tinyshakespeare.txt.gz

--data-dir is a text, .txt or gzipped, or a folder of such, read in the order of their names. Without it the
text is Python's language manual, about half a megabyte, which differs between versions of Python.

The first nine tenths are for training, the rest is for the test; both are cut into windows of --context
bytes. The metrics are bits per character of the test, and the perplexity per character, two to that power.
Characters are those of UTF-8, so that scripts with several bytes per character are comparable.

The gradient of the embedding is sparse, with a row for each byte of the batch. Compressors merge the rows of
equal bytes; without a compressor Horovod gathers all rows, which is more than the whole small table.
"""

import argparse
import gzip
import math
import os
import pathlib
import pydoc_data.topics
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import keras
import language_models
import numpy as np
import workload

import tfcompress as tfc

MODELS = {"lstm": language_models.lstm, "transformer": language_models.transformer}
SUFFIXES = (".txt", ".gz")
TRAIN_SHARE = 0.9


def parse_arguments() -> argparse.Namespace:
    parser = workload.make_parser(__doc__, epochs=4, batch_size=16, learning_rate=2e-3)
    parser.add_argument("--model", choices=MODELS, default="lstm", help="default: %(default)s")
    parser.add_argument("--context", type=int, default=128, help="bytes of a window (default %(default)s)")
    parser.add_argument("--width", type=int, default=128, help="units of a layer (default %(default)s)")
    parser.add_argument("--layers", type=int, help="default: 1 of an LSTM, 4 of a transformer")
    arguments = parser.parse_args()
    if arguments.layers is None:
        arguments.layers = {"lstm": 1, "transformer": 4}[arguments.model]
    return arguments


def read_text(path: pathlib.Path | None) -> bytes:
    """Returns a text, the texts of a folder, or without a path the manual that comes with Python.

    Raises:
      ValueError: There is no text.
    """
    if path is None:
        return "\n".join(pydoc_data.topics.topics.values()).encode()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    texts = [file for file in files if file.suffix in SUFFIXES and file.is_file()]
    if not texts:
        raise ValueError(
            f"--data-dir {path} is not a text, or a folder of texts: expected {' or '.join(SUFFIXES)}"
        )
    return b"\n".join(
        gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in texts
    )


def windows(text: bytes, context: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuts a text: uint8 [m, context] windows that do not overlap, and the byte that follows each byte."""
    data = np.frombuffer(text, np.uint8)
    num_windows = (len(data) - 1) // context
    end = num_windows * context
    return data[:end].reshape(-1, context), data[1 : end + 1].reshape(-1, context)


def split(text: bytes, context: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns the windows to train with and to test with.

    Raises:
      ValueError: There are fewer test windows than ranks.
    """
    end = int(TRAIN_SHARE * len(text))
    train, test = windows(text[:end], context), windows(text[end:], context)
    if len(test[0]) < hvd.size():
        raise ValueError(
            f"a text of {len(text)} bytes has {len(test[0])} test windows for {hvd.size()} ranks: "
            "take a longer text or a smaller --context"
        )
    return train, test


def num_characters(data: np.ndarray) -> int:
    """Counts the bytes that begin a character in UTF-8."""
    return int((data & 0xC0 != 0x80).sum())


def make_task(arguments: argparse.Namespace, compressor: tfc.Compressor) -> workload.Task:
    try:
        train, test = split(read_text(arguments.data_dir), arguments.context)
        model = MODELS[arguments.model](arguments.context, arguments.width, arguments.layers)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise SystemExit(f"text_lm.py: {error}") from error
    inputs, targets = (workload.share(array) for array in test)

    def evaluate(model: keras.Model) -> dict[str, tuple[float, float]]:
        nats_per_byte = model.evaluate(inputs, targets, arguments.batch_size, verbose=0)
        bits = nats_per_byte * targets.size / math.log(2)
        means = workload.mean_over_ranks({"bits_per_character": (bits, num_characters(targets))})
        bits_per_character = means["bits_per_character"]
        return {"bits_per_character": (bits_per_character, 1), "perplexity": (2**bits_per_character, 1)}

    return workload.Task(
        model=model,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        make_optimizer=workload.adam(),
        train=workload.batches(train, arguments),
        evaluate=evaluate,
    )


if __name__ == "__main__":
    workload.run(parse_arguments(), make_task)
