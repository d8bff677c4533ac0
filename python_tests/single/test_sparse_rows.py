"""The example's readers of sparse rows, their generator, and Adam on rows."""

import bz2
import gzip

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

pytest.importorskip("sklearn")
from sparse import csr_npz, labels, rows_dataset
from sparse.lazy_adam import LazyAdam
from sparse.libsvm import LibsvmFile
from sparse.rows import shuffled
from sparse.zipf import ZipfRows

TEXT = b"""-1 1:0.5 3:2
+1 2:1 # a comment

# a comment alone
0 4:-1.5
1
1 1:1 2:1 3:1 4:1
"""
DENSE = np.array([[0.5, 0, 2, 0], [0, 1, 0, 0], [0, 0, 0, -1.5], [0, 0, 0, 0], [1, 1, 1, 1]], np.float32)


@pytest.fixture(params=["", ".gz", ".bz2"])
def path(request, tmp_path):
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[request.param]
    path = tmp_path / f"rows{request.param}"
    path.write_bytes(pack(TEXT))
    return path


def file_of(path, **options):
    return LibsvmFile(path, **{"dimensions": 4, "labels": labels.signs, **options})


def all_rows(blocks):
    blocks = list(blocks)
    rows = np.concatenate([rows.toarray() for rows, _ in blocks])
    return rows, np.concatenate([found for _, found in blocks])


