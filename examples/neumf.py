"""Neural matrix factorisation (NeuMF), the model that DeepReduce's Table 1 calls NCF."""

from collections.abc import Sequence

import keras

# Gives the 31,832,577 parameters of that table with the 138,493 users and 26,744 items of MovieLens-20M.
FACTORS = 64
TOWER = (256, 256, 128, 64)


def neumf(
    num_users: int, num_items: int, factors: int = FACTORS, tower: Sequence[int] = TOWER
) -> keras.Model:
    """Returns a built model that predicts whether a user takes an item.

    It has two parts with separate tables: generalised matrix factorisation (GMF), the elementwise product of
    both factors, and a tower of dense layers on both embeddings. A last layer combines their outputs.

    Args:
      num_users: Rows of the users' tables.
      num_items: Rows of the items' tables.
      factors: Columns of GMF's tables.
      tower: Widths of the tower: of both embeddings together, then of each dense layer.

    Returns:
      A model of {"user": [m], "item": [m]}, numbers from 0 on, that yields logits [m, 1].

    Raises:
      ValueError: The tower's first width is odd.
    """
    if tower[0] % 2:
        raise ValueError(f"the tower's first width must be even, for two embeddings, got {tower[0]}")
    user, item = (keras.Input((), dtype="int32", name=name) for name in ("user", "item"))

    def embed(numbers: keras.KerasTensor, rows: int, columns: int, name: str) -> keras.KerasTensor:
        start = keras.initializers.RandomNormal(stddev=0.01)
        return keras.layers.Embedding(rows, columns, embeddings_initializer=start, name=name)(numbers)

    product = keras.layers.Multiply()(
        [embed(user, num_users, factors, "gmf_user"), embed(item, num_items, factors, "gmf_item")]
    )
    hidden = keras.layers.Concatenate()(
        [embed(user, num_users, tower[0] // 2, "mlp_user"), embed(item, num_items, tower[0] // 2, "mlp_item")]
    )
    for width in tower[1:]:
        hidden = keras.layers.Dense(width, activation="relu")(hidden)
    logit = keras.layers.Dense(1)(keras.layers.Concatenate()([product, hidden]))
    return keras.Model({"user": user, "item": item}, logit)
