"""Gradients of embeddings (IndexedSlices), on Keras 3 and on tf_keras alike."""

import resource

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from stepping import Stepper
from training import topk

import tfcompress as tfc


class TestTables:
    """Gradients of embeddings: IndexedSlices."""

    ROWS, WIDTH = 50_000, 8

    @staticmethod
    def stepper(compressor):
        return Stepper(compressor)

    def steps(self, stepper, count=3):
        """Yields, for each step, the result and the dense mean of the ranks' slices."""
        rng = np.random.default_rng(hvd.rank())
        for _ in range(count):
            ids = rng.integers(0, self.ROWS, 40)
            ids[:3] = 7  # Duplicates, and a row that all ranks touch.
            values = rng.standard_normal((40, self.WIDTH)).astype(np.float32)
            shape = tf.constant([self.ROWS, self.WIDTH])
            slices = tf.IndexedSlices(tf.constant(values), tf.constant(ids), shape)
            [result] = stepper.run([slices], ["embedding"])
            dense = np.zeros((self.ROWS, self.WIDTH), np.float32)
            np.add.at(dense, ids, values)
            yield result, hvd.allreduce(tf.constant(dense), op=hvd.Average).numpy()

    @pytest.mark.parametrize(
        "spec",
        ["topk|delta_binary|raw", "topk|rle|raw", "topk|bloom:policy=p0,fpr=1e-6|raw", "dense|raw|raw"],
    )
    @pytest.mark.ranks
    def test_rows_are_exact_and_stay_rows(self, spec, assert_same_on_all_ranks):
        stepper = self.stepper(tfc.Compressor(spec))
        for result, mean in self.steps(stepper):
            assert isinstance(result, tf.IndexedSlices)
            assert result.values.shape[0] < self.ROWS / 20  # A Bloom filter adds rows.
            np.testing.assert_allclose(tf.convert_to_tensor(result).numpy(), mean, atol=1e-6)
            assert_same_on_all_ranks([result.indices.numpy(), result.values.numpy()])
        total = stepper.state.stats().total
        assert total.payload_bytes < 1.05 * total.dense_bytes and total.elements == 3 * 40 * self.WIDTH

    @pytest.mark.parametrize(
        "spec", ["nonzero|sketchml", "nonzero|skcompress", "topk|delta_adaptive|quantile"]
    )
    def test_lossy_codecs(self, spec, assert_same_on_all_ranks):
        for result, mean in self.steps(self.stepper(tfc.Compressor(spec))):
            dense = tf.convert_to_tensor(result).numpy()
            assert ((dense != 0).any(axis=1) == (mean != 0).any(axis=1)).all()
            assert np.sum(dense * mean) > 0.5 * np.sum(mean * mean)
            assert_same_on_all_ranks([result.indices.numpy(), result.values.numpy()])

    @pytest.mark.parametrize(
        ("compressor", "num_rows"),
        [
            (tfc.Compressor("topk|delta_binary|fp16", row_sparsifier="topk:ratio=0.2", row_residual=True), 8),
            (tfc.Compression.topk(0.1), 4),  # Keeps back rows as it keeps back elements.
        ],
        ids=["spec", "preset"],
    )
    @pytest.mark.ranks
    def test_selected_rows_and_their_residual_conserve_the_sum(self, compressor, num_rows):
        stepper = self.stepper(compressor)
        arrived = given = 0
        for result, mean in self.steps(stepper, 6):
            assert result.values.shape[0] <= num_rows * hvd.size()
            arrived, given = arrived + tf.convert_to_tensor(result).numpy(), given + mean
        [[slot]] = stepper.state.memories.by_name().values()
        pending = hvd.allreduce(slot, op=hvd.Average).numpy()
        np.testing.assert_allclose(arrived + pending, given, atol=1e-4)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("everywhere", [True, False])
    def test_non_finite_rows_leave_every_residual_alone(self, value, everywhere, assert_same_on_all_ranks):
        compressor = tfc.Compressor(
            "topk|delta_binary|raw", row_sparsifier="topk:ratio=0.2", row_residual=True
        )
        stepper = self.stepper(compressor)
        list(self.steps(stepper))
        [[slot]] = stepper.state.memories.by_name().values()
        before = slot.numpy()
        values = np.ones((5, self.WIDTH), np.float32)
        if everywhere or hvd.rank() == 1:
            values[2, 3] = value
        ids = tf.range(100, 105, dtype=tf.int64)
        slices = tf.IndexedSlices(tf.constant(values), ids, tf.constant([self.ROWS, self.WIDTH]))
        [result] = stepper.run([slices], ["embedding"])
        assert np.isnan(result.values.numpy()).any()
        np.testing.assert_array_equal(slot.numpy(), before)
        assert_same_on_all_ranks([result.indices.numpy(), result.values.numpy()])

    def test_a_table_that_all_rows_may_touch_becomes_dense(self):
        stepper = self.stepper(topk())
        ids = tf.range(5)
        slices = tf.IndexedSlices(tf.ones([5, 2]) * (hvd.rank() + 1), ids, tf.constant([10, 2]))
        [result] = stepper.run([slices], ["embedding"])
        assert isinstance(result, tf.Tensor)
        np.testing.assert_allclose(result.numpy()[:5], (hvd.size() + 1) / 2)
        assert not result.numpy()[5:].any()

    def test_a_large_table_costs_its_rows(self):
        """10M x 16 floats would be 640 MB on every rank."""
        stepper = self.stepper(tfc.Compressor("topk|delta_binary|raw"))
        ids = tf.constant(np.random.default_rng(hvd.rank()).integers(0, 10_000_000, 1000))
        slices = tf.IndexedSlices(tf.ones([1000, 16]), ids, tf.constant([10_000_000, 16]))
        before = peak_memory()
        [result] = stepper.run([slices], ["embedding"])
        assert result.values.shape[0] <= 1000 * hvd.size()
        assert peak_memory() - before < 100 * 2**20
        assert stepper.state.stats().total.payload_bytes < 1000 * (16 * 4 + 4) + 1000

    def test_rows_that_a_codec_cannot_take_go_through_another(self):
        with pytest.warns(UserWarning, match="threelc.*sparse_as_dense=True"):
            for result, mean in self.steps(self.stepper(tfc.Compression.threelc(1.375))):
                assert isinstance(result, tf.IndexedSlices)
                np.testing.assert_allclose(tf.convert_to_tensor(result).numpy(), mean, atol=1e-6)

    def test_wrong_arguments(self):
        with pytest.raises(ValueError, match="loses nothing"):
            tfc.Compressor("topk|bloom|raw", row_residual=True)
        with pytest.raises(ValueError, match="row_sparsifier 'best'"):
            tfc.Compressor("topk|raw|raw", row_sparsifier="best")


def peak_memory():
    """Bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
