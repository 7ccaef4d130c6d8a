"""What a user imports."""

import germane
from germane import errors
from germane.errors import GermaneError


def test_the_public_names_are_few_and_all_there() -> None:
    """`__all__` is the namespace: every name resolves, and one can read it in a breath."""
    assert len(germane.__all__) <= 25
    assert all(getattr(germane, name) is not None for name in germane.__all__)
    assert set(germane.__all__) <= set(dir(germane))


def test_the_tree_of_errors_is_drawn() -> None:
    """Every exception stands in the docstring's tree and under its base."""
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, GermaneError)]
    assert classes
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)
