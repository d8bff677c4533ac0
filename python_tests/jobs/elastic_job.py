"""One rank of the job that test_elastic.py starts: `elastic_job.py FOLDER MODE VICTIM`.

The gradient of the model's weights is the input itself, small integers that depend on the rank's name and
the step alone, and gradients are summed: float32 holds every sum exactly.

The host named VICTIM kills itself in the middle of step 13, with its gradient computed and all others
waiting for it. Commits are after steps 5, 10, ..., so three steps are done again. Where the others can
go on without it, they wait after step 20 until Horovod has told them of a new host.

Modes: `loop`, `fit` and `tape` say who exchanges. In `phases` a tape trains one layer before step 20 and
another tape another layer from then on, so that a new rank has never made the first one. In `shards` and
`rows` the owner of a shard, and of rows of a table, sums them: who owns what changes with the ranks.
"""

import os
import pathlib
import signal
import sys
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import tfcompress as tfc
from tfcompress.checkpoint import state_of
from tfcompress.state import parameter_of
from tfcompress.tape import states_of

FOLDER, MODE, VICTIM = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
NAME = os.environ["HOROVOD_HOSTNAME"]  # Each host has one slot.
# Two shards have something on two ranks, and three on three: a shard is of 1,024 elements at least.
SIZE = 2500 if MODE == "shards" else 40
NUM_STEPS, STEPS_PER_COMMIT, FATAL_STEP, MEETING_STEP = 40, 5, 13, 20
EXCHANGE = "shard" if MODE in ("shards", "rows") else "gather"
COMPRESSION = tfc.Compression.topk(0.1, min_elements=1, exchange=EXCHANGE)
if MODE == "phases":  # Its sums need the same step on all ranks, and say so where it is not.
    COMPRESSION = tfc.Compression.shared_randomk(0.1, min_elements=1)
NUM_PARTS = 2 if MODE == "phases" else 1
IS_OPTIMIZER = MODE not in ("tape", "phases")
keras = tf.keras


def gradient_at(step):
    """float32 [SIZE] of integers; step counts from 0."""
    seed = [step, *NAME.encode()]
    return np.random.default_rng(seed).integers(-100, 100, SIZE).astype(np.float32)


def die_if_due(step):
    if NAME == VICTIM and step + 1 == FATAL_STEP and not (FOLDER / "died").exists():
        (FOLDER / "died").write_text(NAME)
        os.kill(os.getpid(), signal.SIGKILL)
    return np.int64(step)


class InputAsGradient(keras.Model):
    """w -> w . x, whose gradient is x."""

    def __init__(self):
        super().__init__()
        self.parts = [make_part() for _ in range(NUM_PARTS)]

    def call(self, inputs):
        return tf.concat([part(inputs) for part in self.parts], axis=1)


class TableInput(keras.layers.Embedding):
    """The same for w of rows of a table: those whose input is not zero, and no others, have a gradient."""

    def call(self, inputs):
        touched = tf.where(inputs[0] != 0)[:, 0]
        products = super().call(touched)[:, 0] * tf.gather(inputs[0], touched)
        return tf.reduce_sum(products)[tf.newaxis, tf.newaxis]


def make_part():
    """Returns a layer of one weight [SIZE, 1]."""
    return TableInput(SIZE, 1) if MODE == "rows" else keras.layers.Dense(1, use_bias=False)


def loss_of(_, output):
    return tf.reduce_sum(output)


def make_model():
    model = InputAsGradient()
    model(np.zeros([1, SIZE], np.float32))
    # Ranks start from different weights: the state has to make them equal.
    model.set_weights([np.full([SIZE, 1], hvd.rank() + 1.0, np.float32)] * NUM_PARTS)
    optimizer = keras.optimizers.SGD(1.0)
    if IS_OPTIMIZER:
        optimizer = tfc.DistributedOptimizer(optimizer, compression=COMPRESSION, op=hvd.Sum)
    model.compile(optimizer, loss_of, jit_compile=False)
    return model


hvd.init()
first_size = hvd.size()
model = make_model()
done = {}  # The gradient of each step; that of a step done again replaces the first one.
events = []


