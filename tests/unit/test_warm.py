"""No kernel is left for the first real pass to compile."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: other tests compile kernels too, some for arrays that no pass has.
_LIST_COLD = """
import pkgutil, importlib
import gschedd.core
from gschedd.core.warm import compile_kernels
compile_kernels()
for entry in pkgutil.iter_modules(gschedd.core.__path__, "gschedd.core."):
    for name, value in vars(importlib.import_module(entry.name)).items():
        if name.endswith("_nb") and len(value.nopython_signatures) != 1:
            print(entry.name, name, value.nopython_signatures)
"""


def test_every_kernel_that_the_core_calls_is_compiled_before_the_first_pass_and_once() -> None:
    found = subprocess.run([sys.executable, "-c", _LIST_COLD], capture_output=True, text=True, check=True)
    assert found.stdout == ""
