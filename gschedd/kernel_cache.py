"""Where compiled kernels are kept: a directory named after the kernels' sources.

numba's cache of a kernel looks at that kernel's own file only and does not notice an edit of a kernel it calls, so an
old result could come back; a name made from all the sources cannot. Set `NUMBA_CACHE_DIR` to it before numba is
imported, that is, before anything of `gschedd.core`.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path


def cache_directory(base: str) -> str:
    """`base` and a name made from the kernels' sources; given such a directory, the same again."""
    digest = hashlib.sha256()
    # By path, not through the package: importing gschedd.core.kernels would import numba too soon.
    sources = resources.files("gschedd").joinpath("core").joinpath("kernels")
    for source in sorted(sources.iterdir(), key=lambda entry: entry.name):
        if source.name.endswith(".py"):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    name = f"kernels-{digest.hexdigest()[:16]}"
    return base if Path(base).name == name else str(Path(base) / name)
