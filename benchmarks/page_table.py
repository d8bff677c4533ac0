"""Tables in Markdown."""

import rich.console
import rich.markdown


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Returns a table in Markdown; all columns but the first are right-aligned."""
    aligned = ["---", *["---:"] * (len(headings) - 1)]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in [headings, aligned, *rows])


def code(text: str) -> str:
    """Returns a cell of code; its bars do not end the cell."""
    escaped = text.replace("|", "\\|")
    return f"`{escaped}`"


def show(*texts: str, width: int = 140) -> None:
    """Prints tables, or other text in Markdown."""
    console = rich.console.Console(width=width)
    for each in texts:
        console.print(rich.markdown.Markdown(each))
