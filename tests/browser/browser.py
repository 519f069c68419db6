"""A browser as tests see it."""

from __future__ import annotations

from typing import Any

from tests.real.kit import Program


class Browser(Program):
    """One window of a real browser. Every method is done when it returns."""

    def open(self, url: str, **look: object) -> None:
        """A new window that knows nothing yet: `width`, `height`, `scheme` (light or dark).

        With `clock` its time can be made to pass.
        """
        self.call("open", look | {"url": url})

    def go(self, url: str) -> None:
        """Another page in the same window."""
        self.call("go", url)

    def resize(self, width: int, height: int) -> None:
        """Make the window another size."""
        self.call("resize", width, height)

    def js(self, expression: str) -> Any:
        """What an expression is worth in the page."""
        return self.call("js", expression)

    def until(self, expression: str) -> None:
        """Wait until it is true."""
        assert self.call("until", expression)

    def until_shown(self, text: str) -> None:
        """Wait until the page says this."""
        self.until(f"document.body.innerText.includes({text!r})")

    def passes(self, ms: int) -> None:
        """So much time goes by in the page, all at once."""
        self.call("pass", ms)

    def press(self, *keys: str) -> None:
        """Press these keys, one after the other."""
        self.call("press", *keys)

    def type(self, text: str) -> None:
        """Type a text, wherever the focus is."""
        self.call("type", text)

    def click(self, selector: str) -> None:
        """Click on what is there, or will be soon."""
        self.call("click", selector)

    def fill(self, selector: str, text: str) -> None:
        """Put a text into a field."""
        self.call("fill", selector, text)

    def shot(self, path: object, *, whole: bool = False) -> None:
        """A picture of the window, or of the whole page."""
        self.call("shot", str(path), whole)

    def picture_of_file(self, url: str, path: str, width: int) -> None:
        """A picture of all of a file."""
        self.call("pictureOfFile", url, path, width)

    def elsewhere(self) -> list[str]:
        """What the window has asked of other origins."""
        return list(self.call("elsewhere"))

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the page's policy forbade."""
        return list(self.call("complaints"))

    def faults(self, scope: str = "document") -> list[dict[str, Any]]:
        """What axe finds inaccessible."""
        return list(self.call("axe", scope))
