"""Linear models on sparse rows, as in SKCompress' Table 2 and section 7.1, with gradients that stay sparse.

    horovodrun -np 2 python examples/linear_models.py --compression none topk skcompress
    horovodrun -np 2 python examples/linear_models.py --data kddb.bz2 --test kddb.t.bz2 --dimensions 29890095
    horovodrun -np 2 python examples/linear_models.py --data-dir FOLDER --data a9a.gz --test a9a.t.gz \
        --dimensions 123 --batch-size 256 --epochs 5 --learning-rate 0.01

FILE is in libsvm's format, plain, .gz, .bz2 or .xz, and is streamed: it may be larger than memory. Or it is
an .npz archive with a training and a test set in CSR form (sparse/csr_npz.py). Without --data, the rows are
synthetic, with features that follow Zipf's law (sparse/zipf.py). Larger batches have denser gradients.

The objective of a batch is that of Table 2, divided by the number of rows: the mean loss, and lambda / 2
times the squared norm of the weights. Only weights whose feature occurs in the batch count in that norm, so
that the gradient has no other rows; frequent features are thus regularised at every step, rare ones seldom.
There is no bias, as in the table.

The gradient is sparse rows of a table: a compressor's codecs are applied to the rows that the batch touches,
but its sparsifier and memory are not. "topk(row_sparsifier='topk:ratio=0.1', row_residual=True)" drops rows.
A model of fewer than 1,024 features is sent uncompressed, except with e.g. "skcompress(min_elements=0)".
"""

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
import workload
from sparse import rows_dataset
from sparse.lazy_adam import LazyAdam
from sparse.sources import DEFAULT_DIMENSIONS, open_source

import tfcompress as tfc

# Losses of rows: functions of labels and scores, float32 [m] each, to float32 [m]. Classes are -1 and 1.
LOSSES = {
    "logistic": lambda labels, scores: tf.math.softplus(-labels * scores),
    "svm": lambda labels, scores: tf.nn.relu(1 - labels * scores),
    "linear": lambda labels, scores: tf.square(labels - scores) / 2,
}
EPSILON = 1e-8  # Epsilon of Adam in section 7.1.


def parse_arguments() -> argparse.Namespace:
    parser = workload.make_parser(__doc__, epochs=3, batch_size=4096, learning_rate=0.1)
    parser.add_argument("--model", choices=LOSSES, default="logistic", help="default: %(default)s")
    parser.add_argument(
        "--amsgrad", action="store_true", help="AMSGrad in place of Adam, as in SKCompress' Figure 18"
    )
    parser.add_argument("--l2", type=float, default=0.01, help="lambda (default %(default)s)")
    data = parser.add_argument_group("data")
    data.add_argument("--data", type=pathlib.Path, metavar="FILE", help="libsvm or .npz (default: synthetic)")
    data.add_argument(
        "--test", type=pathlib.Path, metavar="FILE", help="libsvm (default: every fourth row of the data)"
    )
    data.add_argument(
        "--test-share",
        type=float,
        metavar="SHARE",
        help="share of the rows of an .npz to test with, drawn at random (default: its own test set)",
    )
    data.add_argument(
        "--dimensions", type=int, help=f"number of features (default {DEFAULT_DIMENSIONS:,}; an .npz tells)"
    )
    data.add_argument("--hash", action="store_true", help="hash features into --dimensions")
    data.add_argument("--zero-based", action="store_true", help="the file counts features from 0, not 1")
    data.add_argument(
        "--positive",
        type=float,
        nargs="+",
        metavar="LABEL",
        help="labels of the positive class (default: 1 of -1, 0, 1; of an .npz the first half of all)",
    )
    data.add_argument("--rows", type=int, default=1 << 20, help="synthetic rows (default %(default)s)")
    data.add_argument(
        "--nonzeros", type=float, default=30, help="mean features of a synthetic row (default %(default)s)"
    )
    return parser.parse_args()


class RowLoss(keras.losses.Loss):
    """The mean of one of `LOSSES`."""

    def __init__(self, model: str) -> None:
        super().__init__(name=model, dtype="float32")
        self.call = LOSSES[model]


class LinearModel(keras.Model):
    """A linear model that scores sparse rows."""

    def __init__(self, dimensions: int, l2: float) -> None:
        super().__init__()
        self._dimensions, self._l2 = dimensions, l2

    def build(self, input_shape: object = None) -> None:
        self.weight = self.add_weight(shape=(self._dimensions,), initializer="zeros", name="weight")

    def call(self, inputs: tuple[tf.SparseTensor, tf.Tensor]) -> tf.Tensor:
        """Returns scores, float32 [m], for m rows in the form of `sparse.rows_dataset`."""
        features, keys = inputs
        weights = tf.gather(self.weight.value, keys)
        num_rows = tf.cast(tf.shape(features)[0], tf.float32)
        self.add_loss(self._l2 * tf.nn.l2_loss(weights) / num_rows)
        return tf.sparse.sparse_dense_matmul(features, weights[:, tf.newaxis])[:, 0]


def make_evaluate(arguments: argparse.Namespace, test: tf.data.Dataset) -> object:
    """Returns a function that computes the metrics of a model, without the l2 term."""
    is_classifier = arguments.model != "linear"
    row_losses = LOSSES[arguments.model]

    # Traced once, not at every evaluation.
    @tf.function(reduce_retracing=True)
    def batch_sums(model: LinearModel, inputs: tuple, labels: tf.Tensor) -> tf.Tensor:
        scores = model(inputs)
        hits = tf.cast(labels * scores > 0, tf.float32) if is_classifier else tf.square(labels - scores)
        sums = [tf.reduce_sum(hits), tf.reduce_sum(row_losses(labels, scores))]
        return tf.cast(tf.stack([*sums, tf.cast(tf.size(labels), tf.float32)]), tf.float64)

    def evaluate(model: LinearModel) -> dict[str, tuple[float, float]]:
        each = (batch_sums(model, *batch) for batch in test)
        score, loss, count = sum(each, tf.zeros([3], tf.float64)).numpy()
        name = "test_accuracy" if is_classifier else "test_squared_error"
        return {name: (score, count), "test_loss": (loss, count)}

    return evaluate


def make_task(arguments: argparse.Namespace, compressor: tfc.Compressor) -> workload.Task:
    source = open_source(arguments)
    train = rows_dataset(source.train, arguments.batch_size, drop_remainder=True)
    if source.num_rows is not None:
        num_batches = source.num_rows // arguments.batch_size
        train = train.apply(tf.data.experimental.assert_cardinality(num_batches))
    elif arguments.steps is not None:
        # An epoch has this many steps, even if the file must be read several times for them.
        train = train.repeat()
    test = rows_dataset(source.test, arguments.batch_size, drop_remainder=False)
    model = LinearModel(source.dimensions, arguments.l2)
    model.build()
    return workload.Task(
        model=model,
        loss=RowLoss(arguments.model),
        make_optimizer=workload.adam(LazyAdam, epsilon=EPSILON, amsgrad=arguments.amsgrad),
        train=train,
        evaluate=make_evaluate(arguments, test),
    )


if __name__ == "__main__":
    workload.run(parse_arguments(), make_task)
