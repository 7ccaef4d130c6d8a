"""Whether a server cuts off in silence what is longer than its context, told by the tokens that it says it has read.

Ollama does so. A prompt is suspect where less than one token in DENSE characters was read (whatever the script, there
are two to eight times as many), or as many as a context of the usual sizes holds. A suspicion is put to the test: asked
something longer, a server that cuts off reads as much again. Whoever counts only what was not cached does not.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LONGER", "Truncation"]

SHORT, SMALLEST, DENSE, USUAL = 4000, 512, 8, {1024 << n for n in range(8)}
"""Characters of a prompt that nobody cuts off; tokens of the smallest context."""

LONGER = "\nHere the texts end." * 48
"""What makes a prompt longer by more tokens than two counts of the same differ by."""
SAME = 16


@dataclass(slots=True)
class Truncation:
    """What is known of one endpoint: it reads so many tokens of a prompt and no more, 0 = there is no such limit."""

    reads: int = 0

    def known(self, told: int, text: str) -> bool:
        """Whether a prompt was cut off, by what was found out before. More tokens than that prove it wrong."""
        if told > self.reads:
            self.reads = 0
        return len(text) > SHORT and 0 <= self.reads - told < SAME

    def suspected(self, told: int, text: str) -> bool:
        """Whether a prompt may have been cut off."""
        if len(text) <= SHORT or told < SMALLEST:
            return False
        sparse = told * DENSE < len(text) and told * DENSE < len(" ".join(text.split()))
        return sparse or (told in USUAL and told * 4 < len(text))

    def proven(self, told: int, longer: int) -> bool:
        """Whether a longer prompt was as many tokens, so that neither was read to its end."""
        if abs(longer - told) >= SAME:
            return False
        self.reads = max(told, longer)
        return True
