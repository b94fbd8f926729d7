"""The scenario that seeds are run through: an hour of work and trouble, then all is healed and must end."""

from __future__ import annotations

from gsched.values.ids import JobId
from tests.sim.world import World, random_plan, random_spec

TROUBLE_S = 3600
JOBS = 40


def survive(seed: int, world_type: type[World] = World) -> World:
    """Run one seed. Raises checks.Broken, with the seed in its text, if a rule was broken."""
    world = world_type(seed, nodes=5)
    random = world.random
    world.network.lose, world.network.double = random.choice((0.0, 0.01, 0.03)), random.choice((0.0, 0.02))
    for number in range(JOBS):
        world.at(random.randint(0, TROUBLE_S * 900), lambda number=number: _submit(world, number))
    for _ in range(random.randint(6, 16)):
        world.at(random.randint(20_000, TROUBLE_S * 1000), world.trouble)
    for second in range(5, 4 * TROUBLE_S, 20):
        world.at(1000 * second + random.randint(0, 999), world.look)
    world.run(TROUBLE_S)
    world.heal()
    world.run(1200)  # whatever was still cut, off or stalled comes back
    world.heal()
    world.undrain_all()
    world.run(6 * 3600, until=world.all_ended)
    world.run(300)
    world.look()
    world.run(10)
    world.checker.in_the_end()
    return world


def _submit(world: World, number: int) -> None:
    random = world.random
    doom = random.random()

    def then(job: JobId) -> None:
        if doom < 0.15:
            world.at(random.randint(0, 60_000), lambda: world.cancel(job))
        elif doom < 0.25:
            world.at(random.randint(0, 2000), lambda: world.hold(job))
            world.at(random.randint(60_000, 600_000), lambda: world.hold(job, release=True))

    world.submit(random_spec(random, number), random_plan(random), then)
