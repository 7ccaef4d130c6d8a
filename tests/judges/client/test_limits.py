from __future__ import annotations

import asyncio
from time import monotonic, sleep

import pytest

from germane.judges.client.limits import AdaptiveConcurrency, CircuitBreaker, CircuitOpen
from germane.judges.client.retry import RetryPolicy


class TestAdaptiveConcurrency:
    def test_never_more_in_flight_than_the_cap(self) -> None:
        """Forty tasks and a cap of seven: seven at once, all of them served."""
        level, most, done = AdaptiveConcurrency(7), 0, 0

        async def one() -> None:
            nonlocal most, done
            await level.acquire()
            sent = monotonic()
            most = max(most, level.in_flight)
            await asyncio.sleep(0.001)
            level.release()
            level.succeeded(sent)
            done += 1

        async def main() -> None:
            await asyncio.gather(*(one() for _ in range(40)))

        asyncio.run(main())
        assert (most, done, level.in_flight) == (7, 40, 0)

    def test_throttling_halves_once_a_round_trip(self) -> None:
        """Sixteen requests of one round trip are throttled: that is one halving, not sixteen."""
        level = AdaptiveConcurrency(16)

        async def main() -> None:
            sent = []
            for _ in range(16):
                await level.acquire()
                sent.append(monotonic())
            await asyncio.sleep(0.001)
            for time in sent:
                level.release()
                level.throttled(time)

        asyncio.run(main())
        assert level.size == 8

    def test_a_later_round_trip_may_halve_again(self) -> None:
        """What left after a cut and is throttled too cuts again, down to one."""
        level = AdaptiveConcurrency(4)

        async def main() -> None:
            for _ in range(5):
                await asyncio.sleep(0.001)
                await level.acquire()
                sent = monotonic()
                level.release()
                level.throttled(sent)

        asyncio.run(main())
        assert level.size == 1

    def test_it_rises_again_by_one_a_round_trip(self) -> None:
        """After a cut from 8 to 4, a round of four good answers makes about five."""
        level = AdaptiveConcurrency(8)
        level.throttled(monotonic())
        for _ in range(4):
            level.succeeded(monotonic())
        assert 4.9 < level.size <= 5

    def test_it_searches_by_doubling_until_the_cap(self) -> None:
        """A level to be found starts low and doubles each round trip while latency stays the same."""
        level = AdaptiveConcurrency(64, start=4)
        for _ in range(4 + 8 + 16 + 32):
            level.succeeded(monotonic() - 0.01)
        assert level.size == 64

    def test_it_stops_searching_where_latency_grows(self) -> None:
        """Answers that take three times as long as the calmest ones: more requests would only queue."""
        level = AdaptiveConcurrency(64, start=4)
        for _ in range(4):
            level.succeeded(monotonic() - 0.01)
        for _ in range(8):
            level.succeeded(monotonic() - 0.05)
        found = level.size
        for _ in range(8):
            level.succeeded(monotonic() - 0.05)
        assert found < 12
        assert level.size < found + 2

    def test_a_queue_behind_one_slot_is_noticed_in_the_first_round(self) -> None:
        """Each answer comes one slot later than the last: after two of them it rises no more."""
        level = AdaptiveConcurrency(64, start=16)
        for place in range(1, 16):
            level.succeeded(monotonic() - 0.1 * place)
        assert level.size == 18

    def test_a_cancelled_waiter_leaves_no_hole(self) -> None:
        """Cancelled while waiting, or just as it was admitted: the place is there for the next."""

        async def main() -> None:
            level = AdaptiveConcurrency(1)
            await level.acquire()
            waiters = [asyncio.ensure_future(level.acquire()) for _ in range(3)]
            await asyncio.sleep(0)
            waiters[0].cancel()
            await asyncio.sleep(0)
            level.release()
            waiters[1].cancel()
            await asyncio.wait_for(waiters[2], 1)
            assert level.in_flight == 1

        asyncio.run(main())


class TestCircuitBreaker:
    def test_it_opens_after_faults_in_a_row_and_says_what_the_last_was(self) -> None:
        """Three in a row open it; who comes after the outage is turned away with the last fault."""
        circuit = CircuitBreaker(RetryPolicy(circuit_failures=3, startup=0.001, probe_every=60))
        for _ in range(3):
            assert not circuit.open
            circuit.failed("connection refused")
        assert circuit.open
        sleep(0.01)
        circuit.failed("connection refused")
        with pytest.raises(CircuitOpen, match=r"4 requests in a row failed.*connection refused"):
            asyncio.run(circuit.acquire())

    def test_a_success_between_keeps_it_closed(self) -> None:
        """Only faults in a row count."""
        circuit = CircuitBreaker(RetryPolicy(circuit_failures=2))
        for _ in range(5):
            circuit.failed("x")
            circuit.succeeded()
        assert not circuit.open

    def test_one_probe_at_a_time_and_a_success_closes_it(self) -> None:
        """Of five waiters one goes first; when it succeeds the others follow."""
        circuit = CircuitBreaker(RetryPolicy(circuit_failures=1, startup=5, outage=5, probe_every=0.05))
        circuit.failed("x")
        passed = []

        async def one(number: int) -> None:
            await circuit.acquire()
            passed.append(number)
            if len(passed) == 1:
                await asyncio.sleep(0.02)
                assert len(passed) == 1
                circuit.succeeded()

        async def main() -> None:
            await asyncio.gather(*(one(number) for number in range(5)))

        asyncio.run(main())
        assert sorted(passed) == [0, 1, 2, 3, 4]

    def test_an_outage_is_survived_until_a_probe_has_failed_after_the_outage(self) -> None:
        """Down for less than the outage: the last probe comes after it came back, and nobody is turned away."""
        circuit = CircuitBreaker(RetryPolicy(circuit_failures=1, outage=0.3, probe_every=0.1))
        circuit.failed("down")
        began = monotonic()

        async def one() -> None:
            while await circuit.acquire():
                if monotonic() - began < 0.25:
                    circuit.failed("down")
                else:
                    circuit.succeeded()

        async def main() -> None:
            await asyncio.gather(*(one() for _ in range(5)))

        asyncio.run(main())
        assert not circuit.open
