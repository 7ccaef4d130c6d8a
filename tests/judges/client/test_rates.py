"""Never more in any minute than was allowed, however the requests come."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.errors import InputError
from germane.judges.client.limits import MINUTE, RateLimiter, SlidingWindow


class Clock:
    """Seconds that pass when they are waited."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def departures(per_minute: float, sizes: list[float], pauses: list[float]) -> list[tuple[float, float]]:
    """When so many units leave, each as soon as it may after its pause."""
    clock, left = Clock(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("germane.judges.client.limits.monotonic", clock)
        window = SlidingWindow(per_minute)
        for size, pause in zip(sizes, pauses, strict=True):
            clock.now += pause
            while (wait := window.wait(size)) > 0:
                clock.now += wait
            window.take(size)
            left.append((clock.now, size))
    return left


class TestSlidingWindow:
    @given(
        st.sampled_from([1, 3, 7, 60, 120]),
        st.lists(st.sampled_from([0.0, 0.0, 0.3, 4.0, 29.0, 70.0]), max_size=150),
    )
    def test_never_more_than_allowed_in_any_minute(self, most: int, pauses: list[float]) -> None:
        """However they come: as fast as they may, or after a quiet while."""
        left = [at for at, _ in departures(most, [1.0] * len(pauses), pauses)]
        assert all(late - early >= 60.5 for early, late in zip(left, left[most:], strict=False))

    @given(st.lists(st.tuples(st.floats(1, 1500), st.sampled_from([0.0, 1.0, 20.0])), max_size=80))
    def test_units_of_any_size(self, asked: list[tuple[float, float]]) -> None:
        """No minute holds more than a thousand, but for a single one that is larger than that."""
        left = departures(1000, [size for size, _ in asked], [pause for _, pause in asked])
        for place, (at, _) in enumerate(left):
            minute = [size for then, size in left[place:] if then < at + 60.5]
            assert sum(minute) <= 1000.001 or len(minute) == 1

    def test_it_is_spread(self) -> None:
        """Sixty a minute: five seconds' worth at once, then one a second; nearly all of a minute's in a minute."""
        left = [at - 1000 for at, _ in departures(60, [1.0] * 61, [0.0] * 61)]
        assert left[4] == 0
        assert left[20] == pytest.approx(15, abs=1.1)
        assert left[59] < 57
        assert left[60] == pytest.approx(61)

    def test_less_than_one_a_minute(self) -> None:
        """One in two minutes."""
        left = [at for at, _ in departures(0.5, [1.0] * 3, [0.0] * 3)]
        assert all(b - a >= 120 for a, b in pairwise(left))

    def test_what_was_really_used_counts(self) -> None:
        """More than was thought delays the next; what is given back does not count."""
        window = SlidingWindow(1000)
        taken = window.take(10)
        assert window.wait(10) == 0
        window.correct(taken, 990)
        assert window.wait(20) > 50
        window.correct(taken, 0)
        assert window.wait(1000) == 0

    def test_what_fits_no_minute_leaves_a_minute_after_the_last(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not several minutes: what came before weighs no more than a minute, however large it was."""
        clock = Clock()
        monkeypatch.setattr("germane.judges.client.limits.monotonic", clock)
        window = SlidingWindow(100)
        window.take(350)
        assert window.wait(350) == pytest.approx(MINUTE)
        assert window.wait(10) == pytest.approx(MINUTE)
        clock.now += MINUTE
        assert window.wait(350) == window.wait(10) == 0


class TestRateLimiter:
    def test_who_waits_queues_and_who_is_cancelled_leaves_no_trace(self) -> None:
        """The first in the queue is called back, and one behind it: the next is served in its order."""

        async def main() -> list[int]:
            limiter, served = RateLimiter(rpm=1200, in_flight=200), []

            async def one(number: int) -> None:
                await limiter.acquire(lambda: 0)
                served.append(number)

            tasks = [asyncio.ensure_future(one(number)) for number in range(110)]
            await asyncio.sleep(0)
            for number in (101, 104):
                tasks[number].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert limiter._places is not None
            assert limiter._places.in_flight == 108
            return served

        assert asyncio.run(main()) == [number for number in range(110) if number not in {101, 104}]

    @pytest.mark.parametrize("rate", [{"rpm": 0}, {"tpm": -1}, {"rpm": float("inf")}])
    def test_what_is_no_rate(self, rate: dict[str, float]) -> None:
        """Said at once."""
        with pytest.raises(InputError, match="is not possible; write how many a minute"):
            RateLimiter(**rate)  # type: ignore[arg-type]

    def test_how_many_tokens_is_asked_when_they_are_taken(self) -> None:
        """Not when the wait began: answers have shown meanwhile how long they are."""

        async def main() -> None:
            limiter, expected = RateLimiter(tpm=60_000), 5100.0
            await limiter.acquire(lambda: expected)
            waiting = asyncio.ensure_future(limiter.acquire(lambda: expected))
            await asyncio.sleep(0)
            expected = 7000
            taken = await waiting
            assert taken[1] is not None
            assert taken[1].units == 7000

        asyncio.run(main())