def part_at(step):
    """The number of the layer that a step trains."""
    return int(NUM_PARTS > 1 and step >= MEETING_STEP)


def residual():
    states = [state_of(model.optimizer)] if IS_OPTIMIZER else states_of(model.variables)
    slots = {name: slot for state in states for name, [slot] in state.memories.by_name().items()}
    names = [parameter_of(variable).name for variable in model.trainable_variables]
    return np.concatenate(
        [slots[name].numpy().ravel() if name in slots else np.zeros(SIZE) for name in names]
    )


def in_its_part(step):
    """The gradient of all weights at a step, float64 [NUM_PARTS * SIZE]."""
    gradient = np.zeros([NUM_PARTS, SIZE])
    gradient[part_at(step)] = done[step]
    return gradient.ravel()


def write(file, state):
    """What this rank has at a commit, and what it did to get there."""
    gradients = [in_its_part(step) for step in done if step < state.step]
    temporary = FOLDER / f"{file}.writing.npz"
    np.savez(
        temporary,
        weights=np.concatenate(model.get_weights()).ravel(),
        residual=residual(),
        gradient_sum=sum(gradients, np.zeros(NUM_PARTS * SIZE)),
        step=state.step,
        rank=hvd.rank(),
        size=hvd.size(),
        events=np.array(events),
    )
    temporary.rename(FOLDER / f"{file}.npz")


def before_commit(state):
    """Called with state.step steps done."""
    write(f"{NAME}.at{state.step}", state)
    if hvd.rank() == 0 and state.step == MEETING_STEP and hvd.size() < first_size:
        (FOLDER / "trained_without").touch()
        deadline = time.monotonic() + 60
        while state._host_messages.empty() and time.monotonic() < deadline:
            time.sleep(0.1)


@tf.function
def train_step(x, step, part):
    step = tf.numpy_function(die_if_due, [step], tf.int64)
    with tf.control_dependencies([step]):
        with tf.GradientTape() as tape:
            loss = loss_of(None, model(x)[:, part])
    if not IS_OPTIMIZER:
        tape = tfc.DistributedGradientTape(tape, compression=COMPRESSION, op=hvd.Sum)
    trained = model.parts[part].trainable_variables
    gradients = tape.gradient(loss, trained)
    model.optimizer.apply_gradients(zip(gradients, trained, strict=True))


def run_loop(state):
    while state.step < NUM_STEPS:
        done[state.step] = gradient_at(state.step)
        x = tf.constant(done[state.step][np.newaxis])
        train_step(x, tf.constant(state.step, tf.int64), part_at(state.step))
        state.step += 1
        if state.step % STEPS_PER_COMMIT == 0:
            before_commit(state)
            state.commit()


class CountSteps(keras.callbacks.Callback):
    def __init__(self, state):
        super().__init__()
        self.state = state

    def on_train_batch_end(self, batch, logs=None):
        self.state.step += 1
        if self.state.step % STEPS_PER_COMMIT == 0:
            before_commit(self.state)


def run_fit(state):
    from horovod.tensorflow.keras.elastic import CommitStateCallback

    def batches():
        for step in range(state.step, NUM_STEPS):
            die_if_due(step)
            done[step] = gradient_at(step)
            yield done[step][np.newaxis], np.zeros([1, 1], np.float32)

    spec = (tf.TensorSpec([1, SIZE], tf.float32), tf.TensorSpec([1, 1], tf.float32))
    data = tf.data.Dataset.from_generator(batches, output_signature=spec)
    if state.step < NUM_STEPS:
        callbacks = [CountSteps(state), CommitStateCallback(state, STEPS_PER_COMMIT)]
        model.fit(data, steps_per_epoch=NUM_STEPS - state.step, verbose=0, callbacks=callbacks)


@hvd.elastic.run
def train(state):
    events.append((state.step, hvd.size()))
    (run_fit if MODE == "fit" else run_loop)(state)
    return "finished"


state = tfc.elastic.KerasState(model, step=0)
assert train(state) == "finished"
write(f"{NAME}.end", state)
