"""Sets of texts that were split: each span is embedded alone, wherever parts are cut, and whoever makes them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat import CorpusSettings, FeatureSet, verify_features
from bertfeat.core.extraction import ExtractionReport
from bertfeat.scale import Processes
from tests.support.runs import accounted, contents, extractor, jsonl_file, lines
from tests.support.tiny_models import SENTENCES, Tiny

PARAGRAPHS = CorpusSettings(split="paragraphs", keep=("year",))


def _records(count: int = 5) -> list[dict[str, Any]]:
    """Texts of one to nine paragraphs, one of none."""
    texts = ["\n\n".join(lines(1 + 4 * at % 9, 10 * at)) for at in range(count)]
    records = [{"id": f"t{at}", "text": text, "year": 1900 + at} for at, text in enumerate(texts)]
    return [*records[:2], {"id": "none", "text": " \n ", "year": 0}, *records[2:]]


def _spans(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The paragraphs of texts as records of their own."""
    return [
        {"id": f"{record['id']}#{at}", "text": text, "year": record["year"]}
        for record in records
        for at, text in enumerate(record["text"].split("\n\n"))
        if text.strip()
    ]


def _ids(features: FeatureSet) -> list[str]:
    ids: list[str] = features.to_arrow(["id"])["id"].to_pylist()
    return ids


def _extract(tiny: Tiny, corpus: Path | str, folder: Path, **more: Any) -> ExtractionReport:
    settings: dict[str, Any] = {"corpus_settings": PARAGRAPHS, "part_rows": 4} | more
    return extractor(tiny, pooling="mean,token").extract(corpus, folder, **settings)


def test_a_span_is_embedded_as_a_document_of_its_own(bert: Tiny, tmp_path: Path) -> None:
    records = _records()
    report = _extract(bert, jsonl_file(tmp_path / "c.jsonl", records), tmp_path / "split")
    alone = jsonl_file(tmp_path / "alone.jsonl", _spans(records))
    _extract(bert, alone, tmp_path / "alone", corpus_settings=CorpusSettings(keep=("year",)))
    split, given = FeatureSet(tmp_path / "split"), FeatureSet(tmp_path / "alone")
    assert (len(split), report.blank, accounted(report)) == (len(given), 1, len(given) + 1)
    assert report.parts > 2
    assert _ids(split) == _ids(given)
    for column in split.columns:
        one, other = ([batch.matrix for batch in each.batches(column.name)] for each in (split, given))
        np.testing.assert_array_equal(np.concatenate(one), np.concatenate(other))
    table = split.to_arrow(["text_id", "position", "start", "end", "text", "year"]).to_pylist()
    texts = {record["id"]: record for record in records}
    assert [row["text"] for row in table] == [texts[r["text_id"]]["text"][r["start"] : r["end"]] for r in table]
    assert [row["year"] for row in table] == [texts[row["text_id"]]["year"] for row in table]
    assert [f"{row['text_id']}#{row['position']}" for row in table] == _ids(split)
    assert split.header.settings.split == "paragraphs"
    assert given.header.settings.split is None


@pytest.mark.parametrize("way", ["processes", "resumed", "stdin"])
def test_every_way_gives_the_same_bytes(bert: Tiny, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = jsonl_file(tmp_path / "c.jsonl", _records())
    whole = _extract(bert, corpus, tmp_path / "whole")
    if way == "processes":
        _extract(bert, corpus, tmp_path / "out", engine=Processes(2))
    elif way == "resumed":
        _extract(bert, corpus, tmp_path / "out")
        parts = sorted((tmp_path / "out").glob("part-*"))
        parts[1].unlink()
        parts[-1].unlink()
        report = _extract(bert, corpus, tmp_path / "out")
        assert report.kept_parts == whole.parts - 2
    else:
        with corpus.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            _extract(bert, "-", tmp_path / "out", corpus_settings=replace(PARAGRAPHS, format="jsonl"))
    if way != "stdin":
        assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert _ids(FeatureSet(tmp_path / "out")) == _ids(FeatureSet(tmp_path / "whole"))
    verified = verify_features(tmp_path / "out", corpus=corpus)  # which splits it as the set was
    assert verified.holds
    assert verified.sampled == len(FeatureSet(tmp_path / "whole"))


def test_an_edited_paragraph_costs_a_paragraph(bert: Tiny, tmp_path: Path) -> None:
    records = _records()
    corpus = jsonl_file(tmp_path / "c.jsonl", records)
    before = _extract(bert, corpus, tmp_path / "set")
    paragraphs = records[1]["text"].split("\n\n")
    new = "A new one that was put in."
    records[1]["text"] = "\n\n".join([paragraphs[0], new, *paragraphs[1:]])
    jsonl_file(corpus, records)
    report = _extract(bert, corpus, tmp_path / "set", update=True)
    _extract(bert, corpus, tmp_path / "fresh")
    assert contents(tmp_path / "set") == contents(tmp_path / "fresh")
    (alone,) = extractor(
        bert,
    ).features([new])
    assert report.computed_tokens == alone.n_tokens
    assert report.counts.documents == before.counts.documents + 1


def test_a_set_of_whole_texts_is_not_gone_on_with(bert: Tiny, tmp_path: Path) -> None:
    corpus = jsonl_file(tmp_path / "c.jsonl", _records())
    _extract(bert, corpus, tmp_path / "set")
    with pytest.raises(Exception, match=r"other settings \(there → here\):\n  split: 'paragraphs' → None\n"):
        _extract(bert, corpus, tmp_path / "set", corpus_settings=CorpusSettings(keep=("year",)))


def test_texts_in_memory(bert: Tiny, tmp_path: Path) -> None:
    texts = [f"{SENTENCES[0]}\n\n{SENTENCES[1]}", SENTENCES[2]]
    found = extractor(bert).features(texts, corpus_settings=CorpusSettings(split="paragraphs"))
    assert [each.text for each in found] == list(SENTENCES[:3])
    assert [each.id for each in found] == ["1#0", "1#1", "2#0"]
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"text": texts[0]}))
    extractor(bert).extract([path], tmp_path / "set", corpus_settings=CorpusSettings(split="paragraphs"))
    stored = FeatureSet(tmp_path / "set")[0]
    np.testing.assert_allclose(stored.vector("last_mean"), found[0].vector("last_mean"), atol=1e-6)
