from germane import Sample
from germane.measures import Item, Outcome, ask, measure, proportion
from germane.questions import Claims, Program, Support


@measure(needs=("contexts", "reference"))
def first_context_recall(sample: Sample) -> Program[Outcome]:
    """Share of the reference's claims that the first context alone supports."""
    contexts = sample.contexts or ()
    claims = yield from ask(Claims(sample.query, sample.reference or ""))
    support = yield from ask(Support(claims, (contexts[0].text,) if contexts else ()))
    return proportion([Item(claim, bool(one.contexts)) for claim, one in zip(claims, support, strict=True)])
