from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from germane.judging.limits import Circuit, CircuitOpen, Level


async def pass_through(level: Level, seconds: float, on_answer) -> None:
    sent = await level.acquire()
    try:
        await asyncio.sleep(seconds)
    finally:
        level.release()
    on_answer(sent)


class TestLevel:
    def test_never_more_in_flight_than_the_cap(self) -> None:
        """Forty tasks and a cap of seven: seven at once, all of them served."""
        level, most, done = Level(7), 0, 0

        async def one() -> None:
            nonlocal most, done
            sent = await level.acquire()
            most = max(most, level.busy)
            await asyncio.sleep(0.001)
            level.release()
            level.answered(sent)
            done += 1

        async def main() -> None:
            await asyncio.gather(*(one() for _ in range(40)))

        asyncio.run(main())
        assert (most, done, level.busy) == (7, 40, 0)

    def test_throttling_halves_once_a_round_trip(self) -> None:
        """Sixteen requests of one round trip are throttled: that is one halving, not sixteen."""
        level = Level(16)

        async def main() -> None:
            sent = [await level.acquire() for _ in range(16)]
            await asyncio.sleep(0.001)
            for time in sent:
                level.release()
                level.throttled(time)

        asyncio.run(main())
        assert level.size == 8

    def test_a_later_round_trip_may_halve_again(self) -> None:
        """What left after a cut and is throttled too cuts again, down to one."""
        level = Level(4)

        async def main() -> None:
            for _ in range(5):
                await asyncio.sleep(0.001)
                sent = await level.acquire()
                level.release()
                level.throttled(sent)

        asyncio.run(main())
        assert level.size == 1

    def test_a_stalled_request_leaves_its_place_to_another(self) -> None:
        """Cut down to one, with that one stalled: another may go; when it ends after all, none may but itself."""
        level = Level(8)
        level.size = 1.0

        async def main() -> None:
            await level.acquire()
            held = asyncio.ensure_future(level.acquire())
            await asyncio.sleep(0)
            assert not held.done()
            level.stall()
            await asyncio.wait_for(held, 1)
            level.stall(-1)
            level.release()
            third = asyncio.ensure_future(level.acquire())
            await asyncio.sleep(0)
            assert not third.done()
            third.cancel()

        asyncio.run(main())

    def test_stalled_requests_never_exceed_the_cap(self) -> None:
        """Cap four, all stalled: a fifth waits."""
        level = Level(4)

        async def main() -> None:
            for _ in range(4):
                await level.acquire()
                level.stall()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(level.acquire(), 0.01)

        asyncio.run(main())
        assert level.busy == 4

    def test_it_rises_again_by_one_a_round_trip(self) -> None:
        """After a cut from 8 to 4, a round of four good answers makes about five."""
        level = Level(8)
        level.throttled(monotonic())
        for _ in range(4):
            level.answered(monotonic())
        assert 4.9 < level.size <= 5

    def test_it_searches_by_doubling_until_the_cap(self) -> None:
        """A level to be found starts low and doubles each round trip while latency stays the same."""
        level = Level(64, start=4)
        for _ in range(4 + 8 + 16 + 32):
            level.answered(monotonic() - 0.01)
        assert level.size == 64

    def test_it_stops_searching_where_latency_grows(self) -> None:
        """Answers that take three times as long as the calmest ones: more requests would only queue."""
        level = Level(64, start=4)
        for _ in range(4):
            level.answered(monotonic() - 0.01)
        for _ in range(8):
            level.answered(monotonic() - 0.05)
        found = level.size
        for _ in range(8):
            level.answered(monotonic() - 0.05)
        assert found < 12
        assert level.size < found + 2

    def test_a_queue_behind_one_slot_is_noticed_in_the_first_round(self) -> None:
        """Each answer comes one slot later than the last: after two of them it rises no more."""
        level = Level(64, start=16)
        for place in range(1, 16):
            level.answered(monotonic() - 0.1 * place)
        assert level.size == 18

    def test_a_cancelled_waiter_leaves_no_hole(self) -> None:
        """Cancelled while waiting, or just as it was admitted: the place is there for the next."""

        async def main() -> None:
            level = Level(1)
            await level.acquire()
            waiters = [asyncio.ensure_future(level.acquire()) for _ in range(3)]
            await asyncio.sleep(0)
            waiters[0].cancel()
            await asyncio.sleep(0)
            level.release()
            waiters[1].cancel()
            await asyncio.wait_for(waiters[2], 1)
            assert level.busy == 1

        asyncio.run(main())


class TestCircuit:
    def test_it_opens_after_faults_in_a_row_and_says_what_the_last_was(self) -> None:
        """Three in a row open it; who comes after its patience is turned away with the last fault."""
        circuit = Circuit(3, patience=0.0, probe_every=60)
        for _ in range(3):
            assert not circuit.open
            circuit.failed("connection refused")
        assert circuit.open
        with pytest.raises(CircuitOpen, match=r"3 requests in a row failed.*connection refused"):
            asyncio.run(circuit.enter())

    def test_a_success_between_keeps_it_closed(self) -> None:
        """Only faults in a row count."""
        circuit = Circuit(2)
        for _ in range(5):
            circuit.failed("x")
            circuit.succeeded()
        assert not circuit.open

    def test_one_probe_at_a_time_and_a_success_closes_it(self) -> None:
        """Of five waiters one goes first; when it succeeds the others follow."""
        circuit = Circuit(1, patience=5, probe_every=0.05)
        circuit.failed("x")
        passed = []

        async def one(number: int) -> None:
            await circuit.enter()
            passed.append(number)
            if len(passed) == 1:
                await asyncio.sleep(0.02)
                assert len(passed) == 1
                circuit.succeeded()

        async def main() -> None:
            await asyncio.gather(*(one(number) for number in range(5)))

        asyncio.run(main())
        assert sorted(passed) == [0, 1, 2, 3, 4]

    def test_an_outage_is_survived_until_a_probe_has_failed_after_the_patience(self) -> None:
        """Down for less than the patience: the last probe comes after it came back, and nobody is turned away."""
        circuit = Circuit(1, patience=0.3, probe_every=0.1)
        circuit.failed("down")
        began = monotonic()

        async def one() -> None:
            while await circuit.enter():
                if monotonic() - began < 0.25:
                    circuit.failed("down")
                else:
                    circuit.succeeded()

        async def main() -> None:
            await asyncio.gather(*(one() for _ in range(5)))

        asyncio.run(main())
        assert not circuit.open
