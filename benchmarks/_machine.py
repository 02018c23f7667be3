"""Hardware, versions, load and commit that a result was measured with."""

import hashlib
import os
import platform
import subprocess
import tokenize
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("bertfeat", "numpy", "pyarrow", "tokenizers", "torch", "transformers")
ROOT = Path(__file__).resolve().parent.parent
SOURCES = {".py", ".c", ".h", ".js", ".txt"}


def machine(*others: str) -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "processor": next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown"),
        "microarchitecture": microarchitecture(),
        "extensions": [flag for flag in ("avx512f", "avx512_bf16", "amx_bf16") if flag in flags],
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory) / 2**20, 1),
        "load_before": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in (*LIBRARIES, *others)},
        "commit": commit(),
        "code": {room: digest_of_room(room) for room in rooms()},
    }


def microarchitecture() -> str:
    """The generation of the processor, which its name often hides: zen4, or the vendor's numbers of it."""
    told: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        told.setdefault(name.strip(), value.strip())
    vendor, family, model = (told.get(name, "0") for name in ("vendor_id", "cpu family", "model"))
    zen = {"25": "zen4" if "avx512f" in told.get("flags", "").split() else "zen3", "26": "zen5"}
    if vendor == "AuthenticAMD" and family in zen:
        return zen[family]
    return f"{vendor.removeprefix('Genuine').lower()}-{family}-{model}"


def commit() -> str:
    """The commit that is checked out; with a ``+`` where files differ from it."""
    told = subprocess.run(
        ["git", "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or "unknown"


def rooms(root: Path = ROOT) -> list[str]:
    """The folders of the package, each a room of docs/architecture.md."""
    return sorted(path.name for path in (root / "bertfeat").iterdir() if (path / "__init__.py").exists())


def digest_of_room(room: str, root: Path = ROOT) -> str:
    """A digest of the code of a room, without comments and docstrings."""
    digest = hashlib.sha256()
    folder = root / "bertfeat" / room
    for path in sorted(path for path in folder.rglob("*") if path.suffix in SOURCES):
        code = _code_alone(path) if path.suffix == ".py" else path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + code)
    return digest.hexdigest()[:12]


def _code_alone(path: Path) -> bytes:
    """The tokens of a module without comments, layout and statements that are nothing but a string."""
    begins, kept = True, []
    for kind, text in _tokens(path):
        if kind not in _LAYOUT and not (begins and kind == tokenize.STRING):
            kept.append(text)
        begins = kind in _BEGINS or (begins and kind in _LAYOUT)
    return " ".join(kept).encode()


def _tokens(path: Path) -> Iterator[tuple[int, str]]:
    """The kind and text of each token. An f-string is one string, as it was before Python 3.12 took it apart."""
    lines = path.read_text().splitlines(keepends=True)
    depth, begin = 0, (0, 0)
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            opens, closes = token.type == _F_STRING_START, token.type == _F_STRING_END
            if opens and depth == 0:
                begin = token.start
            depth += opens - closes
            if closes and depth == 0:
                yield tokenize.STRING, _between(lines, begin, token.end)
            elif not closes and depth == 0:
                yield token.type, token.string


def _between(lines: list[str], begin: tuple[int, int], end: tuple[int, int]) -> str:
    """The source from one place to another, each a line from 1 and a column."""
    spanned = lines[begin[0] - 1 : end[0]]
    spanned[-1] = spanned[-1][: end[1]]
    spanned[0] = spanned[0][begin[1] :]
    return "".join(spanned)


_BEGINS = {tokenize.ENCODING, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_F_STRING_START, _F_STRING_END = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1)
_LAYOUT = _BEGINS | {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}
