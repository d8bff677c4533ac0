"""A multi-layer perceptron on handwritten digits or clothes.

    horovodrun -np 2 python examples/mnist_mlp.py --compression none topk deepreduce
    horovodrun -np 2 python examples/mnist_mlp.py --data-dir FOLDER

The one of FastSGD's section 4.4:

    horovodrun -np 2 python examples/mnist_mlp.py --data-dir FOLDER --image-size 7 --hidden 100 100 \
        --classes 5 --learning-rate 0.02

FOLDER has the four files of MNIST or of Fashion-MNIST, gzipped or not. Without it the images are the 1,797
small ones that scikit-learn ships.
"""

import argparse
import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import workload
from workload import idx

import tfcompress as tfc

OPTIMIZERS = {"adam": workload.adam, "momentum": workload.sgd}


def parse_arguments() -> argparse.Namespace:
    parser = workload.make_parser(__doc__, epochs=16, batch_size=32, learning_rate=1e-3)
    parser.add_argument(
        "--hidden",
        type=int,
        nargs="+",
        default=[1024, 1024],
        help="units of each hidden layer (default 1024 1024)",
    )
    parser.add_argument(
        "--image-size",
        type=int,
        metavar="PIXELS",
        help="width and height of images, which divides theirs: means of squares (default: theirs)",
    )
    parser.add_argument(
        "--classes", type=int, default=10, help="classes, the first ones (default %(default)s)"
    )
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam", help="default: %(default)s")
    return parser.parse_args()


def load(
    arguments: argparse.Namespace,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns (images, labels) to train with and to test with; images float32 [m, pixels] in [0, 1]."""
    return tuple(
        (shrunk(images, arguments.image_size)[labels < arguments.classes], labels[labels < arguments.classes])
        for images, labels in load_whole(arguments)
    )


def shrunk(images: np.ndarray, size: int | None) -> np.ndarray:
    """Returns square images, float32 [m, pixels], with this width and height.

    Raises:
      SystemExit: The size does not divide that of the images.
    """
    width = math.isqrt(images.shape[1])
    if size is None:
        return images
    if width % size:
        raise SystemExit(f"--image-size {size} does not divide the {width} of the images")
    return images.reshape(-1, size, width // size, size, width // size).mean((2, 4)).reshape(len(images), -1)


def load_whole(
    arguments: argparse.Namespace,
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Returns the same of all classes, with images as they are."""
    if arguments.data_dir:
        parts = [idx.read_part(arguments.data_dir, part) for part in ("train", "t10k")]
        return tuple((x.reshape(len(x), -1).astype("float32") / 255, y.astype("int32")) for x, y in parts)
    import sklearn.datasets
    import sklearn.model_selection

    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = sklearn.model_selection.train_test_split(
        images.astype("float32") / 16, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return (x_train, y_train), (x_test, y_test)


def make_task(arguments: argparse.Namespace, compressor: tfc.Compressor) -> workload.Task:
    train, test = load(arguments)
    layers = [keras.layers.Dense(units, activation="relu") for units in arguments.hidden]
    model = keras.Sequential(
        [keras.Input(train[0].shape[1:]), *layers, keras.layers.Dense(arguments.classes)]
    )
    images, labels = (workload.share(array) for array in test)

    def evaluate(model: keras.Model) -> dict[str, tuple[float, float]]:
        predicted = model.predict(images, batch_size=1024, verbose=0).argmax(axis=1)
        return {"test_accuracy": ((predicted == labels).sum(), len(labels))}

    return workload.Task(
        model=model,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        make_optimizer=OPTIMIZERS[arguments.optimizer](),
        train=workload.batches(train, arguments),
        evaluate=evaluate,
    )


if __name__ == "__main__":
    workload.run(parse_arguments(), make_task)
