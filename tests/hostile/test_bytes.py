"""Every file of every result, damaged in every way: verbs refuse it or give what they gave before; verify tells."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hostile.damage import Damage, damages
from tests.hostile.judge import Rule
from tests.hostile.uses import (
    ANSWER,
    BEGUN,
    CHOOSE,
    CLASSIFY,
    CONTEXTS,
    CRF,
    FEATURES,
    FLAT,
    HNSW,
    IDS,
    IVF,
    JUDGED,
    KEPT,
    OF_IDS,
    PLAIN,
    PREDICTIONS,
    PROBE,
    QUERIES,
    TABLE,
    TAGGED,
    TRAINED,
    VECTORS,
    WORD,
)
from tests.hostile.yard import Result, Tell, Use, Yard


@dataclass(frozen=True, slots=True)
class Target:
    """A file of the world, what else may stand in its place, and what reads it."""

    path: str
    other: str | None
    uses: Sequence[Use]
    sealed: bool = True  # its bytes are covered by a digest, so verify tells every damage
    hint: bool = False  # it only says what can be seen without it
    stream: bool = False  # a pipe may stand in its place, and is waited for

    @property
    def reader(self) -> str:
        """Where the file belongs."""
        folder, _, name = self.path.partition("/")
        return f"{folder.partition('.')[2] or folder}: {name or folder}"


TARGETS = (
    Target("docs.features/part-00001.parquet", "else.features/part-00001.parquet", FEATURES),
    Target("docs.features/part-00003.parquet", "docs.features/part-00002.parquet", FEATURES),
    Target("docs.features/.bertfeat/manifest.json", "else.features/.bertfeat/manifest.json", FEATURES),
    Target("docs.features/.bertfeat/failures.jsonl", "else.features/.bertfeat/failures.jsonl", FEATURES),
    Target("docs.features/.bertfeat/kind", "flat.index/.bertfeat/kind", FEATURES, hint=True),
    Target("train.features/part-00000.parquet", "dev.features/part-00000.parquet", TAGGED),
    Target("train.features/.bertfeat/manifest.json", "dev.features/.bertfeat/manifest.json", TAGGED),
    Target("rows.parquet", "docs.features/part-00001.parquet", CONTEXTS, sealed=False),
    Target("ids.features/part-00000.parquet", "docs.features/part-00001.parquet", OF_IDS),
    Target("ids.features/.bertfeat/manifest.json", "docs.features/.bertfeat/manifest.json", OF_IDS),
    Target("flat.index/.bertfeat/index.json", "over.index/.bertfeat/index.json", FLAT),
    Target("flat.index/version-1/index.faiss", "over.index/version-1/index.faiss", FLAT),
    Target("flat.index/version-1/documents.arrow", "over.index/version-1/documents.arrow", FLAT),
    Target("flat.index/version-1/text_digests.npy", "vectors.npy", FLAT),
    Target("flat.index/.bertfeat/kind", "plain.tagger/.bertfeat/kind", FLAT, hint=True),
    Target("ivf.index/.bertfeat/index.json", "flat.index/.bertfeat/index.json", IVF),
    Target("ivf.index/version-1/index.faiss", "flat.index/version-1/index.faiss", IVF),
    Target("hnsw.index/.bertfeat/index.json", "ivf.index/.bertfeat/index.json", HNSW),
    Target("hnsw.index/version-2/index.faiss", "ivf.index/version-1/index.faiss", HNSW),
    Target("hnsw.index/version-2/removed.npy", "vectors.npy", HNSW),
    Target("word.index/version-1/index.faiss", "flat.index/version-1/index.faiss", WORD),
    Target("word.index/version-1/documents.arrow", "flat.index/version-1/documents.arrow", WORD),
    Target("word.index/version-1/pieces.arrow", "flat.index/version-1/documents.arrow", WORD),
    Target("kept.index/.bertfeat/index.json", "flat.index/.bertfeat/index.json", KEPT),
    Target("kept.index/version-1/index.faiss", "word.index/version-1/index.faiss", KEPT),
    Target("kept.index/version-1/documents.arrow", "flat.index/version-1/documents.arrow", KEPT),
    Target("kept.index/version-1/tokens.npy", "hnsw.index/version-2/removed.npy", KEPT),
    Target("kept.index/version-1/token_offsets.npy", "kept.index/version-1/token_ids.npy", KEPT),
    Target("kept.index/version-1/token_ids.npy", "vectors.npy", KEPT),
    Target("kept.index/version-1/token_id_offsets.npy", "kept.index/version-1/token_offsets.npy", KEPT),
    Target("kept.index/version-1/vocabulary.arrow", "word.index/version-1/pieces.arrow", KEPT),
    Target("plain.tagger/head.json", "crf.tagger/head.json", PLAIN),
    Target("plain.tagger/head.safetensors", "crf.tagger/head.safetensors", PLAIN),
    Target("plain.tagger/.bertfeat/kind", "docs.features/.bertfeat/kind", PLAIN, hint=True),
    Target("crf.tagger/head.safetensors", "plain.tagger/head.safetensors", CRF),
    Target("begun.tagger/checkpoint.json", "plain.tagger/head.json", BEGUN),
    Target("classify.head/head.json", "choose.head/head.json", CLASSIFY),
    Target("classify.head/head.safetensors", "plain.tagger/head.safetensors", CLASSIFY),
    Target("answer.head/head.json", "choose.head/head.json", ANSWER),
    Target("choose.head/head.safetensors", "classify.head/head.safetensors", CHOOSE),
    Target("begun.tagger/checkpoint-1.safetensors", "plain.tagger/head.safetensors", BEGUN),
    Target("trained.model/pretraining.json", "classify.head/head.json", TRAINED),
    Target("trained.model/config.json", "model/config.json", TRAINED),
    Target("trained.model/model.safetensors", "model/model.safetensors", TRAINED),
    Target("trained.model/tokenizer.json", "model/config.json", TRAINED),
    Target("trained.model/tokenizer_config.json", "model/config.json", TRAINED),
    Target("trained.model/.bertfeat/kind", "docs.features/.bertfeat/kind", TRAINED, hint=True),
    Target("paper.table7/_settings.json", "plain.tagger/head.json", TABLE),
    Target("paper.table7/runs/last/seed-1.json", "paper.table7/runs/mix_4to5/seed-1.json", TABLE),
    Target("paper.table7/table7.json", "paper.table7/_settings.json", TABLE),
    Target("paper.table7/table7.md", "ids.txt", TABLE),
    Target("probe.json", "paper.table7/table7.json", PROBE, sealed=False),
    Target("beir/queries.jsonl", "docs.jsonl", JUDGED, sealed=False),
    Target("beir/qrels/test.tsv", "predictions.tsv", JUDGED, sealed=False),
    Target("queries.txt", "docs.jsonl", QUERIES, sealed=False, stream=True),
    Target("ids.txt", "vectors.npy", IDS, sealed=False, stream=True),
    Target("vectors.npy", "hnsw.index/version-2/removed.npy", VECTORS, sealed=False),
    Target("predictions.tsv", "train.conll", PREDICTIONS, sealed=False),
)
EACH = 3  # uses beside verify that meet a damage; all of them meet it in some file
ENDLESS = ("a FIFO", "a link to /dev/zero", "100 GB of nothing")
PAIRS = [
    (target, damage)
    for target in TARGETS
    for damage in damages(target.path)
    if not (target.stream and damage.name in ENDLESS)
]
SAMPLE = PAIRS[::47]


def test_every_file_of_a_result_is_a_target(yard: Yard) -> None:
    """A file that a later version adds has to be added here, lest it be read unattacked."""
    known = {target.path for target in TARGETS}
    left_out = (".png", ".tmp", "lock")
    found = {
        str(path.relative_to(yard.world))
        for name in (
            "docs.features",
            "flat.index",
            "hnsw.index",
            "word.index",
            "kept.index",
            "plain.tagger",
            "begun.tagger",
            "paper.table7",
            "trained.model",
        )
        for path in (yard.world / name).rglob("*")
        if path.is_file() and not path.name.endswith(left_out)
    }
    alike = (
        "docs.features/part-",
        "word.index/.bertfeat/index.json",
        "hnsw.index/version-2/documents",
        *(f"{name}/text_digests" for name in ("hnsw.index/version-2", "word.index/version-1", "kept.index/version-1")),
        "paper.table7/runs/mix",
        "begun.tagger/checkpoint-",
    )
    kinds = {
        f"{name}/.bertfeat/kind" for name in ("hnsw.index", "word.index", "kept.index", "begun.tagger", "paper.table7")
    }
    assert {path for path in found - known - kinds if not path.startswith(alike)} == set()


def _named(pair: tuple[Target, Damage]) -> str:
    return f"{pair[0].path} is {pair[1].name}".replace("/", "|")


@pytest.mark.sampled(0, 12)
@pytest.mark.parametrize("pair", SAMPLE, ids=_named)
def test_some_damages(yard: Yard, tell: Tell, pair: tuple[Target, Damage]) -> None:
    tell(_cases(yard, *pair, EACH))


@pytest.mark.hostile
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.path.replace("/", "|"))
def test_all_damages(yard: Yard, tell: Tell, target: Target) -> None:
    tell(result for each, damage in PAIRS if each is target for result in _cases(yard, target, damage, EACH))


def _cases(yard: Yard, target: Target, damage: Damage, each: int) -> Iterator[Result]:
    """What reads the file, over the damage: the one that verifies, and some of the others, by turns."""

    def prepare(place: Path) -> None:
        damage.apply(place / target.path, None if target.other is None else yard.world / target.other)

    case = f"{target.path} is {damage.name}"
    checks = [use for use in target.uses if use.verb == "verify"]
    others = [use for use in target.uses if use.verb != "verify"]
    start = sum(map(ord, case))
    chosen = [others[(start + at) % len(others)] for at in range(min(each, len(others)))]
    for use in [*checks[:1], *chosen]:
        sound = yard.sound(use)
        result = yard.run(use, case, target.reader, prepare=prepare, rule=_rule(target, damage))
        whole = damage.harmless or _says_the_same(yard, target)
        accepted = result.told.code == 0 and result.told.but(target.path) != sound.but(target.path)
        if use.verb == "verify" and target.sealed and not target.hint and result.told.code == 0 and not whole:
            yield result.but("is not told by verify")
        elif accepted and (target.hint or whole):
            yield result.but("gives another result")
        elif accepted and target.sealed and not checks:
            yield result.but("uses what is damaged, and no verify tells it")
        else:
            yield result


def _rule(target: Target, damage: Damage) -> Rule:
    if damage.harmless:
        return Rule(codes=(0,))
    folder, name = target.path.partition("/")[0], Path(target.path).name
    return Rule(codes=(0, 1, 2), names=(folder, name, " -h' for help"))


def _says_the_same(yard: Yard, target: Target) -> bool:
    """Whether only white space of a JSON file was damaged, which its digest does not cover."""
    path = yard.place / target.path
    if path.suffix != ".json" or not path.is_file() or path.stat().st_size > 1 << 20:
        return False
    try:
        return bool(json.loads(path.read_bytes()) == json.loads((yard.world / target.path).read_bytes()))
    except ValueError:
        return False
