"""One rank of `changing_link.py`: trains a multi-layer perceptron while somebody changes the links.

python benchmarks/changing_link_rank.py FOLDER COMPRESSION UNITS STEPS PHASES

After each phase of so many steps rank 0 says so, by a file FOLDER/phase_1 and so on, and goes on. At the end
it writes FOLDER/result.json: the milliseconds of all steps, and each choice of `auto` with the step after
which it was seen.
"""

import json
import pathlib
import sys
import time

import horovod.tensorflow as hvd
import tensorflow as tf

import tfcompress as tfc

BATCH, INPUTS, CLASSES = 32, 784, 10
# What `auto` took is looked up after so many steps: reading it takes a part of a step.
LOOKED_UP_STEPS = 10


def make_step(units: int, optimizer: tf.keras.optimizers.Optimizer) -> tf.types.experimental.GenericFunction:
    """Returns a step of training on random numbers, the same model on all ranks."""
    tf.keras.utils.set_random_seed(0)
    dense = tf.keras.layers.Dense
    model = tf.keras.Sequential([dense(units, "relu"), dense(units, "relu"), dense(CLASSES)])
    model.build([BATCH, INPUTS])
    x = tf.random.normal([BATCH, INPUTS], seed=hvd.rank())
    y = tf.random.uniform([BATCH], 0, CLASSES, tf.int32, seed=hvd.rank())

    @tf.function
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def main() -> None:
    folder, compression, units, steps, phases = sys.argv[1:]
    hvd.init()
    optimizer = tfc.DistributedOptimizer(
        tf.keras.optimizers.SGD(1e-3), compression=tfc.make_compressor(compression)
    )
    step = make_step(int(units), optimizer)
    milliseconds: list[float] = []
    choices: list[tuple[int, str]] = []
    for phase in range(1, int(phases) + 1):
        for _ in range(int(steps)):
            start = time.perf_counter()
            step().numpy()
            milliseconds.append(1e3 * (time.perf_counter() - start))
            if len(milliseconds) % LOOKED_UP_STEPS == 0:
                choice = tfc.stats(optimizer, residual_norms=False).choice
                if choice != (choices[-1][1] if choices else ""):
                    choices.append((len(milliseconds), choice))
        if hvd.rank() == 0:
            pathlib.Path(folder, f"phase_{phase}").touch()
    if hvd.rank() == 0:
        result = {"milliseconds": milliseconds, "choices": choices}
        pathlib.Path(folder, "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
