"""Who took which item: what a recommender learns from, and what it is asked."""

import dataclasses

import numpy as np

NUM_NEGATIVES = 99


class Pairs:
    """A set of (user, item)."""

    def __init__(self, users: np.ndarray, items: np.ndarray, num_items: int) -> None:
        self._num_items = num_items
        self._keys = np.unique(self._key(users, items))

    def contain(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns for each user and item, broadcast, whether they are a pair."""
        keys = self._key(users, items)
        return self._keys.take(np.searchsorted(self._keys, keys), mode="clip") == keys

    def check_that_others_remain(self, count: int) -> None:
        """Raises ValueError unless each user has at least `count` items that are not paired with it."""
        most = np.bincount(self._keys // self._num_items).max()
        if most + count > self._num_items:
            raise ValueError(
                f"a user has taken {most} of {self._num_items} items: there are not {count} others to draw"
            )

    def _key(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        return users.astype(np.int64) * self._num_items + items


@dataclasses.dataclass(frozen=True)
class Interactions:
    """Interactions, one of each user left out for the test. Users and items are numbers from 0 on.

    Attributes:
      num_users: How many there are.
      num_items: How many there are.
      users: Of each interaction to train with.
      items: Of each interaction to train with.
      test_users: Who is asked.
      test_items: The item that was left out, then items that the user did not take: [asked, 100].
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
    """Leaves the latest interaction of each user out, and draws the items that it has to be told from.

    Args:
      users: Of each interaction, any integers.
      items: Of each interaction, any integers.
      times: Of each interaction; of equal ones the last is the latest.
      seed: Of the draw.
      min_items: Users with fewer interactions are left aside, as in MovieLens.

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
    """Draws one item for each user, uniformly of those that the user has not taken: there must be one."""
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
    """Interactions with planted factors and Zipf popularity, 20 or more a user.

    A user takes items one after another, without taking one twice: the odds are the item's popularity
    times the exponential of how well its factors match the user's.
    """
    rng = np.random.default_rng(seed)
    tastes, traits = (rng.standard_normal((count, factors)) for count in (num_users, num_items))
    popularity = -zipf * np.log(rng.permutation(num_items) + 1.0)
    appeal = 3 * tastes @ traits.T / np.sqrt(factors) + popularity
    # The largest of the log odds plus Gumbel noise are a draw without replacement.
    order = np.argsort(-(appeal + rng.gumbel(size=appeal.shape)), axis=1)
    num_taken = np.minimum(20 + rng.geometric(1 / 20, num_users), num_items // 4)
    users, places = np.nonzero(np.arange(num_items) < num_taken[:, np.newaxis])
    return leave_one_out(users, order[users, places], rng.random(len(users)), seed)
