from germane import Sample
from germane.measures import measure


@measure(needs=("contexts", "qrels"))
def first_hit(sample: Sample, least: int = 1) -> float:
    """1 if the first context is a gold document, else 0."""
    if not sample.contexts or not sample.qrels:
        return 0.0
    return float(sample.qrels.get(sample.contexts[0].id or "", 0) >= least)
