"""PURE. The compiled half of a pass: kernels over flat integer arrays and sets of nodes as bitmaps.

May import numpy and numba only. Every kernel carries the suffix `_nb` and has a plain twin (`core/*_twin.py`,
`core/twins.py` for the whole pass). Start at `walk.py` (the queue), then `start.py` (one job), `find.py` (which nodes
hold a member), `place.py` (which of them), `take.py`; `ahead.py` (planned starts), `earliest.py`, `events.py` and
`room.py` (what is free when); `victims.py` (preemption). Apart: `order.py` (the queue's order), `links.py`,
`pieces.py` and `slices.py` (which GPUs, and parts of one), `fragment.py`, `shares.py` and `fill.py` (packing as `gsim
pack` judges it).
numba's cache of a kernel does not notice an edit of a kernel it calls from another file: whoever turns the cache on
gives it a directory named after the sources (`gschedd/kernel_cache.py`).
"""
