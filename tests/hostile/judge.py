"""What a command may not do, whatever it is given."""

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.hostile.process import Ended
from tests.hostile.snapshot import Snapshot, difference, matches

MOST_PROCESSOR = 60.0  # seconds that a tiny command may compute
MOST_MEGABYTES = 1_500.0  # the warm process has about 450 of them
MOST_MESSAGE = 6_000  # characters of stderr

_NOISE = re.compile(  # what FAISS, which is C++, writes to stderr; and progress
    r"file \S+ close error: No space left on device|^epoch \d+: .*\n", re.MULTILINE
)
_QUOTED = re.compile(  # whose own words are as good as any
    r"(?:FAISS cannot read this file|not a sound Parquet file): [^\n]*"
)
_CRASH = re.compile(r"Traceback \(most recent|this is a bug in bertfeat|Fatal Python error|terminate called")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_INNER = re.compile(  # what only programmers read
    r"<class '|object at 0x|PosixPath\(|\bNoneType\b|\w+Error\b(?! in virtual)|\bfaiss::|\.cpp:\d|\.py\b|<\w+\.\w+: '|"
    r"dtype\('|Exception|\bself\b|__\w+__"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What is right for one case."""

    codes: tuple[int, ...] = (0, 1, 2)
    writes: tuple[str, ...] = ()  # patterns of paths that a command may make, and change if it ends well
    redoes: bool = False  # it may change them as well if it ends with an error: what is damaged is done again
    names: tuple[str, ...] = ()  # of which an error must name one
    megabytes: float = MOST_MEGABYTES
    processor: float = MOST_PROCESSOR
    plain: bool = True  # whether messages are held against the words of programmers


ANY_END = Rule()


def problems(ended: Ended, rule: Rule, before: Snapshot, after: Snapshot, left: Sequence[str]) -> list[str]:
    """Everything that is wrong with how a command ended; ``left`` are temporary files."""
    found = [*_ending(ended, rule), *_messages(ended, rule), *_files(ended, rule, before, after)]
    if left:
        found.append(f"leaves temporary files: {', '.join(left[:3])}")
    return found


def _ending(ended: Ended, rule: Rule) -> Iterator[str]:
    if ended.where is not None:
        yield f"hangs after {ended.seconds:.0f} s: {_place(ended.where)}"
    elif ended.code < 0:
        yield f"dies of {signal.Signals(-ended.code).name}"
    elif ended.code not in rule.codes:
        yield f"ends with {ended.code}, and may with {', '.join(map(str, rule.codes))}"
    if ended.where is None and ended.processor > rule.processor:
        yield f"computes for {ended.processor:.0f} s"
    if ended.megabytes > rule.megabytes:
        yield f"takes {ended.megabytes:,.0f} MB"


def _place(where: str) -> str:
    lines = [line.strip() for line in where.splitlines() if line.startswith("  File")]
    return " < ".join(lines[:4]) or "no Python frame"


def _messages(ended: Ended, rule: Rule) -> Iterator[str]:
    text = _NOISE.sub("", ended.stderr)
    if len(text) > MOST_MESSAGE:
        yield f"says {len(text):,} characters"
        text = text[:MOST_MESSAGE]
    if match := _CRASH.search(text + ended.stdout):
        yield f"{match[0]}: {_last_line(text)}"
        return
    errors = [line for line in text.splitlines() if line.lower().startswith("error:")]
    not_sound = "DOES NOT HOLD" in ended.stdout or '"holds": false' in ended.stdout
    is_help = ended.code == 2 and "Commands:" in text + ended.stdout  # of a group alone
    if ended.code in (1, 2) and len(errors) != 1 and not not_sound and not is_help:
        yield f"says {len(errors)} errors"
    if ended.code == 3 and "warning:" not in text:
        yield "ends with 3 and says nothing"
    if ended.code == 0 and errors:
        yield f"ends well and says {errors[0]}"
    if match := _CONTROL.search(text):
        yield f"writes the control character {match[0]!r} to stderr"
    if rule.plain and (match := _INNER.search(_QUOTED.sub("", text))):
        yield f"speaks to programmers ({match[0]}): {_last_line(text)}"
    if rule.names and ended.code in (1, 2) and not any(name in text + ended.stdout for name in rule.names):
        yield f"does not name {' or '.join(rule.names)}: {_last_line(text)}"


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if "this is a bug in bertfeat" not in line]
    return lines[-1][:300] if lines else ""


def _files(ended: Ended, rule: Rule, before: Snapshot, after: Snapshot) -> Iterator[str]:
    for name, change in difference(before, after).items():
        if name.endswith(".tmp") and change == "gone":  # what a killed run left
            continue
        if name.endswith("/.bertfeat/words.arrow"):  # the word index, which the first look-up makes
            continue
        inside = matches(name, rule.writes)
        if not inside and not any(pattern.startswith(f"{name}/") for pattern in rule.writes):
            yield f"outside its output: {name} is {change}"
        elif change != "new" and ended.code not in (0, 3) and not rule.redoes:
            yield f"fails, and {name} is {change}"
        elif name.endswith(".tmp") and change == "new" and ended.code >= 0:
            yield f"leaves {name}"
