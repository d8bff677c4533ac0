"""Interactions of users with items: training and test data of a recommender."""

import dataclasses

import numpy as np

NUM_NEGATIVES = 99


class Pairs:
    """A set of pairs (user, item)."""

    def __init__(self, users: np.ndarray, items: np.ndarray, num_items: int) -> None:
        self._num_items = num_items
        self._keys = np.unique(self._key(users, items))

    def contain(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns, for broadcast users and items, whether each (user, item) is in the set."""
        keys = self._key(users, items)
        return self._keys.take(np.searchsorted(self._keys, keys), mode="clip") == keys

    def check_that_others_remain(self, count: int) -> None:
        """Raises ValueError unless there are `count` items for each user that are not in a pair with it."""
        most = np.bincount(self._keys // self._num_items).max()
        if most + count > self._num_items:
            raise ValueError(
                f"a user has taken {most} of {self._num_items} items: expected {count} others to draw from"
            )

    def _key(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        return users.astype(np.int64) * self._num_items + items


@dataclasses.dataclass(frozen=True)
class Interactions:
    """Interactions, with one of each user held out for the test. Users and items are numbers from 0 on.

    Attributes:
      num_users: Number of users.
      num_items: Number of items.
      users: User of each training interaction.
      items: Item of each training interaction.
      test_users: Users in the test.
      test_items: For each of them the held-out item, then items that the user did not take: [users, 100].
    """

    num_users: int
    num_items: int
    users: np.ndarray
    items: np.ndarray
    test_users: np.ndarray
    test_items: np.ndarray


def leave_one_out(
    users: np.ndarray, items: np.ndarray, times: np.ndarray, seed: int, min_items: int = 20
) -> Interactions:
    """Holds out the latest interaction of each user, and draws the negative items that it is ranked with.

    Args:
      users: User of each interaction, any integers.
      items: Item of each interaction, any integers.
      times: Time of each interaction; of equal times the last is the latest.
      seed: Seed of the draw.
      min_items: Users with fewer interactions are ignored, as in MovieLens.

    Raises:
      ValueError: No user is left, or one has taken so many items that there are not enough others.
    """
    _, users, counts = np.unique(users, return_inverse=True, return_counts=True)
    kept = counts[users] >= min_items
    if not kept.any():
        raise ValueError(f"no user has {min_items} interactions")
    users, items, times = users[kept], items[kept], times[kept]
    (user_ids, users), (item_ids, items) = (np.unique(each, return_inverse=True) for each in (users, items))
    by_time = np.lexsort((times, users))
    users, items = users[by_time].astype(np.int32), items[by_time].astype(np.int32)
    is_last = np.diff(users, append=-1) != 0
    test_users, left_out = users[is_last], items[is_last]
    others = draw_distinct(
        test_users, Pairs(users, items, len(item_ids)), len(item_ids), np.random.default_rng(seed)
    )
    return Interactions(
        num_users=len(user_ids),
        num_items=len(item_ids),
        users=users[~is_last],
        items=items[~is_last],
        test_users=test_users,
        test_items=np.column_stack([left_out, others]),
    )


def draw(users: np.ndarray, taken: Pairs, num_items: int, rng: np.random.Generator) -> np.ndarray:
    """Draws one item for each user, uniformly from those that the user has not taken; there must be one."""
    items = rng.integers(num_items, size=len(users), dtype=np.int32)
    wrong = np.flatnonzero(taken.contain(users, items))
    while wrong.size:
        items[wrong] = rng.integers(num_items, size=wrong.size, dtype=np.int32)
        wrong = wrong[taken.contain(users[wrong], items[wrong])]
    return items


def draw_distinct(
    users: np.ndarray, taken: Pairs, num_items: int, rng: np.random.Generator, count: int = NUM_NEGATIVES
) -> np.ndarray:
    """Draws `count` different items for each user that the user has not taken: [users, count]."""
    taken.check_that_others_remain(count)
    items = rng.integers(num_items, size=(len(users), count), dtype=np.int32)
    while True:
        items.sort(axis=1)
        wrong = taken.contain(users[:, np.newaxis], items)
        wrong[:, 1:] |= items[:, 1:] == items[:, :-1]
        if not wrong.any():
            return items
        items[wrong] = rng.integers(num_items, size=np.count_nonzero(wrong), dtype=np.int32)


def synthetic(
    num_users: int = 500, num_items: int = 800, factors: int = 6, zipf: float = 0.8, seed: int = 0
) -> Interactions:
    """Returns synthetic interactions with planted factors and Zipf popularity, 20 or more per user.

    A user draws items without replacement. The odds of an item are its popularity times the exponential of
    how well its factors match the user's.
    """
    rng = np.random.default_rng(seed)
    tastes, traits = (rng.standard_normal((count, factors)) for count in (num_users, num_items))
    popularity = -zipf * np.log(rng.permutation(num_items) + 1.0)
    appeal = 3 * tastes @ traits.T / np.sqrt(factors) + popularity
    # Taking the largest log odds plus Gumbel noise draws without replacement.
    order = np.argsort(-(appeal + rng.gumbel(size=appeal.shape)), axis=1)
    num_taken = np.minimum(20 + rng.geometric(1 / 20, num_users), num_items // 4)
    users, places = np.nonzero(np.arange(num_items) < num_taken[:, np.newaxis])
    return leave_one_out(users, order[users, places], rng.random(len(users)), seed)
