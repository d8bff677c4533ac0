"""Trains with the exchange on a GPU, and compares every bit of the weights with the exchange on the CPU.

    pip install "tensorflow[and-cuda]" scikit-learn     # then Horovod and tfcompress: docs/get_started.md
    horovodrun -np 2 --gloo python scripts/gpu_training.py

The demo's digits under each compressor, twice. A process alone sends nothing, and so tells less. Gradients
are computed on the CPU both times, since the arithmetic of GPUs rounds differently; memories, codecs and sums
are on the device that is compared. Each process takes a GPU of its own, or they share those that there are.
The exit status is 1 if a bit differs.
"""

import argparse
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import keras
import numpy as np
import sklearn.datasets
import tensorflow as tf

import tfcompress as tfc

CPU = "CPU:0"
# Each route, each kind of codec with a variant for GPUs, and one without.
COMPRESSORS = (
    "topk(0.05)",
    "dgc(0.05)",
    "topk(0.05,index='bloom',value='dexp')",
    "sketchml",
    "terngrad",
    "qsgd",
    "int8",
    "int4",
    "sparse(warmup_steps=0)",
    "int4(exchange='shard')",
    "sparse(warmup_steps=0,exchange='shard')",
    "sketched_sgd(k=800,columns=1000,candidates=2)",  # The default sketch is larger than the model.
    "shared_randomk(0.05)",
    "powersgd",
    "threelc",
)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compression", nargs="+", default=COMPRESSORS, metavar="PRESET|SPEC")
    parser.add_argument("--steps", type=int, default=30, help="default: %(default)s")
    parser.add_argument("--device", default="GPU:0", help="to compare with the CPU (default: %(default)s)")
    return parser.parse_args()


def choose_device(name: str) -> None:
    """Makes the device visible: of several GPUs this process's own; a second CPU is part of the first.

    Raises:
      SystemExit: TensorFlow sees no GPU.
    """
    if name.startswith("CPU"):
        [cpu] = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        return
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise SystemExit(f"TensorFlow {tf.__version__} sees no GPU here ({tfc.cuda.obstacle()})")
    own = gpus[hvd.local_rank() % len(gpus)]
    tf.config.set_visible_devices([own], "GPU")
    tf.config.experimental.set_memory_growth(own, True)


def train(compression: str, device: str, num_steps: int) -> tuple[list[np.ndarray], float]:
    """Returns the weights after so many steps, and their loss on all digits."""
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    rng = np.random.default_rng(2)
    with tf.device(CPU):
        weights = [
            tf.Variable(rng.normal(0, scale, shape).astype(np.float32))
            for shape, scale in (((64, 256), 0.15), ((256,), 0), ((256, 10), 0.1), ((10,), 0))
        ]
    sgd = keras.optimizers.SGD(0.1)
    optimizer = tfc.DistributedOptimizer(sgd, compression=tfc.make_compressor(compression))
    with tf.device(device):
        optimizer.build(weights)

    def loss_of(inputs: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.relu(inputs @ weights[0] + weights[1])
        logits = hidden @ weights[2] + weights[3]
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits))

    @tf.function
    def step(inputs: tf.Tensor, classes: tf.Tensor) -> None:
        with tf.device(CPU):
            with tf.GradientTape() as tape:
                loss = loss_of(inputs, classes)
            gradients = tape.gradient(loss, weights)
        with tf.device(device):
            optimizer.apply([tf.identity(gradient) for gradient in gradients], weights)

    for own in range(hvd.rank(), num_steps * hvd.size(), hvd.size()):
        batch = np.arange(own * 32, own * 32 + 32) % len(images)
        step(tf.constant(images[batch]), tf.constant(labels[batch], tf.int32))
    with tf.device(CPU):
        loss = loss_of(tf.constant(images), tf.constant(labels, tf.int32))
    return [each.numpy() for each in weights], float(loss)


def main() -> None:
    arguments = parse_arguments()
    hvd.init()
    choose_device(arguments.device)
    different = []
    for compression in arguments.compression:
        (own, loss), (expected, _) = (
            train(compression, device, arguments.steps) for device in (arguments.device, CPU)
        )
        same = all(a.tobytes() == b.tobytes() for a, b in zip(own, expected, strict=True))
        if not same:
            different.append(compression)
        if hvd.rank() == 0:
            print(f"{compression}: loss {loss:.4f}, {'same bits' if same else 'DIFFERENT BITS'}", flush=True)
    if different:
        sys.exit(f"rank {hvd.rank()}: other weights than on the CPU with {', '.join(different)}")


if __name__ == "__main__":
    main()
