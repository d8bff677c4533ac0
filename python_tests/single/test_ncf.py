"""The data, the model and the metrics of examples/ncf.py."""

import argparse
import gzip

import horovod.tensorflow as hvd
import interactions
import keras
import movielens
import ncf
import numpy as np
import pytest
import tensorflow as tf
from neumf import neumf
from workload.task import Adam

hvd.init()


def pairs_of(users, items):
    return set(zip(users.tolist(), items.tolist(), strict=True))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class TestInteractions:
    """Sets of pairs, what is left out, what is drawn."""

    def test_pairs(self):
        pairs = interactions.Pairs(np.array([0, 0, 3]), np.array([1, 4, 0]), num_items=5)
        users, items = np.arange(4)[:, np.newaxis], np.arange(5)
        assert list(zip(*np.nonzero(pairs.contain(users, items)), strict=True)) == [(0, 1), (0, 4), (3, 0)]

    def test_the_latest_is_left_out_and_the_last_of_equal_times(self):
        users = np.array([7, 7, 7, 9, 9, 9, 2])
        items = np.array([50, 10, 30, 30, 10, 50, 999])
        times = np.array([3, 9, 1, 5, 8, 8, 1])
        # What three other users take is there to be drawn.
        more_users, more = np.repeat([11, 12, 13], 60), np.arange(1000, 1180)
        columns = zip((users, items, times), (more_users, more, more), strict=True)
        data = interactions.leave_one_out(*map(np.concatenate, columns), seed=0, min_items=3)
        names = np.array([10, 30, 50, *more])
        assert (data.num_users, data.num_items) == (5, 183)  # User 2 has too few.
        assert names[data.test_items[:, 0]].tolist() == [10, 50, 1059, 1119, 1179]
        assert data.test_items.shape == (5, 100)
        assert pairs_of(data.users[:4], names[data.items[:4]]) == {(0, 30), (0, 50), (1, 30), (1, 10)}

    def test_what_is_drawn_is_not_taken_and_everything_else_is(self, rng):
        taken = interactions.Pairs(np.repeat(np.arange(50), 15), np.tile(np.arange(15), 50), num_items=20)
        users = np.repeat(np.arange(50, dtype=np.int32), 200)
        items = interactions.draw(users, taken, 20, rng)
        assert not taken.contain(users, items).any()
        share = np.bincount(items, minlength=20)[15:] / len(items)
        np.testing.assert_allclose(share, 1 / 5, atol=0.02)

    def test_different_items_are_drawn(self, rng):
        taken = interactions.Pairs(np.arange(30), np.arange(30), num_items=100)
        users = np.arange(30)
        items = interactions.draw_distinct(users, taken, 100, rng)
        # All that there are.
        assert (items == [np.delete(np.arange(100), user) for user in users]).all()
        with pytest.raises(ValueError, match="expected 100 others"):
            interactions.draw_distinct(users, taken, 100, rng, count=100)

    def test_synthetic_interactions(self):
        data, again = (interactions.synthetic(num_users=60, num_items=300) for _ in range(2))
        np.testing.assert_array_equal(data.test_items, again.test_items)
        assert data.num_users == 60 and len(data.users) == len(pairs_of(data.users, data.items))
        by_popularity = np.sort(np.bincount(data.items, minlength=data.num_items))
        assert by_popularity[-30:].mean() > 2 * by_popularity.mean()


