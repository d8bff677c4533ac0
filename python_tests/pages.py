"""The programs and commands of the documentation's pages."""

import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

DOCS = pathlib.Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "get_started.md", DOCS / "choose.md", *sorted((DOCS / "guides").glob("*.md"))]
_FENCE = re.compile(r"^(?:<!-- not run: (.*?) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """What a reader copies: why tests leave it out, if they do; its text, and the page's line before it."""

    reason: str
    text: str
    line: int


def _blocks_of(page: pathlib.Path, languages: tuple[str, ...]) -> Iterator[Block]:
    text = page.read_text()
    for fence in _FENCE.finditer(text):
        if fence[2] in languages:
            yield Block(fence[1] or "", fence[3], text.count("\n", 0, fence.start(3)))


def programs_of(page: pathlib.Path) -> list[Block]:
    """The blocks in Python."""
    return list(_blocks_of(page, ("python",)))


def commands_of(page: pathlib.Path) -> list[Block]:
    """The blocks that a shell runs."""
    return list(_blocks_of(page, ("", "bash")))


def changed_programs_of(page: pathlib.Path) -> list[str]:
    """What the blocks with changes of a program leave of it."""
    changes = [block.text.splitlines() for block in _blocks_of(page, ("diff",))]
    return ["\n".join(line[1:] for line in lines if not line.startswith("-")) for lines in changes]
