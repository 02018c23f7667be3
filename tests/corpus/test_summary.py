"""A corpus counted to its end."""

from pathlib import Path

from bertfeat.core.corpus import CorpusSettings, open_corpus, summarize_corpus


def test_a_corpus_is_counted_to_its_end(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "a bank"}\n\n{"title": "no text"}\nnot JSON\n{"text": ""}\n')
    summary = summarize_corpus(open_corpus([corpus], CorpusSettings()))
    assert (summary.documents, summary.failed, summary.blank) == (2, 2, 1)
    assert (summary.characters, summary.words) == (len("a bank"), 0)
    assert summary.first_failure is not None
    assert summary.first_failure.row == 2


def test_words_that_the_corpus_brings_are_counted(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("two words\nthree more words\n")
    summary = summarize_corpus(open_corpus([corpus], CorpusSettings(pretokenized=True)))
    assert (summary.documents, summary.words, summary.first_failure) == (2, 5, None)