class TestLibsvm:
    @pytest.mark.parametrize("rows_per_block", [1, 2, 100])
    def test_reads_rows_and_labels(self, path, rows_per_block):
        rows, found = all_rows(file_of(path).blocks(rows_per_block))
        np.testing.assert_array_equal(rows, DENSE)
        np.testing.assert_array_equal(found, [-1, 1, -1, 1, 1])

    def test_ranks_share_the_rows(self, path):
        parts = [all_rows(file_of(path).blocks(2, rank, 2))[0] for rank in range(2)]
        np.testing.assert_array_equal(parts[0], DENSE[0::2])
        np.testing.assert_array_equal(parts[1], DENSE[1::2])

    def test_ranks_have_equally_many(self, path):
        parts = [all_rows(file_of(path).blocks(2, rank, 2, equally_many=True))[0] for rank in range(2)]
        np.testing.assert_array_equal(parts[0], DENSE[[0, 2]])
        np.testing.assert_array_equal(parts[1], DENSE[[1, 3]])

    def test_wanted_rows_alone_count(self, path):
        blocks = file_of(path).blocks(2, 1, 2, equally_many=True, wanted=lambda row: row % 4 != 3)
        np.testing.assert_array_equal(all_rows(blocks)[0], DENSE[[1, 4]])

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b"x 1:1", "could not convert"),
            (b"1 2:", "could not convert"),
            (b"1 0:1", "Invalid index 0"),
            (b"1 2:1 1:1", "sorted"),
            (b"1 2:nan", "not a finite"),
            (b"1 5:1", "feature 5 is beyond the 4 dimensions.*--hash"),
            (b"7 1:1", "expected labels.*got 7.*--positive"),
            (b"1 99999999999999999999:1", "too large"),
        ],
    )
    def test_says_which_line_is_malformed(self, tmp_path, line, message):
        path = tmp_path / "rows"
        path.write_bytes(TEXT + line + b"\n1 1:1\n")
        with pytest.raises(ValueError, match=f"line 8: .*{message}"):
            list(file_of(path).blocks(100))

    def test_features_may_count_from_zero(self, tmp_path):
        path = tmp_path / "rows"
        path.write_bytes(b"1 0:1 3:2\n")
        np.testing.assert_array_equal(all_rows(file_of(path, zero_based=True).blocks(1))[0], [[1, 0, 0, 2]])

    def test_hashed_features_are_in_range_and_spread(self, tmp_path):
        path = tmp_path / "rows"
        path.write_bytes(b"1 " + b" ".join(b"%d:1" % (key * 1_000_003) for key in range(1, 2001)) + b"\n")
        [(rows, _)] = file_of(path, dimensions=100_000, hashed=True).blocks(1)
        assert rows.shape == (1, 100_000) and rows.nnz == 2000
        # 2,000 balls in 100,000 boxes: about 20 meet another one.
        assert len(np.unique(rows.indices)) > 1940
        assert len(np.unique(rows.indices // 1000)) == 100


class TestLabels:
    def test_one_against_rest(self):
        assert labels.one_against_rest(np.array([0, 1, 2, 3]), [1, 3]).tolist() == [-1, 1, -1, 1]

    def test_first_half(self):
        assert labels.first_half(np.array([3, 0, 1, 2, 2])) == [0, 1]


class TestCsrNpz:
    @pytest.fixture
    def arrays(self):
        matrix = scipy.sparse.csr_matrix(DENSE)
        part = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "y": np.arange(5)}
        return {"n_features": 4, **{f"train_{name}": array for name, array in part.items()}}

    def test_rows_become_unit_vectors(self, tmp_path, arrays):
        np.savez(tmp_path / "set.npz", **arrays)
        rows, found = csr_npz.read_part(tmp_path / "set.npz", "train")
        norms = np.linalg.norm(DENSE, axis=1, keepdims=True)
        np.testing.assert_allclose(rows.toarray() * norms, DENSE, rtol=1e-6)
        assert found.tolist() == [0, 1, 2, 3, 4]

    def test_says_what_is_missing(self, tmp_path, arrays):
        np.savez(tmp_path / "set.npz", **arrays)
        with pytest.raises(ValueError, match="test_data"):
            csr_npz.read_part(tmp_path / "set.npz", "test")

    def test_says_that_it_is_no_matrix(self, tmp_path, arrays):
        np.savez(tmp_path / "set.npz", **{**arrays, "train_indices": arrays["train_indices"] + 2})
        with pytest.raises(ValueError, match="not a valid CSR matrix"):
            csr_npz.read_part(tmp_path / "set.npz", "train")

    def test_an_archive_is_split_again_without_losing_rows(self):
        rows = [np.diag(np.arange(first, first + 5.0, dtype=np.float32)) for first in (1, 6)]
        parts = tuple((scipy.sparse.csr_matrix(each), each.diagonal()) for each in rows)
        (train, train_labels), (test, test_labels) = csr_npz.split_again(parts, 0.3, seed=1)
        assert (train.shape, test.shape) == ((7, 5), (3, 5))
        assert sorted([*train_labels, *test_labels]) == [*range(1, 11)]
        for found, wanted in ((train, train_labels), (test, test_labels)):
            np.testing.assert_array_equal(found.max(axis=1).toarray()[:, 0], wanted)
        assert set(test_labels) != set(csr_npz.split_again(parts, 0.3, seed=2)[1][1])
        with pytest.raises(ValueError, match="in .0, 1., got 1"):
            csr_npz.split_again(parts, 1, seed=1)


class TestBatches:
    def test_hold_the_rows(self):
        found = np.arange(5, dtype=np.float32)
        data = rows_dataset(lambda: iter([(scipy.sparse.csr_matrix(DENSE), found)]), 2, drop_remainder=False)
        rows = np.zeros_like(DENSE)
        sizes = []
        for (features, keys), numbers in data:
            assert len(np.unique(keys)) == len(keys) == features.shape[1]
            dense = tf.sparse.to_dense(tf.sparse.reorder(features)).numpy()
            for row, number in zip(dense, numbers.numpy().astype(int), strict=True):
                rows[number, keys.numpy()] = row
            sizes.append(len(numbers))
        np.testing.assert_array_equal(rows, DENSE)
        assert sizes == [2, 2, 1]

    def test_leave_out_smaller_ones(self):
        block = scipy.sparse.csr_matrix(DENSE), np.zeros(5, np.float32)
        data = rows_dataset(lambda: iter([block, block]), 2, drop_remainder=True)
        assert [len(found) for _, found in data] == [2, 2, 2, 2]

    def test_shuffling_keeps_rows_and_labels_together(self):
        block = scipy.sparse.csr_matrix(np.diag(np.arange(1, 100, dtype=np.float32))), np.arange(1, 100)
        [(rows, found)] = shuffled([block], np.random.default_rng(0))
        assert rows.data.tolist() == found.tolist() != block[1].tolist()


class TestZipf:
    def test_the_seed_determines_rows(self):
        one, other = (ZipfRows(1000, 5, 7, classes=True).draw(50, [1, 2]) for _ in range(2))
        assert (one[0] != other[0]).nnz == 0 and (one[1] == other[1]).all()
        assert (one[0] != ZipfRows(1000, 5, 7, classes=True).draw(50, [1, 3])[0]).nnz > 0

    def test_statistics(self):
        rows, found = ZipfRows(1_000_000, 30, 1, classes=True).draw(20_000, 2)
        lengths = np.diff(rows.indptr)
        assert lengths.min() >= 1 and abs(lengths.mean() - 30) < 0.2
        # With mean 30 of a row, features of the law's first rank are in 30 * 0.0177 of the rows.
        counts = np.sort(np.bincount(rows.indices))[::-1]
        assert 0.8 < counts[0] / (20_000 * 30 * 0.0177) < 1.2
        slope = np.polyfit(np.log(np.arange(100, 3000) + 12), np.log(counts[100:3000]), 1)[0]
        assert abs(slope + 1.2) < 0.05
        assert set(found) == {-1.0, 1.0}

    def test_the_planted_model_explains_numbers_but_for_the_noise(self):
        generator = ZipfRows(1000, 30, 1, classes=False)
        rows, found = generator.draw(20_000, 2)
        solution = scipy.sparse.linalg.lsqr(rows, found)[0]
        assert abs(np.std(found - rows @ solution) - 1) < 0.05 < np.std(found)

    @pytest.mark.parametrize(("dimensions", "nonzeros"), [(0, 30), (2**31, 30), (1000, 0.5)])
    def test_refuses(self, dimensions, nonzeros):
        with pytest.raises(ValueError, match="got"):
            ZipfRows(dimensions, nonzeros, 0, classes=True)


class TestLazyAdam:
    def steps(self, optimizer, gradients, shape=(6, 2)):
        variable = keras.Variable(np.ones(shape, np.float32))
        for gradient in gradients:
            optimizer.apply([gradient], [variable])
        return variable.numpy()

    @pytest.mark.parametrize("amsgrad", [False, True])
    def test_is_adam_where_all_rows_are_touched(self, amsgrad):
        rng = np.random.default_rng(0)
        values = [rng.standard_normal((6, 2)).astype(np.float32) / step for step in range(1, 6)]
        order = rng.permutation(6)
        sparse = [tf.IndexedSlices(each[order], order, [6, 2]) for each in values]
        adam = keras.optimizers.Adam(0.1, amsgrad=amsgrad)
        expected = self.steps(adam, [tf.constant(each) for each in values])
        np.testing.assert_allclose(self.steps(LazyAdam(0.1, amsgrad=amsgrad), sparse), expected, rtol=1e-5)

    def test_dense_gradients_get_adam(self):
        gradients = [tf.fill([6, 2], 0.5 * step) for step in range(1, 4)]
        expected = self.steps(keras.optimizers.Adam(0.1), gradients)
        np.testing.assert_array_equal(self.steps(LazyAdam(0.1), gradients), expected)

    def test_slices_of_a_row_are_summed(self):
        twice = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, -1.0]]), [4, 4], [6, 2])
        once = tf.IndexedSlices(tf.constant([[4.0, 1.0]]), [4], [6, 2])
        np.testing.assert_array_equal(
            self.steps(LazyAdam(0.1), [twice] * 2), self.steps(LazyAdam(0.1), [once] * 2)
        )

    def test_other_rows_stay(self):
        first = tf.IndexedSlices(tf.ones([1, 2]), [0], [6, 2])
        second = tf.IndexedSlices(tf.ones([1, 2]), [5], [6, 2])
        once = self.steps(LazyAdam(0.1), [first])
        both = self.steps(LazyAdam(0.1), [first, second])
        assert (both[0] == once[0]).all() and (both[5] < 1).all() and (both[1:5] == 1).all()

    def tensors_as_large_as_the_table(self, optimizer):
        variable = keras.Variable(np.zeros(1000, np.float32))
        optimizer.build([variable])

        def step(rows):
            optimizer.apply([tf.IndexedSlices(tf.ones([3]), rows, [1000])], [variable])

        graph = tf.function(step).get_concrete_function(tf.TensorSpec([3], tf.int64)).graph
        outputs = [tensor for op in graph.get_operations() for tensor in op.outputs]
        return [tensor for tensor in outputs if tensor.shape.rank and tensor.shape[0] == 1000]

    def test_no_tensor_is_as_large_as_the_table(self):
        assert self.tensors_as_large_as_the_table(keras.optimizers.Adam(0.1))
        assert not self.tensors_as_large_as_the_table(LazyAdam(0.1))

    def test_takes_its_own_configuration(self):
        copy = LazyAdam.from_config(LazyAdam(0.3, beta_1=0.5, epsilon=1e-8).get_config())
        assert copy.beta_1 == 0.5 and copy.epsilon == 1e-8

    @pytest.mark.parametrize("option", [{"use_ema": True}, {"weight_decay": 0.1}, {"clipnorm": 1.0}])
    def test_refuses_what_needs_all_rows(self, option):
        with pytest.raises(ValueError, match="at every step"):
            LazyAdam(0.1, **option)