class TestMovielens:
    """Two formats."""

    @pytest.mark.parametrize("packed", [False, True])
    def test_files_of_the_ncf_paper(self, tmp_path, packed):
        files = {
            "tiny.train.rating": "0\t3\t5\t978\n0\t1\t4\t970\n1\t0\t3\t960\n",
            "tiny.test.rating": "0\t2\t4\t980\n1\t4\t3\t990\n",
            "tiny.test.negative": "(0,2)\t0\t4\n(1,4)\t3\t1\n",
        }
        for name, text in files.items():
            path, data = (f"{name}.gz", gzip.compress(text.encode())) if packed else (name, text.encode())
            (tmp_path / path).write_bytes(data)
        data = movielens.load(tmp_path, seed=0)
        assert (data.num_users, data.num_items) == (2, 5)
        assert pairs_of(data.users, data.items) == {(0, 3), (0, 1), (1, 0)}
        assert data.test_users.tolist() == [0, 1]
        assert data.test_items.tolist() == [[2, 0, 4], [4, 3, 1]]

    def test_ratings(self, tmp_path, rng):
        lines = [
            f"{user},{movie},3.5,{1000 + movie}"
            for user in (10, 20)
            for movie in rng.permutation(200)[:30] + 7
        ]
        lines += [f"{user},{user * movie},4.0,1" for user in (30, 41) for movie in range(100, 170)]
        (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n" + "\n".join(lines) + "\n")
        data = movielens.load(tmp_path, seed=0)
        assert data.num_users == 4 and data.num_items == len({line.split(",")[1] for line in lines})
        assert np.bincount(data.users).tolist() == [29, 29, 69, 69]

    def test_errors(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="neither NAME.train.rating nor ratings.csv"):
            movielens.load(tmp_path, 0)
        (tmp_path / "a.train.rating").write_text("0\t1\t5\t978\n")
        with pytest.raises(FileNotFoundError, match="a.test.negative"):
            movielens.load(tmp_path, 0)
        (tmp_path / "a.test.negative").write_text("(0,1)\t2\t3\n(1,1)\t2\n")
        with pytest.raises(ValueError, match="a.test.negative is not in the format"):
            movielens.load(tmp_path, 0)
        (tmp_path / "b.train.rating.gz").write_bytes(b"")
        with pytest.raises(ValueError, match="several data sets, a.train.rating, b.train.rating"):
            movielens.load(tmp_path, 0)


class TestModel:
    """NeuMF and its optimizer."""

    def test_parameters_are_those_of_deepreduce_table_1(self):
        assert neumf(138_493, 26_744).count_params() == 31_832_577

    def test_the_first_width_is_of_two_embeddings(self):
        with pytest.raises(ValueError, match="even, for two embeddings, got 7"):
            neumf(5, 5, tower=(7, 4))

    def test_gradients_of_tables_are_rows(self):
        model = neumf(50, 40, factors=2, tower=(4, 2))
        with tf.GradientTape() as tape:
            logits = model({"user": tf.constant([3, 3]), "item": tf.constant([1, 0])})
        gradients = tape.gradient(logits, [v.value for v in model.trainable_variables])
        assert logits.shape == (2, 1)
        assert sum(isinstance(gradient, tf.IndexedSlices) for gradient in gradients) == 4

    def test_adam_adds_slices_of_a_row_up(self):
        slices = tf.IndexedSlices(
            tf.constant([[1.0], [3.0], [1.0]]), tf.constant([0, 0, 2]), tf.constant([4, 1])
        )
        tables = [keras.Variable(np.zeros((4, 1), np.float32)) for _ in range(2)]
        optimizers = [Adam(0.1), keras.optimizers.Adam(0.1)]
        for _ in range(2):
            optimizers[0].apply([slices], tables[:1])
            optimizers[1].apply([tf.convert_to_tensor(slices)], tables[1:])
        np.testing.assert_array_equal(*(table.value.numpy() for table in tables))


class TestMetrics:
    """HR@10 and NDCG@10."""

    @staticmethod
    def metrics(scores):
        return {name: total / count for name, (total, count) in ncf.ranking_sums(np.array(scores)).items()}

    @pytest.mark.parametrize(
        ("num_above", "hit"), [(0, True), (1, True), (9, True), (10, False), (99, False)]
    )
    def test_places(self, num_above, hit):
        scores = [[0.5, *[0.9] * num_above, *[0.1] * (99 - num_above)]]
        assert self.metrics(scores) == {"hr@10": hit, "ndcg@10": hit and 1 / np.log2(num_above + 2)}

    @pytest.mark.parametrize("value", [0.0, np.nan])
    def test_a_model_that_tells_nothing_apart_gets_nothing(self, value):
        assert self.metrics([[value] * 100] * 3) == {"hr@10": 0, "ndcg@10": 0}


class TestBatches:
    """Samples of one rank."""

    ARGUMENTS = dict(batch_size=100, negatives=4, seed=1)

    def epoch(self, batches):
        inputs, labels = zip(*batches.as_numpy_iterator(), strict=True)
        users, items = (np.concatenate([each[key] for each in inputs]) for key in ("user", "item"))
        return users, items, np.concatenate(labels)[:, 0].astype(bool)

    def test_each_positive_once_and_new_negatives_in_each_epoch(self):
        data = interactions.synthetic(num_users=20, num_items=2000)
        num_samples = 5 * len(data.users)
        arguments = argparse.Namespace(**{**self.ARGUMENTS, "batch_size": num_samples // 3})
        batches = ncf.training_batches(data, arguments)
        assert int(batches.cardinality()) == 3
        negatives = []
        for _ in range(2):
            users, items, positive = self.epoch(batches)
            seen = pairs_of(users[positive], items[positive])
            taken = pairs_of(data.users, data.items)
            # What does not fill a batch is left for another epoch's shuffle.
            assert seen <= taken and len(seen) == positive.sum() >= len(taken) - num_samples % 3
            negatives.append(pairs_of(users[~positive], items[~positive]))
            assert not negatives[-1] & taken
        assert len(negatives[0] & negatives[1]) < 0.5 * len(negatives[0])

    def test_a_batch_that_no_epoch_fills(self):
        arguments = argparse.Namespace(**{**self.ARGUMENTS, "batch_size": 10**6})
        with pytest.raises(SystemExit, match="--batch-size"):
            ncf.training_batches(interactions.synthetic(num_users=20, num_items=300), arguments)
