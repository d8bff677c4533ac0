"""Neural collaborative filtering (NeuMF) on MovieLens, as DeepReduce's Table 1: HR@10 and NDCG@10.

    horovodrun -np 2 python examples/ncf.py --compression none skcompress
    horovodrun -np 2 python examples/ncf.py --data-dir FOLDER --batch-size 2048 --learning-rate 0.002

FOLDER has the files of the NCF paper (ml-1m.train.rating and ml-1m.test.negative, or pinterest-20's) or
MovieLens's ratings.csv, gzipped or not. Without it the interactions are synthetic. One item of each user is
held out of training; the model has to rank it above 99 others that the user did not take. Items with an equal
score rank before it: a model that gives all items the same score gets 0.

Gradients of embeddings are sent as sparse rows: index codecs code row numbers. DeepReduce applies its codecs
to dense tensors with about 40 % zeros; with a batch of 6,144 on each rank, MovieLens-1M has as many. Its
Table 2 is then

    --dense-tables --batch-size 6144 --compression none
        "nonzero|bloom:policy=p0,fpr=0.6|qsgd:bits=7,bucket=512"
        "nonzero|bloom:policy=p2,fpr=0.01|poly:degree=5"
        "nonzero|delta_adaptive|quantile:buckets=128"    (SKCompress without signs, groups and sketch)
"""

import argparse
import functools
import itertools
import os
import pathlib
from collections.abc import Iterable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import interactions
import keras
import movielens
import numpy as np
import tensorflow as tf
import workload
from interactions import Interactions
from neumf import FACTORS, TOWER, neumf

import tfcompress as tfc

TOP = 10
PREDICTION_BATCH = 16_384


def parse_arguments() -> argparse.Namespace:
    parser = workload.make_parser(__doc__, epochs=10, batch_size=256, learning_rate=1e-3)
    parser.add_argument(
        "--factors", type=int, default=FACTORS, help="columns of GMF's tables (default %(default)s)"
    )
    parser.add_argument(
        "--tower",
        type=int,
        nargs="+",
        default=TOWER,
        metavar="WIDTH",
        help=f"widths of the MLP: both embeddings, each layer (default {' '.join(map(str, TOWER))})",
    )
    parser.add_argument(
        "--negatives",
        type=int,
        default=4,
        help="negative items for each item taken, drawn anew in each epoch (default %(default)s)",
    )
    parser.add_argument(
        "--dense-tables", action="store_true", help="exchange gradients of embeddings as dense tensors"
    )
    return parser.parse_args()


@functools.cache
def load(folder: pathlib.Path | None, seed: int) -> Interactions:
    """Returns the interactions, read once for all runs."""
    if folder is None:
        return interactions.synthetic()
    try:
        return movielens.load(folder, seed)
    except (FileNotFoundError, ValueError) as error:
        raise SystemExit(f"--data-dir: {error}") from error


def training_batches(data: Interactions, arguments: argparse.Namespace) -> tf.data.Dataset:
    """Returns this rank's batches: its share of the items taken, and negatives for each of them.

    All ranks have equally many batches: a rank with one more would wait forever.
    """
    num_mine = len(data.users) // hvd.size()
    users, items = (workload.share(each)[:num_mine] for each in (data.users, data.items))
    taken = interactions.Pairs(data.users, data.items, data.num_items)
    taken.check_that_others_remain(1)
    for_each = 1 + arguments.negatives
    num_samples, batch_size = num_mine * for_each, arguments.batch_size
    num_steps = num_samples // batch_size
    if not num_steps:
        raise SystemExit(
            f"--batch-size {batch_size} exceeds the {num_samples} samples that a rank has in an epoch: "
            "take a smaller one"
        )
    epochs = itertools.count()

    def epoch() -> Iterable[tuple[dict[str, np.ndarray], np.ndarray]]:
        rng = np.random.default_rng([arguments.seed, hvd.rank(), next(epochs)])
        order = rng.permutation(np.arange(num_samples, dtype=np.int32))
        for batch in np.split(order[: num_steps * batch_size], num_steps):
            which, kind = np.divmod(batch, for_each)
            batch_users, batch_items, is_negative = users[which], items[which], kind > 0
            batch_items[is_negative] = interactions.draw(batch_users[is_negative], taken, data.num_items, rng)
            labels = np.float32(~is_negative)[:, np.newaxis]
            yield {"user": batch_users, "item": batch_items}, labels

    numbers = tf.TensorSpec([batch_size], tf.int32)
    signature = ({"user": numbers, "item": numbers}, tf.TensorSpec([batch_size, 1], tf.float32))
    batches = tf.data.Dataset.from_generator(epoch, output_signature=signature)
    return batches.apply(tf.data.experimental.assert_cardinality(num_steps)).prefetch(tf.data.AUTOTUNE)


def ranking_sums(scores: np.ndarray) -> dict[str, tuple[float, float]]:
    """Returns the sums of the metrics over users, and the number of users.

    Args:
      scores: Scores of the held-out item, then of the others: [users, items].
    """
    # Ties and NaN count as ranked above the held-out item.
    places = np.count_nonzero(~(scores[:, 1:] < scores[:, :1]), axis=1)
    hits = places < TOP
    gains = hits / np.log2(places + 2)
    return {f"hr@{TOP}": (hits.sum(), len(scores)), f"ndcg@{TOP}": (gains.sum(), len(scores))}


def make_task(arguments: argparse.Namespace, compressor: tfc.Compressor) -> workload.Task:
    data = load(arguments.data_dir, arguments.seed)
    try:
        model = neumf(data.num_users, data.num_items, arguments.factors, arguments.tower)
    except ValueError as error:
        raise SystemExit(f"--tower: {error}") from error
    asked, choices = (workload.share(each) for each in (data.test_users, data.test_items))
    questions = {"user": np.repeat(asked, choices.shape[1]), "item": choices.ravel()}

    def evaluate(model: keras.Model) -> dict[str, tuple[float, float]]:
        scores = model.predict(questions, batch_size=PREDICTION_BATCH, verbose=0)
        return ranking_sums(scores.reshape(choices.shape))

    return workload.Task(
        model=model,
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        make_optimizer=workload.adam(),
        train=training_batches(data, arguments),
        evaluate=evaluate,
        dense_tables=arguments.dense_tables,
    )


if __name__ == "__main__":
    workload.run(parse_arguments(), make_task)
