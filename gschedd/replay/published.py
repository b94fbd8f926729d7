"""Results that others published for whole traces, to be printed beside ours.

Source: Rivendile/Muri (Apache-2.0), `simulator/draw_fig9-10.py` for the simulated traces 1 and 3; the testbed's rows
are computed from the results of its 400 jobs in the same repository (`cluster_exp/`). Zhao et al., "Multi-Resource
Interleaving for Deep Learning Training", SIGCOMM 2022. All of them are on 8 nodes of 8 GPUs and may preempt; Muri
itself runs several jobs on one GPU at a time and is left out: it cannot be compared with GPUs that are given whole.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Published(Struct, frozen=True):
    """Seconds; None where nothing was published."""

    policy: str
    completion_mean_s: int
    makespan_s: int | None = None


# (jobs, GPU seconds of all of them, nodes) -> rows. What a trace holds tells which one it is; a file may have any name.
_ROWS: Final[dict[tuple[int, int, str], tuple[Published, ...]]] = {
    (1494, 1_379_976_363, "8x8"): (
        Published("SRTF", 1_370_603, 26_045_466),
        Published("SRSF", 980_141, 26_065_759),
        Published("Tiresias", 3_330_371),
        Published("Themis", 1_823_179),
    ),
    (992, 420_084_355, "8x8"): (
        Published("SRTF", 193_082, 8_174_135),
        Published("SRSF", 185_022, 8_174_135),
        Published("Tiresias", 347_213),
        Published("Themis", 397_059),
    ),
    (400, 220_836_929, "8x8"): (
        Published("SRTF", 249_140, 4_156_633),
        Published("SRSF", 238_612, 4_223_122),
        Published("Tiresias", 336_533, 3_959_797),
        Published("Themis", 461_456, 3_924_819),
    ),
}


def published(jobs: int, gpu_s: int, nodes: str) -> tuple[Published, ...]:
    """The rows for exactly this trace on exactly these nodes; () = there are none."""
    return _ROWS.get((jobs, gpu_s, nodes), ())
