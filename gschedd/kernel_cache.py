"""Where compiled kernels are kept: a directory named after the kernels' sources.

numba's cache of a kernel looks at that kernel's own file only and does not notice an edit of a kernel it calls, so an
old result could come back; a name made from all the sources cannot. Set `NUMBA_CACHE_DIR` to it before numba is
imported, that is, before anything of `gschedd.core`.
"""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from pathlib import Path

from gsched.errors import BadConfig


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


def use_kernel_cache(base: Path) -> Path:
    """Make numba keep its cache below `base`, or below $NUMBA_CACHE_DIR where that is set. Call it before the import.

    The cache is code. Raises BadConfig if others may write there, or if it cannot be made.
    """
    place = Path(cache_directory(os.environ.get("NUMBA_CACHE_DIR") or str(base)))
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _only_ours(place.parent, 0o002)  # a group of the user's own may write it: umask 002 is common
        _only_ours(place, 0o022)
    except OSError as error:
        raise BadConfig(f"the directory for compiled kernels {place} cannot be used: {error.strerror}") from None
    os.environ["NUMBA_CACHE_DIR"] = str(place)
    return place


def _only_ours(path: Path, forbidden: int) -> None:
    found = path.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise BadConfig(f"{path} holds compiled code and belongs to uid {found.st_uid}: expected {os.geteuid()}")
    if found.st_mode & forbidden:
        raise BadConfig(
            f"{path} holds compiled code and others may write it (mode {found.st_mode & 0o7777:o}): chmod go-w {path}"
        )
