"""One rank of `overlap.py`: times steps whose gradients become ready one after another.

python benchmarks/overlap_rank.py OUTPUT MILLISECONDS STEPS COMPRESSION,... NUM_GROUPS...

A gradient is ready so many milliseconds after the one before; until then a thread sleeps. Rank 0 writes
medians of the slowest rank, in milliseconds, as JSON: {compressor: {number of groups: median}}.
"""

import json
import pathlib
import statistics
import sys
import time

import horovod.tensorflow as hvd
import tensorflow as tf

import tfcompress as tfc

NUM_GRADIENTS, SHAPE = 4, (1024, 2048)
# The first steps trace the graph.
WARM_UP_STEPS = 3


class SleepingTape:
    """Stands for a tape, and its backward pass for that of an accelerator: no core computes."""

    def __init__(self, gradients: list[tf.Tensor], seconds: float) -> None:
        self._gradients, self._seconds = gradients, seconds

    def gradient(self, target: tf.Tensor, sources: object, *unused: object) -> list[tf.Tensor]:
        """Returns the gradients, of which the last is ready first, as in a backward pass."""
        ready, token = [], target
        for gradient in reversed(self._gradients):
            # Not stateful: TensorFlow would take the time of nothing before the last of these.
            token = tf.ensure_shape(tf.numpy_function(self._sleep, [token], tf.float32, stateful=False), [])
            ready.append(gradient + token)
        return ready[::-1]

    def _sleep(self, token: float) -> float:
        time.sleep(self._seconds)
        return token


def median_ms(name: str, num_groups: int, seconds: float, num_steps: int) -> float:
    """Returns the median of the steps of the slowest rank."""
    variables = [tf.Variable(tf.zeros(SHAPE), name=f"kernel_{i}") for i in range(NUM_GRADIENTS)]
    tf.random.set_seed(hvd.rank())
    tape = SleepingTape([tf.random.normal(SHAPE) for _ in variables], seconds)
    compression = tfc.make_compressor(name)

    @tf.function
    def step(token: tf.Tensor) -> tf.Tensor:
        reducing = tfc.DistributedGradientTape(tape, compression=compression, num_groups=num_groups)
        return tf.stack([tf.reduce_sum(each) for each in reducing.gradient(token, variables)])

    times = []
    for _ in range(WARM_UP_STEPS + num_steps):
        hvd.allreduce(tf.zeros([]), name="begin")
        start = time.perf_counter()
        step(tf.zeros([])).numpy()
        times.append(time.perf_counter() - start)
    own = tf.constant([1e3 * statistics.median(times[WARM_UP_STEPS:])])
    return float(tf.reduce_max(hvd.allgather(own, name="medians")))


def main() -> None:
    output, milliseconds, num_steps, compression, *groups = sys.argv[1:]
    hvd.init()
    measured = {
        name: {
            number: median_ms(name, int(number), float(milliseconds) / 1e3, int(num_steps))
            for number in groups
        }
        for name in compression.split(",")
    }
    if hvd.rank() == 0:
        pathlib.Path(output).write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
