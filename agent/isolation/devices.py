"""Which GPUs' device nodes the processes of a control group may open: a small program in the kernel.

The kernel asks it at each open of a device node (BPF_PROG_TYPE_CGROUP_DEVICE of linux/bpf.h, kernel 4.15). It holds for
directories of version 2, and also where version 1 has the `devices` controller. NVIDIA's nodes have the major 195; the
minors from 254 up (`nvidia-modeset`, `nvidiactl`) are of the driver and of no GPU.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NVIDIA_MAJOR: Final = 195
FIRST_OF_DRIVER: Final = 254

_SYSCALL: Final = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD: Final = 5
_PROG_ATTACH: Final = 8
_PROG_TYPE: Final = 15
_ATTACH_TYPE: Final = 6
_ALLOW_MULTI: Final = 2
# Opcodes: load a 32-bit word, jump if not equal, if equal, if at least; move a constant, exit.
_LDX, _JNE, _JEQ, _JGE, _MOV, _EXIT = 0x61, 0x55, 0x15, 0x35, 0xB7, 0x95


def allow_only(group: Path, minors: Iterable[int]) -> None:
    """Let a version 2 group open these GPUs' nodes and no other's. Raises OSError.

    The program goes with the directory; a second one on the same group can only forbid more.
    """
    program = _load(gpu_program(minors))
    try:
        directory = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("=IIII", directory, program, _ATTACH_TYPE, _ALLOW_MULTI))
        finally:
            os.close(directory)
    finally:
        os.close(program)


def gpu_program(minors: Iterable[int]) -> bytes:
    """Instructions: 1 for what is no GPU and for a GPU of `minors`, else 0.

    The context is three words: access, major, minor.
    """
    allowed = sorted(set(minors))
    rest = len(allowed) + 2  # after the test of the driver's own: a test a GPU, then two that forbid
    code = [
        _instruction(_LDX, 2, 1, 4),
        _instruction(_JNE, 2, offset=rest + 2, constant=NVIDIA_MAJOR),
        _instruction(_LDX, 3, 1, 8),
        _instruction(_JGE, 3, offset=rest, constant=FIRST_OF_DRIVER),
    ]
    code += [_instruction(_JEQ, 3, offset=rest - 1 - at, constant=minor) for at, minor in enumerate(allowed)]
    code += [_instruction(_MOV, 0, constant=0), _instruction(_EXIT)]
    code += [_instruction(_MOV, 0, constant=1), _instruction(_EXIT)]
    return b"".join(code)


def _instruction(opcode: int, target: int = 0, source: int = 0, offset: int = 0, constant: int = 0) -> bytes:
    return struct.pack("=BBhi", opcode, target | source << 4, offset, constant)


def _load(program: bytes) -> int:
    code = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(b"Apache-2.0")
    head = struct.pack(
        "=IIQQIIQII", _PROG_TYPE, len(program) // 8, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0
    )
    return _bpf(_PROG_LOAD, head)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(f"device programs are not supported on {platform.machine()}")
    block = ctypes.create_string_buffer(attributes, len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    got: int = libc.syscall(number, command, ctypes.byref(block), len(attributes))
    if got < 0:
        raise OSError(ctypes.get_errno(), f"bpf: {os.strerror(ctypes.get_errno())}")
    return got
