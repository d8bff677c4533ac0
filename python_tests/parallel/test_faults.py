"""Ranks that do not fit together, and bytes that are not what was sent, on Keras 3 and on tf_keras alike."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper, break_packets
from training import keras, make_variable, topk

import tfcompress as tfc
from tfcompress import handshake
from tfcompress.checkpoint import state_of


def test_ranks_with_different_versions(monkeypatch):
    if hvd.rank() == 1:
        monkeypatch.setattr(handshake, "__version__", "0.0.9")
    stepper = Stepper(topk())
    with pytest.raises(ValueError, match=r"tfcompress version is .* on rank 0 and '0\.0\.9' on rank 1"):
        stepper.run([tf.zeros([2000])], ["kernel"])


@pytest.mark.ranks
def test_an_aggregator_names_rank_tensor_and_reason(rng, monkeypatch):
    break_packets(monkeypatch, "allgather_packet")
    stepper = Stepper(tfc.Compression.topk(0.1))
    with pytest.raises(tf.errors.DataLossError, match=f"rank {hvd.size() - 1}, tensor 0.*checksum"):
        stepper.run([tf.constant(rng.standard_normal(3000), tf.float32)], ["kernel"])


@pytest.mark.parametrize("as_function", [False, True])
def test_no_variable_and_no_residual_takes_a_step_with_a_broken_packet(
    monkeypatch, rng, as_function, assert_same_on_all_ranks
):
    """The frame of the table before the broken one and the all-reduced gradient are whole."""
    compression = {"plain": tfc.Compression.none, "": topk(0.1)}
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=compression)
    shapes = {"plain": [2000], "first": [2000], "table": [500, 4], "last": [2000]}
    variables = [make_variable(np.ones(shape), name) for name, shape in shapes.items()]
    optimizer.build(variables)

    def step(values):
        plain, first, rows, last = values
        table = tf.IndexedSlices(rows, tf.range(rows.shape[0]), tf.constant([500, 4]))
        optimizer.apply_gradients(zip([plain, first, table, last], variables, strict=True))

    step = tf.function(step, jit_compile=False) if as_function else step

    def gradients():
        return [tf.constant(rng.standard_normal(s), tf.float32) for s in ([2000], [2000], [7, 4], [2000])]

    def state():
        residuals = state_of(optimizer).memories.by_name()
        dense = [slot for name, slots in residuals.items() for slot in slots if name != "table"]
        return [each.numpy() for each in (*variables, *dense)]

    broken = break_packets(monkeypatch, "allgather_packet")
    broken["now"] = False
    step(gradients())
    before = state()
    assert len(before) == 4 + 2 and all(np.ptp(each) > 0 for each in before)
    broken["now"] = True
    reason = f"rank {hvd.size() - 1}, tensor 2.*checksum"
    with pytest.raises(tf.errors.DataLossError, match=reason):
        step(gradients())
    for ours, theirs in zip(state(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    broken["now"] = False
    step(gradients())
    assert (variables[0].numpy() != before[0]).any()
    assert_same_on_all_ranks([variable.numpy() for variable in variables])
