"""`python -m tests.bench [WORD...]`: run every benchmark, or those with one of the words in their names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.bench.report import describe_machine

HERE = Path(__file__).parent


def main() -> int:
    words = sys.argv[1:]
    names = [p.stem for p in sorted(HERE.glob("bench_*.py")) if not words or any(word in p.stem for word in words)]
    print(describe_machine(), flush=True)
    failed = [name for name in names if status_of(name) != 0]
    if failed or not names:
        print(f"bench: error: {', '.join(failed) + ' failed' if failed else 'no benchmark has that name'}")
    return 1 if failed or not names else 0


def status_of(name: str) -> int:
    return subprocess.run([sys.executable, "-m", f"tests.bench.{name}"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
