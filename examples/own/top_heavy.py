from collections.abc import Sequence

from germane.measures import ranked_measure


@ranked_measure
def top_heavy(relevant: Sequence[bool], share: float = 0.5) -> float:
    """The first relevant place counts `share`, each further one that much of what is left."""
    left = 1.0
    for hit in relevant:
        left *= 1 - share * hit
    return 1 - left
