"""Read single keys: from a terminal without waiting for Enter, from any other input its characters."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

__all__ = ["keyboard"]


@contextmanager
def keyboard() -> Iterator[Iterator[str]]:
    """Return a context with an iterator over pressed keys.

    Without a terminal, or on Windows, the iterator yields the characters of the input.
    """
    if not sys.stdin.isatty() or os.name == "nt":
        yield (char for line in sys.stdin for char in line if not char.isspace())
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield _presses()
    finally:
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


_SEQUENCE = re.compile(
    rb"\x1b+(?:\[(?:\[.|M...|(?![\[M])[ -?]*(?:(?=\x1b)|[^ -?\x1b]))"  # arrows and the like, F1 of a console, a mouse
    rb"|O[ -?]*[^ -?]"  # keys of the keypad
    rb"|[\]PX^_][^\x07\x1b]*(?:\x07|(?=\x1b))"  # the answers of a terminal
    rb"|[^\[O\]PX^_\x1b])",  # a key with Alt
    re.DOTALL,
)
"""A complete escape sequence."""
_ESCAPE_ALONE = 0.2
"""Seconds without input after which Escape counts as a key of its own."""


def _presses() -> Iterator[str]:
    """Yield the printable keys pressed in a terminal until Ctrl-D; arrow keys and the like are ignored."""
    decoder, data, at = codecs.getincrementaldecoder("utf-8")("ignore"), b"", 0.0
    while more := os.read(sys.stdin.fileno(), 64):
        alone = data and not data.strip(b"\x1b") and more[:1] not in b"[O]PX^_"
        data = more if alone and monotonic() - at > _ESCAPE_ALONE else data + more
        at = monotonic()
        while data:
            if data.startswith(b"\x1b"):
                if (sequence := _SEQUENCE.match(data)) is None:
                    break  # the rest of the sequence has not arrived yet
                data = data[sequence.end() :]
                continue
            if data.startswith(b"\x04"):
                return
            key, data = decoder.decode(data[:1]), data[1:]
            if key.isprintable() and key:
                yield key
