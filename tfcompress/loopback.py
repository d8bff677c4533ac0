"""One compressed exchange between the ranks of a job; rank 0 prints what came of it.

    horovodrun -np 2 --gloo python -m tfcompress.loopback

`tfcompress doctor` runs it on two ranks of this machine.
"""

import hashlib
import json
import time

import numpy as np
import tensorflow as tf

from tfcompress.comm import Ranks, horovod
from tfcompress.presets import Compression
from tfcompress.tape import DistributedGradientTape

_NUM_ELEMENTS = 1 << 16
# 8 bits an element round a normal gradient by less.
_LARGEST_ERROR = 0.02


def main() -> None:
    """Exchanges a gradient of random numbers by `int8`.

    Raises:
      SystemExit: The mean is not that of the ranks' gradients, or ranks have different ones.
    """
    horovod().init()
    ranks = Ranks()
    begin = time.perf_counter()
    mean = exchange(ranks).tobytes()
    elapsed = time.perf_counter() - begin
    digests = set(ranks.gather_messages(hashlib.sha256(mean).hexdigest().encode()))
    expected = np.mean([gradient_of(rank) for rank in range(ranks.size())], axis=0)
    error = float(np.linalg.norm(np.frombuffer(mean, np.float32) - expected) / np.linalg.norm(expected))
    if len(digests) > 1 or not error < _LARGEST_ERROR:
        raise SystemExit(
            f"an exchange of {ranks.size()} ranks: expected one result with an error below {_LARGEST_ERROR}, "
            f"found {len(digests)} with {error:.3g}"
        )
    if horovod().rank() == 0:
        print(json.dumps({"ranks": ranks.size(), "error": error, "seconds": elapsed}), flush=True)


def exchange(ranks: Ranks) -> np.ndarray:
    """Returns the mean of all ranks' gradients, by a tape: float32."""
    variable = tf.Variable(tf.zeros([_NUM_ELEMENTS // 256, 256]))
    own = gradient_of(horovod().rank()).reshape(variable.shape)
    with DistributedGradientTape(tf.GradientTape(), compression=Compression.int8()) as tape:
        loss = tf.reduce_sum(variable * own)
    return tape.gradient(loss, [variable])[0].numpy().reshape(-1)


def gradient_of(rank: int) -> np.ndarray:
    """Returns the gradient of a rank, which every rank can make: float32."""
    return np.random.default_rng(rank).standard_normal(_NUM_ELEMENTS).astype(np.float32)


if __name__ == "__main__":
    main()
