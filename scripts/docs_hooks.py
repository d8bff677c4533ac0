"""Hooks of MkDocs: pages from outside docs/, and what GitHub and Python-Markdown read differently."""

import os
import pathlib
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Pages of the site, and the files of the repository that they are, where those are not in docs/.
OUTSIDE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "format.md": "cc_ops/FORMAT.md",
}
_PAGES = {source: page for page, source in OUTSIDE.items()}

_FENCE = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")
_CODE = re.compile(r"`[^`\n]+`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from outside docs/."""
    for page, source in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapts everything but fenced blocks."""
    parts = _FENCE.split(markdown)
    parts[::2] = [_adapt(text, page.file) for text in parts[::2]]
    return "".join(parts)


def _adapt(text: str, file: File) -> str:
    text = _LINK.sub(lambda link: _site_link(link[1], file), text)
    # In a table GitHub needs "\|" for a bar within code, where Python-Markdown shows the backslash.
    text = re.sub(
        r"^\|.*", lambda row: _CODE.sub(lambda c: c[0].replace("\\|", "|"), row[0]), text, flags=re.M
    )
    # What belongs to an item of a list is indented by two there, and by four here.
    return re.sub(r"^  (?=\S)", "    ", text, flags=re.M)


def _site_link(target: str, file: File) -> str:
    """Returns a link between files of the repository as one between pages of the site."""
    source = pathlib.Path(file.abs_src_path).relative_to(ROOT).as_posix()
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path not in _PAGES and not path.startswith("docs/"):
        return target  # Not in the site: MkDocs warns.
    page = _PAGES.get(path, path.removeprefix("docs/"))
    return os.path.relpath(page, posixpath.dirname(file.src_uri) or ".")
