"""The kernels of packing do what their plain twins say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gschedd.core import fragment_twin as twin
from gschedd.core.fragment_twin import Demand, Room, Type
from gschedd.core.kernels import fragment as nb
from gschedd.core.kernels.fill import ARRIVAL_GPUS, ARRIVAL_KIND, ARRIVAL_NODE, OURS, fill_nb, fits_somewhere_nb
from gschedd.core.kernels.shares import ROOM_FRAGMENTED, fits_looking_at_all_nb, fits_nb, take_nb
from gschedd.core.mix import PriceList, price_array
from tests.builders.rooms import MODELS, as_demands, as_rooms, as_types, demands, price_lists, rooms, types

STEPS = np.arange(-49_000, 50_000, 1000, dtype=np.int64)  # 99 even steps do for a test


def _indices(mask: int) -> list[int]:
    return [g for g in range(mask.bit_length()) if mask >> g & 1]


@given(rooms(), demands())
def test_what_fits_agrees(room: Room, demand: Demand) -> None:
    grid, wanted = as_rooms([room]), as_demands([demand])
    assert fits_nb(grid, 0, wanted, 0) == fits_looking_at_all_nb(grid, 0, wanted, 0) == twin.fits_py(room, demand)


@given(rooms(), demands(), price_lists())
def test_our_price_and_gpus_agree_and_what_is_taken_can_be_given_back(
    room: Room, demand: Demand, prices: PriceList
) -> None:
    if not twin.fits_py(room, demand):
        return
    grid, wanted = as_rooms([room]), as_demands([demand])
    cost, mask = nb.price_nb(price_array(prices, MODELS), grid, 0, wanted, 0)
    assert (cost, _indices(mask)) == twin.price_py(prices, MODELS, room, demand)
    take_nb(grid, 0, wanted, 0, mask, 1)
    assert (grid == as_rooms([twin.taken_py(room, demand, _indices(mask))])).all()
    take_nb(grid, 0, wanted, 0, mask, -1)
    assert (grid == as_rooms([room])).all()


@given(
    price_lists(),
    *(st.integers(0, most) for most in (8, 64, 1000)),
    *(st.integers(0, most) for most in (8, 64, 1000)),
)
def test_the_key_of_a_whole_member_is_its_price_in_thousandths(
    prices: PriceList, gpus: int, cores: int, memory: int, less_gpus: int, less_cores: int, less_memory: int
) -> None:
    """The price of taking what is free down to the lesser amounts."""
    prices = replace(prices, scarce=())
    taken = Demand(1000 * max(cores - less_cores, 0), max(memory - less_memory, 0), max(gpus - less_gpus, 0), 1000)
    room = Room(1000 * cores, memory, 0 if gpus else -1, (1000,) * gpus, (0,) * gpus)
    asked = (taken.gpus, taken.cores // 1000, taken.memory)
    key = nb.member_key_nb(price_array(prices, MODELS), gpus, cores, memory, *asked)
    cost, _ = twin.price_py(prices, MODELS, room, taken)
    assert key == min(max(cost // nb.ADDED_UNIT + nb.ADDED_ZERO, 0), 2 * nb.ADDED_ZERO - 1)


@given(rooms(), demands(), types)
def test_fgd_agrees_with_its_definition(room: Room, demand: Demand, kinds: list[Type]) -> None:
    if not twin.fits_py(room, demand):
        return
    if demand.mib:  # the published FGD takes GPUs for alike that have as much left
        room = Room(room.cores, room.memory, room.model, room.milli, (16,) * len(room.milli))
    plain = [Type(Demand(k.demand.cores, 0, k.demand.gpus, k.demand.milli, 0, k.demand.models), k.count) for k in kinds]
    grid, wanted, table = as_rooms([room]), as_demands([demand]), as_types(plain)
    grid[0, ROOM_FRAGMENTED] = nb.fragmented_nb(table, grid, 0)
    assert grid[0, ROOM_FRAGMENTED] == twin.fragmented_py(plain, room)
    cost, mask = nb.fgd_nb(table, STEPS, grid, 0, wanted, 0)
    assert (cost, _indices(mask)) == twin.fgd_py(plain, STEPS.tolist(), room, demand)


@given(
    st.lists(rooms(), min_size=1, max_size=6),
    st.lists(demands(), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=30),
    price_lists(),
)
def test_filling_with_kept_costs_is_filling_afresh(
    nodes: list[Room], kinds: list[Demand], order: list[int], prices: PriceList
) -> None:
    """Each arrival goes to the cheapest node priced anew, the lowest of equals, or is rejected where none holds it."""
    order = [kind % len(kinds) for kind in order]
    grid, wanted, places = as_rooms(nodes), as_demands(kinds), np.zeros((4, len(order)), dtype=np.int64)
    places[ARRIVAL_KIND] = order
    costs, seen = np.zeros((len(kinds), len(nodes)), dtype=np.int64), np.array([-1] * len(kinds) + [0])
    none, at = np.zeros((5, 0), dtype=np.int64), 0
    while at < len(order):
        at = fill_nb(OURS, grid, wanted, price_array(prices, MODELS), none, STEPS, costs, seen, places, at, len(order))
        if at < len(order):
            assert not fits_somewhere_nb(grid, wanted, order[at])
            at += 1
    rooms_now = list(nodes)
    for i, kind in enumerate(order):
        offers = [
            (*twin.price_py(prices, MODELS, room, kinds[kind]), n)
            for n, room in enumerate(rooms_now)
            if twin.fits_py(room, kinds[kind])
        ]
        if not offers:
            assert places[ARRIVAL_NODE, i] == -1
            continue
        _, gpus, node = min(offers, key=lambda offer: (offer[0], offer[2]))
        assert (places[ARRIVAL_NODE, i], _indices(int(places[ARRIVAL_GPUS, i]))) == (node, gpus)
        rooms_now[node] = twin.taken_py(rooms_now[node], kinds[kind], gpus)
