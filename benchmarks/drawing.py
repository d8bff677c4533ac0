"""Figures that need no screen, and none of pyplot's state."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["Axes", "Figure", "subplots"]


def subplots(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (7, 5), **options: object
) -> tuple[Figure, object]:
    """Returns a figure of so many inches, and its axes as `Figure.subplots` returns them."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **options)
