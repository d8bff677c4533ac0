"""Training on sparse rows: sources, batches, and an Adam with sparse updates."""

from sparse.rows import Block, Source, rows_dataset

__all__ = ["Block", "Source", "rows_dataset"]
