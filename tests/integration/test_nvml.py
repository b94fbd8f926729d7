"""The inventory of GPUs, asked of a driver library that the test makes: one bad GPU hides no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parts import require

# Four GPUs; number 2 is lost. 0 and 1 are joined by four links, or all are on a switch by six, as WITH_SWITCH says.
STUB = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
static int gpus[4] = {0, 1, 2, 3};
static int on_switch(void) { return getenv("WITH_SWITCH") != NULL; }
static void pci(int i, Pci *p) { memset(p, 0, sizeof *p); sprintf(p->bus_id, "00000000:%02X:00.0", 0x10 + i); }
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int e) { return "an error"; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "555.42"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, int **h) { *h = &gpus[i]; return i == 2 ? 15 : 0; }
int nvmlDeviceGetPciInfo_v3(int *h, Pci *p) { pci(*h, p); return 0; }
int nvmlDeviceGetUUID(int *h, char *s, unsigned n) { snprintf(s, n, "GPU-%d", *h); return 0; }
int nvmlDeviceGetMinorNumber(int *h, unsigned *m) { if (*h == 3) return 3; *m = 7 - *h; return 0; }
int nvmlDeviceGetName(int *h, char *s, unsigned n) { snprintf(s, n, "NVIDIA Test"); return 0; }
int nvmlDeviceGetMemoryInfo(int *h, Memory *m) { m->total = 80ULL << 30; m->free = m->total; m->used = 0; return 0; }
int nvmlDeviceGetNvLinkState(int *h, unsigned link, int *on) {
    if (link >= (on_switch() ? 6 : *h < 2 ? 4 : 0)) return 2;
    *on = 1;
    return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(int *h, unsigned link, int *t) { *t = on_switch() ? 2 : 0; return 0; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(int *h, unsigned link, Pci *p) { pci(1 - *h, p); return 0; }
int nvmlDeviceGetTopologyCommonAncestor(int *a, int *b, int *level) { *level = 50; return 0; }
"""

ASK = """
import json, msgspec
from agent.inventory.nvml import read_gpus
print(json.dumps(msgspec.to_builtins(read_gpus())))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    require("a C compiler", compiler, "the test makes a driver library with it")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "stub.c").write_text(STUB)
    command = [
        str(compiler),
        "-shared",
        "-fPIC",
        "-w",
        "-Wl,-soname,libnvidia-ml.so.1",
        "-o",
        "libnvidia-ml.so.1",
        "stub.c",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def ask(library: Path, **environment: str) -> dict[str, object]:
    """In a process of its own: pynvml keeps the library it found for the process's life."""
    run = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "LD_LIBRARY_PATH": str(library), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_a_lost_gpu_is_named_and_the_others_are_there_under_their_own_numbers(library: Path) -> None:
    found = ask(library)
    gpus = found["gpus"]
    assert isinstance(gpus, list)
    assert [(gpu["index"], gpu["uuid"], gpu["memory_mib"]) for gpu in gpus] == [
        (0, "GPU-0", 81920),
        (1, "GPU-1", 81920),
        (3, "GPU-3", 81920),
    ]
    assert gpus[0]["pci_bus_id"] == "00000000:10:00.0"
    assert [gpu["minor"] for gpu in gpus] == [7, 6, -1]
    assert found["driver"] == "555.42"
    assert "GPU 2" in str(found["bad"])


def test_links_are_told_as_the_matrix_of_nvidia_smi(library: Path) -> None:
    assert ask(library)["links"] == [["X", "NV4", "SYS"], ["NV4", "X", "SYS"], ["SYS", "SYS", "X"]]
    assert ask(library, WITH_SWITCH="1")["links"] == [["X", "NV6", "NV6"], ["NV6", "X", "NV6"], ["NV6", "NV6", "X"]]
