"""A seeded network between one controller and many agents: late, lost, doubled, cut; in order within a connection."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.office import Office


class Connection:
    """One session. Each side is told once when it is over."""

    def __init__(self, id: int, node: str, office: Office | None) -> None:
        self.id = id
        self.node = node
        self.office = office  # the controller at its other end
        self.open_at_controller = True
        self.open_at_agent = True
        self.latest = {"up": 0, "down": 0}  # delivery stays in order within one direction


class Network:
    """Carries messages with what the seed draws. `at(delay_ms, act)` runs something later."""

    def __init__(self, random: Random, at: Callable[[int, Callable[[], None]], None], now: Callable[[], int]) -> None:
        self._random = random
        self._at = at
        self._now = now
        self.lose = 0.0
        self.double = 0.0
        self.delay_ms = (1, 5)
        self.cut: set[str] = set()  # nodes that cannot be reached, nor reach anybody
        self.carried = 0

    def calm(self) -> None:
        """From now on nothing goes wrong."""
        self.lose = self.double = 0.0
        self.cut.clear()

    def carry(self, link: Connection, way: str, deliver: Callable[[Any], None], message: Any) -> None:
        """Send one message one way; `deliver` is called at the far end, if it arrives."""
        self.carried += 1
        if link.node in self.cut or self._random.random() < self.lose:
            return
        times = 2 if self._random.random() < self.double else 1
        for _ in range(times):
            due = max(self._now() + self._random.randint(*self.delay_ms), link.latest[way])
            link.latest[way] = due
            self._at(due - self._now(), lambda: None if link.node in self.cut else deliver(message))
