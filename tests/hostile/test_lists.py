"""Queries, ids, judgments, predictions and probes as nobody should write them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile.judge import Rule
from tests.hostile.uses import IDS, JUDGED, PREDICTIONS, PROBE, QUERIES
from tests.hostile.yard import Result, Tell, Use, Yard

_NUL, _BAD = b"a\0b\n", b"a\xff\xfeb\n"
LINES: dict[str, bytes] = {
    "nothing": b"",
    "one line feed": b"\n",
    "blank lines": b"\n \n\t\n",
    "a NUL": _NUL,
    "no UTF-8": _BAD,
    "UTF-16": "a\nb\n".encode("utf-16"),
    "UTF-16 cut": "a\nbc\n".encode("utf-16")[:-1],
    "UTF-32": "a\nb\n".encode("utf-32"),
    "a mark": b"\xef\xbb\xbfa\n",
    "only a mark": b"\xef\xbb\xbf",
    "carriage returns": b"a\r\nb\rc\r\n",
    "no last line feed": b"a",
    "escapes": b"\x1b[31m\n\xe2\x80\xae\n\x07\n",
    "a line of 100,000 characters": b"a " * 50_000 + b"\n",
    "a line of 5 MB": b"ab" * 2_500_000 + b"\n",
    "3,000 lines": b"bank\n" * 3000,
    "surrogates": b"\xed\xa0\x80\n",
    "noise": bytes(range(256)) * 4,
    "only stars": b"***\n*\n* *\n",
}
JUDGMENTS: dict[str, bytes] = {
    "nothing": b"",
    "the header alone": b"query-id\tcorpus-id\tscore\n",
    "no header": b"q0\t3\t1\n",
    "a grade of 2^31": b"q0\t3\t2147483648\n",
    "a grade of 5,000 digits": b"q0\t3\t" + b"9" * 5000 + b"\n",
    "a grade below zero": b"q0\t3\t-1\n",
    "a grade that is no number": b"q0\t3\tx\n",
    "a grade of 1.5": b"q0\t3\t1.5\n",
    "a grade in other digits": "q0\t3\t\u0663\n".encode(),
    "an empty grade": b"q0\t3\t\n",
    "two columns": b"q0\t3\n",
    "four columns": b"q0\t0\t3\t1\n",
    "blanks for tabs": b"q0 3 1\n",
    "two grades": b"q0\t3\t1\nq0\t3\t2\n",
    "the same twice": b"q0\t3\t1\nq0\t3\t1\n",
    "an unknown query": b"q9\t3\t1\n",
    "an unknown document": b"q0\t999\t1\nq0\t3\t1\n",
    "only unknown documents": b"q0\t999\t1\n",
    "empty ids": b"\t\t1\n",
    "ids with escapes": b"\x1b[31m\t\x1b[0m\t1\n",
    "an id of 5,000 characters": b"q" * 5000 + b"\t3\t1\n",
    "a NUL": b"q0\0\t3\t1\n",
    "no UTF-8": b"q\xff\t3\t1\n",
    "carriage returns": b"q0\t3\t1\r\nq1\t5\t1\r\n",
    "all grades zero": b"q0\t3\t0\nq1\t5\t0\n",
    "100,000 lines": b"".join(b"q0\t%d\t1\n" % at for at in range(100_000)),
}
_QUERY = '{"_id": "q0", "text": "bank"}\n'
BEIR_QUERIES: dict[str, str] = {
    "nothing": "",
    "no JSON": "bank\n",
    "a list": '["q0", "bank"]\n',
    "no id": '{"text": "bank"}\n',
    "no text": '{"_id": "q0"}\n',
    "a text of null": '{"_id": "q0", "text": null}\n',
    "a text of a number": '{"_id": "q0", "text": 5}\n',
    "an empty text": '{"_id": "q0", "text": ""}\n',
    "an id of a number": '{"_id": 5, "text": "bank"}\n',
    "an id of 2^70": f'{{"_id": {2**70}, "text": "bank"}}\n',
    "an id of true": '{"_id": true, "text": "bank"}\n',
    "half a character": '{"_id": "q0", "text": "\\ud800"}\n',
    "half a character in the id": '{"_id": "\\ud800", "text": "bank"}\n',
    "nested deep": '{"_id": "q0", "text": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
    "NaN": '{"_id": "q0", "text": "bank", "x": NaN}\n',
    "a text of 100,000 words": f'{{"_id": "q0", "text": "{"bank " * 100_000}"}}\n',
    "two texts of one query": _QUERY + '{"_id": "q0", "text": "river"}\n',
    "escapes": '{"_id": "q0", "text": "\\u001b[31m\\u0000"}\n',
    "one query of four": _QUERY,
}
PREDICTED: dict[str, bytes] = {
    "one column": b"a\nb\n",
    "two columns": b"a O\nb O\n",
    "columns that differ": b"a O O\nb O\nc O O O\n",
    "tags that are none": b"a X-Y-Z B\nb I- -\nc B-PER B_PER\n",
    "mixed schemes": b"a S-PER B-PER\nb U-PER I-PER\nc E-PER L-PER\n",
    "a tag of 5,000 characters": b"a B-" + b"x" * 5000 + b" O\n",
    "tags with escapes": b"a B-\x1b[31m O\n",
    "5,000 labels": b"".join(b"w B-L%d B-L%d\n" % (at, at + 1) for at in range(5000)),
    "a sentence of 200,000 words": b"w B-A I-A\n" * 200_000,
    "no words": b" O O\n",
    "NBSP between": "a\xa0O\xa0O\n".encode(),
    "tabs": b"a\tO\tO\n\nb\tB-A\tB-A\n",
    "comments": b"# a b c\n-DOCSTART- O O\n",
}
_LAYER = {
    "column": "layer1",
    "layer": 1,
    "measured": {"accuracy": 0.5, "accuracy_spread": 0, "macro_f1": 0.3, "macro_f1_spread": 0},
    "converged": True,
}
_PROBED = {
    "features": "x", "model": "m", "label": "l", "pooling": "mean",
    "folds": 2, "examples": 4, "labeled": 4, "nulls": 0,
    "unaligned": 0, "rare": 0, "classes": {"a": 2, "b": 2}, "majority": "a",
    "baseline": {"accuracy": 0.5, "accuracy_spread": 0, "macro_f1": 0.3, "macro_f1_spread": 0},
    "layers": [_LAYER],
}  # fmt: skip
PROBES: dict[str, str] = {
    "as it is": json.dumps(_PROBED),
    "a hundred probes": "\n".join([json.dumps(_PROBED)] * 100),
    "a layer of 10^9": json.dumps(_PROBED).replace('"layer": 1,', '"layer": 1000000000,'),
    "a layer of 2^62": json.dumps(_PROBED).replace('"layer": 1,', f'"layer": {2**62},'),
    "2,000 layers": json.dumps(
        {**_PROBED, "layers": [{**_LAYER, "layer": at, "column": f"layer{at}"} for at in range(2000)]}
    ),
    "a layer twice": json.dumps({**_PROBED, "layers": [_LAYER] * 2}),
    "a combination only": json.dumps(_PROBED).replace('"layer": 1,', '"layer": null,'),
    "names with escapes": json.dumps(
        {**_PROBED, "label": "\x1b[31m\n", "model": "$\\frac{1}{", "features": "_^{}\u202e"}
    ),
    "names of mathematics": json.dumps({**_PROBED, "label": "$x_{", "model": "\\alpha$", "features": "%"}),
    "a name of 5,000 characters": json.dumps({**_PROBED, "label": "l" * 5000}),
    "an empty name": json.dumps({**_PROBED, "label": "", "model": "", "features": ""}),
    "half a character": json.dumps({**_PROBED, "label": "\ud800"}),
    "characters of no font": json.dumps({**_PROBED, "label": "\U0010ffff\ue000", "model": "은행 🙂"}),
    "accuracy of 2": json.dumps(_PROBED).replace('"accuracy": 0.5', '"accuracy": 2'),
    "accuracy of NaN": json.dumps(_PROBED).replace('"accuracy": 0.5', '"accuracy": NaN'),
    "two lines in one": json.dumps(_PROBED) * 2,
    "UTF-16": json.dumps(_PROBED),
}  # fmt: skip


def _written(name: str, data: bytes) -> Callable[[Path], None]:
    def prepare(place: Path) -> None:
        (place / name).write_bytes(data)

    return prepare


def _run(yard: Yard, uses: tuple[Use, ...], file: str, name: str, data: bytes) -> Iterator[Result]:
    for use in uses:
        rule = Rule(codes=(0, 1, 2), names=(Path(file).name,))
        yield yard.run(use, f"{file}: {name}", f"list: {file}", prepare=_written(file, data), rule=rule)


@pytest.mark.hostile
@pytest.mark.parametrize("name", LINES)
def test_lines(yard: Yard, tell: Tell, name: str) -> None:
    tell([*_run(yard, QUERIES, "queries.txt", name, LINES[name]), *_run(yard, IDS, "ids.txt", name, LINES[name])])


@pytest.mark.hostile
@pytest.mark.parametrize("name", JUDGMENTS)
def test_judgments(yard: Yard, tell: Tell, name: str) -> None:
    tell(_run(yard, JUDGED, "beir/qrels/test.tsv", name, JUDGMENTS[name]))


@pytest.mark.hostile
@pytest.mark.parametrize("name", BEIR_QUERIES)
def test_queries_of_beir(yard: Yard, tell: Tell, name: str) -> None:
    tell(_run(yard, JUDGED, "beir/queries.jsonl", name, BEIR_QUERIES[name].encode()))


@pytest.mark.hostile
@pytest.mark.parametrize("name", [*PREDICTED, *LINES])
def test_predictions(yard: Yard, tell: Tell, name: str) -> None:
    tell(_run(yard, PREDICTIONS, "predictions.tsv", name, PREDICTED.get(name, LINES.get(name, b""))))


@pytest.mark.hostile
@pytest.mark.parametrize("name", PROBES)
def test_probes(yard: Yard, tell: Tell, name: str) -> None:
    tell(_run(yard, PROBE, "probe.json", name, PROBES[name].encode("utf-16" if name == "UTF-16" else "utf-8")))


@pytest.mark.parametrize("number", range(8))
def test_some_lists(yard: Yard, tell: Tell, number: int) -> None:
    judged = list(JUDGMENTS)[number * 3]
    asked = list(LINES)[number * 2]
    tell(
        [
            *_run(yard, JUDGED, "beir/qrels/test.tsv", judged, JUDGMENTS[judged]),
            *_run(yard, IDS, "ids.txt", asked, LINES[asked]),
        ]
    )
