"""What lies in a folder, so that it can be told afterwards what a command changed; and results without their times."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.support.timeless import timeless_table

Snapshot = dict[str, str]  # path below the folder → what is there

LEAVES = ("lock",)  # names that come and go
_DIGEST = re.compile("[0-9a-f]{32}")
_MOST = 1 << 26  # bytes of a file that are read; larger ones are holes


def snapshot(folder: Path) -> Snapshot:
    """What every path below a folder is: its kind, and of files the digest of what they hold."""
    found: Snapshot = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            if name not in LEAVES:
                found[os.path.relpath(path, folder)] = _kind(path)
    return found


def _kind(path: str) -> str:
    mode, size = os.lstat(path).st_mode, os.lstat(path).st_size
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    if stat.S_ISREG(mode) and size > _MOST:
        return f"{size:,} bytes"
    if stat.S_ISREG(mode):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest()
    return "folder" if stat.S_ISDIR(mode) else f"mode {stat.S_IFMT(mode):o}"


def difference(before: Snapshot, after: Snapshot) -> dict[str, str]:
    """Which paths are new, changed or gone."""
    names = sorted({*before, *after})
    changed = [name for name in names if before.get(name) != after.get(name)]
    return {name: "new" if name not in before else "gone" if name not in after else "changed" for name in changed}


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a path is one of those that the patterns name, or lies below one."""
    parts = name.split(os.sep)
    heads = [os.sep.join(parts[:count]) for count in range(1, len(parts) + 1)]
    return any(fnmatch(head, pattern) for pattern in patterns for head in heads)


# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────

TIMES = {
    *("seconds", "times", "queries_per_second", "exact_queries_per_second", "tokens_per_second", "since", "made"),
    *("waited_for_tokens", "waited_for_disk", "computed_tokens", "padded_tokens"),
    *("resumed", "cached", "kept_parts", "nothing_to_do", "told"),  # what was there already
    *("digest", "bytes", "xxh3", "run", "stamps"),  # over times; when a file was written
}
"""Fields of JSON that differ from run to run: how long something took, and digests of files that say so."""


def timeless(value: Any) -> Any:
    """A JSON value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def timeless_text(text: str) -> str:
    """JSON, or lines of JSON, without times; other text as it is."""
    try:
        return json.dumps(timeless(json.loads(text)))
    except (ValueError, RecursionError):
        pass
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.dumps(timeless(json.loads(line))))
        except (ValueError, RecursionError):
            lines.append(line)
    return "\n".join(lines)


def contents(folder: Path, patterns: Iterable[str], *, pictures: bool = False) -> Snapshot:
    """What lies at those places, JSON without its times, locks left out."""
    found = {}
    for name, kind in snapshot(folder).items():
        if matches(name, patterns) and (pictures or not name.endswith(".png")):
            if kind.startswith("link to ") and (folder / name).is_file():
                kind = _kind(os.path.realpath(folder / name))  # it is read through the link
            text = name.endswith((".json", ".jsonl", ".html")) and _DIGEST.fullmatch(kind)
            found[name] = timeless_text((folder / name).read_text("utf-8", "replace")) if text else kind
            if name.endswith("table7.md") and _DIGEST.fullmatch(kind):
                found[name] = timeless_table((folder / name).read_text("utf-8", "replace"))
    return found
