"""Training on sparse rows: where they come from, how they become batches, and an Adam that stays sparse."""

from sparse.rows import Block, Source, rows_dataset

__all__ = ["Block", "Source", "rows_dataset"]
