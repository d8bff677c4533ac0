"""Which compressor a variable gets, and when, on Keras 3 and on tf_keras alike."""

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from training import keras, make_variable, topk

import tfcompress as tfc
from tfcompress.checkpoint import state_of


class TestPolicy:
    @staticmethod
    def frames_of(compression):
        """Bytes a step of a kernel and a bias of 2000 elements each."""
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=compression)
        variables = [make_variable(np.zeros(2000), name) for name in ("kernel", "bias")]
        optimizer.apply_gradients([(tf.random.normal([2000]), variable) for variable in variables])
        return [row.payload_bytes for row in tfc.stats(optimizer).tensors]

    def test_exclusion_by_pattern_and_by_function(self):
        kernel, bias = self.frames_of(tfc.Compression.topk(exclude=["bias"]))
        assert kernel < 400 and bias > 8000
        kernel, bias = self.frames_of(tfc.Compression.topk(exclude=lambda name, shape: "kernel" in name))
        assert kernel > 8000 and bias < 400
        with pytest.raises(ValueError, match="regular expression"):
            tfc.Compression.topk(exclude=["("])

    def test_a_compressor_for_each_pattern(self):
        kernel, bias = self.frames_of(
            {"kernel": tfc.Compression.topk(0.01), "bi.s": tfc.Compression.topk(0.1)}
        )
        assert 100 < kernel < 400 < 800 < bias < 2000
        kernel, bias = self.frames_of({"kernel": tfc.Compression.topk(0.01)})
        assert kernel < 400 and bias == 8000  # Matches nothing: Horovod's all-reduce.
        with pytest.raises(TypeError, match="call it"):
            tfc.DistributedOptimizer(keras.optimizers.SGD(), compression={"kernel": tfc.Compression.topk})

    def test_ranks_with_different_orders_of_variables(self):
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=topk())
        variables = [make_variable(np.zeros(2000), name) for name in ("kernel", "bias")]
        if hvd.rank() == 1:
            variables.reverse()
        with pytest.raises(ValueError, match="gradient 0 is 'kernel.*rank 0 and 'bias.*rank 1"):
            optimizer.apply_gradients([(tf.ones([2000]), variable) for variable in variables])


