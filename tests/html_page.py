"""Reading the HTML that reports make.

Owns: ``Page``.
"""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

__all__ = ["Page"]

_WITHOUT_END = ("br", "meta", "rect")


class Page(HTMLParser):
    """A page that was read; tags must close in their order.

    Attributes:
        open: tags that have not been closed; empty after a whole page.
        counts: how many there are of each tag.
        links: what ``src`` and ``href`` lead to.
        text: what stands between the tags.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: Counter[str] = Counter()
        self.links: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag begins."""
        self.counts[tag] += 1
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in _WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """A tag ends."""
        if tag not in _WITHOUT_END:
            last = self.open.pop()
            assert last == tag

    def handle_data(self, data: str) -> None:
        """Text."""
        self.text += data
