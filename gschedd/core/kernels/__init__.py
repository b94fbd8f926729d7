"""PURE. The compiled half of a pass: kernels over flat integer arrays, one undo-free walk over the queue.

May import numpy and numba only. Every kernel carries the suffix `_nb` and has a plain twin in `core/twins.py`.
Start at `walk.py` (the pass), then `place.py` (which nodes), `room.py` (what is free when), `links.py` (which GPUs),
`slices.py` (which slices of a GPU).
numba's cache of a kernel does not notice an edit of a kernel it calls from another file: whoever turns the cache on
gives it a directory named after the sources (`gschedd/kernel_cache.py`).
"""