class TestSchedule:
    STEPS = 6

    def run(self, optimizer, change_at=None, change=None):
        """Bytes sent at each step of one variable, traced once, and the sum of what arrived and waits."""
        variable = make_variable(np.zeros(2000))
        traces = []

        @tf.function
        def step(gradient):
            traces.append(1)
            optimizer.apply_gradients([(gradient, variable)])

        rng = np.random.default_rng(hvd.rank())
        given, sent = np.zeros(2000), [0]
        for number in range(self.STEPS):
            if number == change_at:
                change()
            gradient = rng.standard_normal(2000).astype(np.float32)
            given += gradient
            step(tf.constant(gradient))
            sent.append(tfc.stats(optimizer).total.payload_bytes)
        [[slot]] = state_of(optimizer).memories.by_name().values()
        pending = hvd.allreduce(slot, op=hvd.Average).numpy()
        mean = hvd.allreduce(tf.constant(given), op=hvd.Average).numpy()
        np.testing.assert_allclose(-variable.numpy() + pending, mean, atol=1e-4)
        return np.diff(sent), len(traces)

    def test_ratios_go_down_in_stages(self):
        schedule = tfc.Schedule.of_ratios(topk(0.01), ratios=[1.0, 0.1], steps_each=2)
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=schedule)
        sent, traces = self.run(optimizer)
        # Everything, after a header of 44 bytes, without indices; padded to a multiple of 256.
        assert (sent[:2] == 8192).all()
        assert (sent[2:4] > 800).all() and (sent[2:4] < 1200).all()
        assert (sent[4:] < 200).all()
        assert traces <= 2  # Keras's first trace creates variables.

    def test_changing_the_compression_keeps_the_residual(self):
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=topk(0.1))
        other = topk(0.01)
        sent, traces = self.run(optimizer, change_at=3, change=lambda: tfc.set_compression(optimizer, other))
        assert sent[:3].min() > 800 and sent[3:].max() < 200
        assert tfc.stats(other).total.steps == self.STEPS
        assert traces <= 2

    @pytest.mark.parametrize("change", [{"memory": "none"}, {"min_elements": 10_000}])
    def test_a_change_to_no_memory_loses_nothing(self, change):
        """What waits in the residual is sent: `run` checks the sum."""
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=topk())
        other = tfc.Compression.topk(0.1, **{"min_elements": 64, **change})
        self.run(optimizer, change_at=3, change=lambda: tfc.set_compression(optimizer, other))

    def test_a_change_that_the_memory_cannot_follow_is_refused(self):
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=topk())
        self.run(optimizer)
        with pytest.raises(ValueError, match="memory of another kind"):
            tfc.set_compression(optimizer, tfc.Compression.dgc(0.1, min_elements=64))
        with pytest.raises(ValueError, match="cannot change"):
            tfc.set_compression(optimizer, tfc.Compression.none)

    def test_ranks_must_change_alike(self):
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=topk())
        self.run(optimizer)
        with pytest.raises(ValueError, match="ranks are configured differently"):
            tfc.set_compression(optimizer, topk(0.01 if hvd.rank() == 0 else 0.02))

    def test_wrong_schedules(self):
        with pytest.raises(ValueError, match="at least one step"):
            tfc.Schedule([(0, topk())], then=topk())
        with pytest.raises(ValueError, match="has no ratio"):
            tfc.Schedule.of_ratios(tfc.Compression.threshold(), ratios=[0.5], steps_each=1)
        with pytest.raises(TypeError, match="call it"):
            tfc.Schedule([(1, tfc.Compression.topk)], then=topk())

    def test_memories_of_two_kinds_are_refused_when_the_schedule_is_made(self):
        dgc = tfc.Compression.dgc(0.1, min_elements=64)
        with pytest.raises(ValueError, match="memory of another kind"):
            tfc.Schedule([(1, topk())], then=dgc)

    @pytest.mark.parametrize("order", [["none", "topk"], ["topk", "none"], ["none", "topk", "none"]])
    def test_stages_may_travel_differently(self, order, assert_same_on_all_ranks):
        """Nothing that waits in the residual is lost where an all-reduced stage follows."""
        stages = {
            "none": (tfc.Compression.none, 8000),
            "topk": (topk(0.01), 192),
        }
        *first, last = [stages[name] for name in order]
        schedule = tfc.Schedule([(2, compressor) for compressor, _ in first], then=last[0])
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=schedule)
        sent, traces = self.run(optimizer)
        expected = np.repeat([size for _, size in (*first, last)], 2)
        expected = np.pad(expected, (0, max(0, self.STEPS - expected.size)), "edge")[: self.STEPS]
        assert sent.tolist() == expected.tolist()
        assert traces <= 2

    def test_a_change_that_a_traced_step_cannot_take_up_is_refused(self):
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=tfc.Compression.none)
        optimizer.apply_gradients([(tf.ones([2000]), make_variable(np.zeros(2000)))])
        with pytest.raises(ValueError, match="cannot change"):
            tfc.set_compression(optimizer, tfc.Compression.fp16)

    def test_a_stage_that_the_schedule_had_is_taken_up(self):
        none, sparse = tfc.Compression.none, topk(0.01)
        schedule = tfc.Schedule([(2, none)], then=sparse)
        optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=schedule)
        sent, _ = self.run(optimizer, change_at=4, change=lambda: tfc.set_compression(optimizer, none))
        assert sent.tolist() == [8000, 8000, 192, 192, 8000, 8000]


def test_a_preset_that_compresses_nothing_says_so():
    variable = make_variable(np.zeros(200))
    compression = tfc.Compression.topk(min_elements=1023)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=compression)
    with pytest.warns(UserWarning, match="compresses no gradient of this step"):
        optimizer.apply_gradients([(tf.ones([200]), variable)])
    sketch = tfc.Compression.sketched_sgd(min_elements=0, exclude=(), seed=17, columns=999_983)
    optimizer = tfc.DistributedOptimizer(keras.optimizers.SGD(1.0), compression=sketch)
    with pytest.warns(UserWarning, match="saves nothing on 200 elements"):
        optimizer.apply_gradients([(tf.ones([200]), make_variable(np.zeros(200)))])
