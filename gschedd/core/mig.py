"""MIG: which instances a GPU can be cut into, and where each may lie. Facts, in a form of our own.

A GPU's memory is cut into slices; an instance of a profile takes a run of them that may begin at certain slices only.
In a mask bit n is memory slice n; bit 8 (`MEDIA`) is the media engines, which one `+me` instance of a GPU may have. Two
instances can stand beside each other if their masks do not meet: with these starts the compute slices never run out
first, so that nothing else needs to be checked.

Sources. Profiles, their slices and how many of each: NVIDIA's MIG user guide ("Supported MIG Profiles") and the output
of `nvidia-smi mig -lgip`; starts: that of `nvidia-smi mig -lgipp` on A100 40 and 80 GB, H100 NVL 94 GB and A30 cards.
For H100 80 and 96 GB, H200, B200 and GB200 starts are taken to be those of the H100 NVL: the guide gives the same
fractions and the same numbers of instances. Names of profiles that no dump was found of: NVIDIA/mig-parted
`builder_test.go`.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

from msgspec import Struct

from gsched.values.node import Gpu

MEDIA: Final = 1 << 8
MASKS: Final = 1 << 9  # of occupied slices and the media engines
_MIB_OFF_PERCENT: Final = 5  # what a driver reports is a little less than what is on the box


class Profile(Struct, frozen=True):
    """One kind of instance on one model of GPU."""

    name: str  # as nvidia-smi prints it: 1g.10gb, 1g.10gb+me
    compute: int  # slices
    memory: int  # slices
    placements: tuple[int, ...]  # masks, the lowest start first
    most: int  # instances of it on one GPU


class MigModel(Struct, frozen=True):
    """One model of GPU. Profiles are from the largest to the smallest."""

    name: str
    slices: int  # of memory
    profiles: tuple[Profile, ...]

    @property
    def whole(self) -> int:
        """The mask of everything."""
        return (1 << self.slices) - 1 | MEDIA

    def profile(self, name: str) -> Profile | None:
        return next((profile for profile in self.profiles if profile.name == name), None)

    def milli(self, profile: Profile) -> int:
        """Thousandths of the GPU, for quotas and charge: exact, for there are 4 or 8 slices."""
        return 1000 * profile.memory // self.slices


# Compute slices, memory slices, starts, most instances; from the largest to the smallest.
_SEVEN: Final = {
    "7g": (7, 8, (0,), 1),
    "4g": (4, 4, (0,), 1),
    "3g": (3, 4, (0, 4), 2),
    "2g": (2, 2, (0, 2, 4), 3),
    "1g x2": (1, 2, (0, 2, 4, 6), 4),  # with the memory of two
    "1g": (1, 1, (0, 1, 2, 3, 4, 5, 6), 7),
    "1g+me": (1, 1, (0, 1, 2, 3, 4, 5, 6), 1),
}
_FOUR: Final = {
    "4g": (4, 4, (0,), 1),
    "2g": (2, 2, (0, 2), 2),
    "2g+me": (2, 2, (0, 2), 1),
    "1g": (1, 1, (0, 1, 2, 3), 4),
    "1g+me": (1, 1, (0, 1, 2, 3), 1),
}
# A word of NVML's name, GB on the box, and GB in the names of profiles of 1, 2, 4 and 8 memory slices (A30: 1, 2, 4).
_MODELS: Final = (
    ("A100", 40, (5, 10, 20, 40)),
    ("A100", 80, (10, 20, 40, 80)),
    ("H100", 80, (10, 20, 40, 80)),
    ("H100", 94, (12, 24, 47, 94)),
    ("H100", 96, (12, 24, 48, 96)),
    ("GH200", 96, (12, 24, 48, 96)),
    ("H200", 141, (18, 35, 71, 141)),
    ("B200", 180, (23, 45, 90, 180)),
    ("GB200", 186, (23, 47, 93, 186)),
    ("A30", 24, (6, 12, 24)),
)


def _model(word: str, gigabytes: int, sizes: tuple[int, ...]) -> MigModel:
    shape, slices = (_SEVEN, 8) if len(sizes) == 4 else (_FOUR, 4)
    profiles = []
    for key, (compute, memory, starts, most) in shape.items():
        media = key.endswith("+me")
        name = f"{compute}g.{sizes[memory.bit_length() - 1]}gb" + ("+me" if media else "")
        masks = tuple(((1 << memory) - 1) << start | (MEDIA if media else 0) for start in starts)
        profiles.append(Profile(name, compute, memory, masks, most))
    return MigModel(f"{word}-{gigabytes}GB", slices, tuple(profiles))


MODELS: Final = tuple(_model(*row) for row in _MODELS)


def mig_model(gpu: Gpu) -> MigModel | None:
    """The model of a GPU that can be cut, by the words of its name and its memory; None for others."""
    return _find(gpu.model, gpu.memory_mib)


@lru_cache(maxsize=256)
def _find(model: str, memory_mib: int) -> MigModel | None:
    words = set(re.split(r"[^A-Z0-9]+", model.upper()))
    near = [
        (abs(memory_mib - 1024 * gigabytes), index)
        for index, (word, gigabytes, _) in enumerate(_MODELS)
        if word in words and 100 * abs(memory_mib - 1024 * gigabytes) <= _MIB_OFF_PERCENT * 1024 * gigabytes
    ]
    return MODELS[min(near)[1]] if near else None


@cache
def keeps(model: MigModel) -> tuple[int, ...]:
    """What still fits beside each mask of occupied slices: how many instances of each profile, the largest highest.

    Four bits a profile, so that of two masks the one with the greater number keeps larger profiles possible. The
    placements of one profile do not meet, so as many fit as are free, up to the most that a GPU may have.
    """
    table = []
    for occupied in range(MASKS):
        number = 0
        for profile in model.profiles:
            free = sum(not occupied & mask for mask in profile.placements)
            number = number << 4 | min(free, profile.most)
        table.append(number)
    return tuple(table)
