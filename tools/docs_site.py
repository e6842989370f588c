"""A hook of mkdocs: what the site needs beside mkdocs.yml.

Links that leave docs/ (to a file of the source tree) lead nowhere on the site, so they become text. Two scripts that
the theme would fetch from the network while a page is read are part of the site, where `make docs` could get them:
Mermaid, and what lets search work on a page that was opened from the disk. Elsewhere diagrams are shown as their text,
and search needs a web server.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File
from pymdownx.superfences import fence_code_format

SCRIPTS = Path(__file__).parents[1] / ".cache" / "docs-scripts"
MERMAID, WORKER = "mermaid.js", "iframe-worker.js"
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<up>(?:\.\./)+)[^)]*\)")


def without_links_out(markdown: str, page: str) -> str:
    """The text of a page (its path below docs/) with links out of docs/ as plain text."""
    depth = len(PurePosixPath(page).parent.parts)
    return LINK.sub(lambda found: found["text"] if found["up"].count("/") > depth else found[0], markdown)


def on_config(config: Any) -> Any:
    # The theme's plugin for reading from the disk has put an address of the network there.
    config.extra["polyfills"] = [f"assets/{WORKER}"] if (SCRIPTS / WORKER).exists() else []
    if (SCRIPTS / MERMAID).exists():
        config.extra_javascript.append(f"assets/{MERMAID}")
        fence = {"name": "mermaid", "class": "mermaid", "format": fence_code_format}
        config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def on_files(files: Any, config: Any) -> Any:
    for name in (MERMAID, WORKER):
        if (SCRIPTS / name).exists():
            files.append(File.generated(config, f"assets/{name}", abs_src_path=str(SCRIPTS / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return without_links_out(markdown, page.file.src_uri)
