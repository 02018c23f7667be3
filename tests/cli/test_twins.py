"""``tag``, ``classify``, ``answer`` and ``choose`` treat every option alike: it has an effect, or all refuse it.

The options are click's own, so that a new one has to be given a value here. Each is added to a command that ends well,
beside corpora, feature sets, or one of each; what comes out is compared with what came out without it.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core.corpus import CorpusSettings
from bertfeat.errors import HeadError
from bertfeat.learning import Head, tuning_precision
from tests.support.commands import find_command
from tests.support.heads_toy import choices, questions, topics, write_questions, write_records
from tests.support.tagging_toy import sentences, write_conll
from tests.support.tiny_models import Tiny

KINDS = {
    "tag": ("conll", ()),
    "classify": ("csv", ("--label", "topic")),
    "answer": ("json", ()),
    "choose": ("csv", ("--choices", "a,b,c", "--label", "right")),
}
"""Of each kind the ending of its corpora, and the options that say what is learned of them."""

VERBS = ("train", "predict", "evaluate", "table7")
TINY = ("--model", "model", "--precision", "fp32")
READING = {
    "text_columns",
    "pair_column",
    "id_column",
    "word_column",
    "tag_column",
    "format",
    "encoding",
    "keep",
    "pretokenized",
}
READING |= {"document_context", "pairs"}
EXTRACTION = {"model", "precision"}
FROZEN = {"layers", "pooling", "hidden", "batch_size", "learning_rate", "epochs"}
TUNING = {"fine_tune", "precision", "device", "seed", "model"}

REFUSED: dict[str, dict[str, set[str]]] = {
    "train": {
        "sets": READING | EXTRACTION | {"embed_pairs", "choose choices", "choose label"},
        "mixed": EXTRACTION | {"classify embed_pairs"},
        "corpora": {"classify embed_pairs"},
        "tuned": FROZEN | {"classify embed_pairs"},
    },
    "table7": {
        "sets": READING | EXTRACTION | {"embed_pairs", "choose choices", "choose label"},
        "mixed": EXTRACTION | {"classify embed_pairs"},
        "corpora": {"classify embed_pairs"},
        "tuned sets": READING | {"embed_pairs", "choose choices", "choose label"},
    },
    "predict": {"sets": READING | {"model"}, "corpora": set(), "by a tuned head": {"model"}},
    "evaluate": {"sets": READING | {"model", "choose choices", "choose label"}, "corpora": set()},
}
"""By verb and by what stands beside: the options that nothing would read, of all kinds or of one; all others do
something."""

VALUES: dict[str, str] = {
    "batch_size": "3",
    "choices": "text",
    "crf": "",
    "dev": "other",
    "device": "nonsense",
    "document_context": "",
    "dry_run": "",
    "embed_pairs": "together",
    "encoding": "utf-16",
    "epochs": "1",
    "fine_tune": "4:1e-4:1",
    "format": "parquet",
    "hidden": "3",
    "id_column": "zzz",
    "label": "zzz",
    "layers": "embeddings",
    "learning_rate": "0.2",
    "model": "nowhere",
    "output": "elsewhere",
    "pair_column": "zzz",
    "pooling": "max",
    "precision": "bf16",
    "predictions": "gone.tsv",
    "pretokenized": "",
    "quiet": "",
    "rows": "embeddings",
    "seed": "7",
    "seeds": "2",
    "tag_column": "1",
    "task": "numbers",
    "test": "other",
    "text_columns": "zzz",
    "to": "text",
    "train": "other",
    "word_column": "9",
    "as_json": "",
    "overwrite": "",
}
"""A value of each option that has to make a difference where the option is read."""

RECORDED = {"dev"}
"""Options that need not change a number here; their effect is that the result says which value it was made with."""

NOTHING = {
    "predict as_json": "predictions of heads are lines of JSON in any case",
    "predict quiet": "nothing is said of a prediction that ends well",
    "evaluate quiet": "nothing is said of an evaluation that ends well",
    "train fine_tune": "with it options of heads on stored features are refused; its own use is tried",
    "train overwrite": "there is nothing to write over; test_overwrite_is_read has it",
}
"""Options that make no difference to a command that ends well, and why."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended, without the times that it took."""

    code: int
    stdout: str
    stderr: str
    made: dict[str, str]  # the files that it made: name and digest

    @property
    def refusal(self) -> str | None:
        """The words in which options were refused as unread, without the names of this case."""
        found = re.search(r"error: (.* appl(?:y|ies) to .*)", self.stderr)
        return None if found is None or self.code != 2 else re.sub(r"\S+\.(features|head|tagger)\b", "PLACE", found[1])

    def differs(self, other: "Outcome", *, recorded: bool) -> bool:
        """Whether it ended in another way, or other numbers came out; ``recorded``: or only other settings."""
        if (self.code, self.stdout, self.stderr) != (other.code, other.stdout, other.stderr):
            return True
        ours, theirs = (
            {name: digest for name, digest in made.items() if recorded or not name.endswith(".json")}
            for made in (self.made, other.made)
        )
        return ours != theirs


@pytest.fixture(scope="module")
def world(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, feature sets and a trained head of each kind."""
    home = tmp_path_factory.mktemp("twins")
    (home / "model").symlink_to(tiny("bert").folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for number, name in enumerate(("train", "dev", "other")):
            write_conll(Path(f"tag-{name}.conll"), sentences(30, number))
            write_records(Path(f"classify-{name}.csv"), topics(24, number))
            write_records(Path(f"choose-{name}.csv"), choices(12, number))
            write_questions(Path(f"answer-{name}.json"), questions(12, number, without=True))
        for kind in KINDS:
            made = run([*base(kind, "train", "corpora"), "-o", f"{kind}.head"])
            assert made.code == 0, made.stderr
        tuned = ["classify", "train", "--train", corpus("classify", "train"), "--dev", corpus("classify", "dev")]
        made = run([*tuned, *KINDS["classify"][1], *TINY, "--fine-tune", "8:1e-3:1", "-o", "tuned.head"])
        assert made.code == 0, made.stderr
    return home


@pytest.fixture(autouse=True)
def place(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with links to the world, and corpora of its own, beside which features may be made."""
    for path in world.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)


QUICK = ("--hidden", "4", "--epochs", "3", "--batch-size", "8", "--learning-rate", "0.03")


def corpus(kind: str, name: str) -> str:
    return f"{kind}-{name}.{KINDS[kind][0]}"


def source(kind: str, name: str, beside: str) -> str:
    """A corpus, or the feature sets that a head's training made of it."""
    if "sets" not in beside and (beside != "mixed" or name == "dev"):
        return corpus(kind, name)
    folder = f"{kind}.head/features/{name}"
    return f"{folder}.features,{folder}.second.features" if kind == "choose" else f"{folder}.features"


def base(kind: str, verb: str, beside: str) -> list[str]:
    """A command that ends well."""
    extracts, tuned = "sets" not in beside and beside != "mixed", "tuned" in beside
    columns = KINDS[kind][1] if "sets" not in beside or kind == "classify" else ()
    if verb in ("predict", "evaluate"):
        head = "tuned.head" if tuned else f"{kind}.head"
        if verb == "predict":
            columns = ()
        return [kind, verb, head, source(kind, "dev", beside), *columns]
    given = [kind, verb, "--train", source(kind, "train", beside), "--dev", source(kind, "dev", beside), *columns]
    given += [*(TINY if extracts else ()), "-o", "out"]
    given += ["--fine-tune", "8:1e-3:1"] if tuned else []
    if verb == "table7":
        return [*given, *QUICK, "--rows", "last", "--seeds", "1"]
    return given if tuned else [*given, *QUICK, "--layers", "last"]


def run(arguments: list[str]) -> Outcome:
    before = {path: path.stat().st_mtime_ns for path in files()}
    result = CliRunner().invoke(main, arguments)
    assert "Traceback" not in result.stderr, result.stderr
    made = {str(path): digest(path) for path in files() if before.get(path) != path.stat().st_mtime_ns}
    return Outcome(result.exit_code, timeless(result.stdout), timeless(result.stderr), made)


def files() -> list[Path]:
    names = (".json", ".safetensors", ".parquet", ".jsonl", ".md")
    return [path for path in Path().rglob("*") if path.suffix in names and path.name != "manifest.json"]


def digest(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha256(timeless(content.decode()).encode() if path.suffix == ".json" else content).hexdigest()


def timeless(text: str) -> str:
    """A text without the times in it."""
    text = re.sub(r'"(seconds|digest|extraction|training|fine_tuning)": ?"?[\da-f.e-]+"?', "", text)
    return re.sub(r"[\d.,]+ ?(s|ms|min|h|hours|minutes|seconds|examples/s|words/s)\b", "T", text)


def options_of(kind: str, verb: str) -> dict[str, click.Option]:
    parameters = find_command((kind, verb)).params
    return {str(each.name): each for each in parameters if isinstance(each, click.Option)}


def typed(option: click.Option, kind: str, verb: str, beside: str) -> list[str]:
    """The option with its value."""
    name = str(option.name)
    if name == "crf":
        return ["--crf" if verb == "table7" else "--no-crf"]
    value = VALUES[name]
    if name == "precision" and beside == "tuned sets" and tuning_precision("auto", torch.device("cpu")) == "bf16":
        value = "fp32"
    if name in ("train", "dev", "test"):
        other = {"train": "dev", "dev": "train"}.get(name, "other")
        value = source(kind, other, "corpora" if other == "other" or beside == "mixed" else beside)
    return [max(option.opts, key=len), *([] if option.is_flag else [value])]


def is_refused(kind: str, verb: str, beside: str, name: str) -> bool:
    return bool({name, f"{kind} {name}"} & REFUSED[verb][beside])


def kinds_with(verb: str, beside: str, name: str) -> list[str]:
    """The kinds whose verb has the option, and is used so."""
    kinds = ["classify"] if beside == "by a tuned head" else list(KINDS)
    return [kind for kind in kinds if name in options_of(kind, verb)]


USES = [
    (verb, beside, name)
    for verb, places in REFUSED.items()
    for beside in places
    for name in sorted({name for kind in KINDS for name in options_of(kind, verb)})
]
UNREAD = [use for use in USES if any(is_refused(kind, *use) for kind in kinds_with(*use))]
READ = [
    (verb, beside, name)
    for verb, beside, name in USES
    if any(not is_refused(kind, verb, beside, name) for kind in kinds_with(verb, beside, name))
    and beside != "mixed"  # what is read of either is read of both
    and (beside != "corpora" or name not in FROZEN)  # these are tried beside feature sets
    and ("tuned" not in beside or name in TUNING)
]


def named(use: tuple[str, str, str]) -> str:
    return "-".join(use).replace(" ", "-")


def test_every_option_has_a_value() -> None:
    assert {name for _, _, name in USES} == set(VALUES)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("use", UNREAD, ids=named)
def test_an_option_that_nothing_reads_is_refused_by_all_in_the_same_words(use: tuple[str, str, str]) -> None:
    verb, beside, name = use
    refusals = {}
    for kind in (kind for kind in kinds_with(*use) if is_refused(kind, *use)):
        option = typed(options_of(kind, verb)[name], kind, verb, beside)
        outcome = run([*base(kind, verb, beside), *option])
        assert (outcome.code, outcome.made) == (2, {}), (kind, outcome)
        assert outcome.refusal is not None, (kind, outcome.stderr)
        assert option[0] in outcome.refusal
        refusals[kind] = outcome.refusal
    assert len(set(refusals.values())) == 1, refusals


@pytest.mark.sampled(0, 10)
@pytest.mark.parametrize(
    ("use", "every_kind"),
    [
        *(pytest.param(use, False, marks=pytest.mark.slow, id=named(use)) for use in READ[::5]),
        *(pytest.param(use, True, marks=pytest.mark.hostile, id=f"{named(use)}, every kind") for use in READ),
    ],
)
def test_every_other_option_makes_a_difference(
    use: tuple[str, str, str], every_kind: bool, usual: Callable[..., Outcome]
) -> None:
    """For each kind of head; in the shorter run every fifth option, for one of them, each in turn."""
    verb, beside, name = use
    if f"{verb} {name}" in NOTHING:
        pytest.skip(NOTHING[f"{verb} {name}"])
    kinds = [kind for kind in kinds_with(*use) if not is_refused(kind, *use)]
    for kind in kinds if every_kind else [kinds[READ.index(use) % len(kinds)]]:
        without = usual(kind, verb, beside)
        outcome = run([*base(kind, verb, beside), *typed(options_of(kind, verb)[name], kind, verb, beside)])
        assert outcome.refusal is None, (kind, outcome.stderr)
        recorded = name in RECORDED or verb == "table7"
        assert outcome.differs(without, recorded=recorded), (kind, outcome.stdout, outcome.stderr)
        shutil.rmtree("out", ignore_errors=True)
        for made in Path().glob("*.features"):
            if not made.is_symlink():
                shutil.rmtree(made)


@pytest.fixture(scope="module")
def usual(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    """The outcome of a command without the option, each computed once."""

    @cache
    def outcome(kind: str, verb: str, beside: str) -> Outcome:
        folder = tmp_path_factory.mktemp("usual")
        for path in world.iterdir():
            (folder / path.name).symlink_to(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            found = run(base(kind, verb, beside))
        assert found.code == 0, found.stderr
        return found

    return outcome


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("kind", KINDS)
def test_overwrite_is_read(kind: str) -> None:
    again = base(kind, "train", "sets")
    assert run(again).code == 0
    assert "trained already" in run(again).stderr
    other = run([*again, "--seed", "9"])
    assert (other.code, "differ in: seed" in other.stderr) == (1, True)
    assert run([*again, "--seed", "9", "--overwrite"]).code == 0


# ── what is to be predicted is not said ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_extraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a corpus is extracted."""
    monkeypatch.setattr("bertfeat.core.extraction.Extractor.extract", lambda *_, **__: pytest.fail("it was extracted"))


@pytest.mark.usefixtures("no_extraction")
@pytest.mark.parametrize("verb", ["train", "table7", "table7 --dry-run"])
@pytest.mark.parametrize(("kind", "held"), [("classify", "labels"), ("choose", "right choices")])
def test_a_label_that_is_not_named_is_told_before_anything_is_extracted(kind: str, held: str, verb: str) -> None:
    verb, *more = verb.split()
    given = [part for part in base(kind, verb, "corpora") if part not in ("--label", KINDS[kind][1][-1])]
    outcome = run([*given, *more])
    assert (outcome.code, outcome.made) == (1, {})
    assert f"which column holds the {held} is not said; name it with --label" in outcome.stderr
    assert not Path("out").exists()


ANSWER_COLUMNS = ("--text-column", "question", "--pair-column", "context")


def corpus_without(kind: str) -> tuple[str, list[str]]:
    """A corpus that lacks the column of what is to be predicted, and options by which it is read as the others."""
    if kind == "answer":
        path = write_records(Path("lacking.csv"), [{"question": "what ran", "context": "the water"}] * 8)
        return str(path), [*ANSWER_COLUMNS]
    made = {"classify": topics, "choose": choices}[kind](12, 1)
    name = KINDS[kind][1][-1]
    path = Path("lacking.csv")
    write_records(path, [{f"{key}s" if key == name else key: value for key, value in each.items()} for each in made])
    return str(path), []


@pytest.mark.usefixtures("no_extraction")
@pytest.mark.parametrize("verb", ["train", "table7", "table7 --dry-run", "evaluate"])
@pytest.mark.parametrize("kind", ["classify", "answer", "choose"])
def test_a_corpus_that_lacks_it_is_told_before_anything_is_extracted(kind: str, verb: str) -> None:
    verb, *more = verb.split()
    path, reading = corpus_without(kind)
    given = base(kind, verb, "corpora")
    given[given.index(corpus(kind, "dev"))] = path
    outcome = run([*given, *more, *reading])
    assert (outcome.code, outcome.made) == (1, {}), outcome.stderr
    name = "answers" if kind == "answer" else KINDS[kind][1][-1]
    learned = f", from which the head {kind}.head learned" if (kind, verb) == ("answer", "evaluate") else ""
    assert f"error: lacking.csv: there is no column '{name}'{learned}; there are '" in outcome.stderr
    near = f"did you mean {name}s? name it with --label" in outcome.stderr
    assert near == (kind != "answer")


@pytest.mark.usefixtures("no_extraction")
@pytest.mark.parametrize("verb", ["train", "table7", "table7 --dry-run", "predict", "evaluate"])
def test_questions_without_passages_are_told_before_anything_is_extracted(verb: str) -> None:
    verb, *more = verb.split()
    record = {"question": "what ran", "context": "the water", "answers": '[{"text": "water", "start": 4}]'}
    path = str(write_records(Path("asked.csv"), [record] * 8))
    sources = (corpus("answer", "train"), corpus("answer", "dev"))
    given = [path if part in sources else part for part in base("answer", verb, "corpora")]
    outcome = run([*given, *more, "--text-column", "question"])
    assert (outcome.code, outcome.made) == (1, {}), outcome.stderr
    assert "error: asked.csv: which column holds the passages is not said; name it with --pair-column" in outcome.stderr
    assert not Path("out").exists()


def test_answers_in_plain_text() -> None:
    Path("asked.txt").write_text("what ran ||| the water\n")
    with pytest.raises(HeadError, match=r"asked\.txt: a text file has no column of passages; give JSON, CSV or"):
        Head("answer.head").predict("asked.txt")
    paired = Head("answer.head").predict("asked.txt", corpus_settings=CorpusSettings(pairs=True))
    assert [row.id for row in paired.rows] == ["1"]


@pytest.mark.usefixtures("no_extraction")
@pytest.mark.parametrize("beside", ["mixed", "corpora"])
@pytest.mark.parametrize("verb", ["train", "table7", "evaluate"])
def test_a_mistyped_label_is_told_before_anything_is_extracted(verb: str, beside: str) -> None:
    outcome = run([*base("classify", verb, beside), "--label", "tpoic"])
    assert (outcome.code, outcome.made) == (1, {})
    assert "there is no column 'tpoic'; " in outcome.stderr
    assert "did you mean topic? " in outcome.stderr


@pytest.mark.usefixtures("no_extraction")
@pytest.mark.parametrize("verb", ["train", "table7", "evaluate"])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_corpus_that_lacks_tags_is_told_before_anything_is_extracted(verb: str, ending: str) -> None:
    words = [{"text": ["the", "river", "ran"], "tags": ["O", "B-W", "O"]}, {"text": ["they", "ran"], "tags": ["O"] * 2}]
    train = write_records(Path(f"tagged.{ending}"), words * 6)
    other = write_records(Path(f"other.{ending}"), [{"text": each["text"], "tgas": each["tags"]} for each in words * 6])
    given = [str(train) if part == corpus("tag", "train") else part for part in base("tag", verb, "corpora")]
    given = [str(other) if part == corpus("tag", "dev") else part for part in given]
    outcome = run([*given, "--pretokenized", "--tag-column", "tags"])
    assert (outcome.code, outcome.made) == (2, {}), outcome.stderr
    assert re.search(rf"error: .*other\.{ending}.*'tags'; .*there are 'text', 'tgas'", outcome.stderr), outcome.stderr


@pytest.mark.parametrize("given", [{"label": "tpoic"}, {"needs_gold": True}])
def test_a_head_is_asked_for_scores_that_there_are_none_of(given: dict[str, Any]) -> None:
    path, _ = corpus_without("classify")
    head = Head("classify.head")
    assert head.predict(path).scores is None
    missing = r"there is no column '(tpoic'|topic', from which the head classify\.head learned)"
    with pytest.raises(HeadError, match=missing + "; there are 'id', 'text', 'topics'; did you"):
        head.predict(path, **given)
    assert len(head.predict(path, with_gold=False, **given).rows) == 12


@pytest.mark.parametrize(("layers", "meant"), [("concat-4", "concat4"), ("second-last", "second-to-last")])
def test_near_names_of_layers_are_suggested(layers: str, meant: str) -> None:
    result = CliRunner().invoke(main, ["extract", "classify-train.csv", "--model", "model", "--layers", layers])
    assert (result.exit_code, f"did you mean {meant}?" in result.stderr) == (2, True), result.stderr


def tuned_table(kind: str, *more: str) -> Outcome:
    return run([*base(kind, "table7", "tuned sets"), *more])


@pytest.mark.parametrize("kind", ["tag", "classify"])
def test_another_model_is_not_fine_tuned_beside_the_features_of_one(kind: str, tiny: Callable[[str], Tiny]) -> None:
    pytest.importorskip("accelerate")
    outcome = tuned_table(kind, "--model", str(tiny("roberta").folder))
    assert (outcome.code, outcome.made) == (1, {}), outcome
    assert "is not the model that made the features" in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tag", "classify"])
def test_another_precision_of_fine_tuning_is_another_run(kind: str) -> None:
    pytest.importorskip("accelerate")
    assert tuned_table(kind).code == 0
    (kept,) = Path("out/runs").glob("fine-tun*/*.json")
    computed_in = json.loads(kept.read_text())["run"]["precision"]
    before = kept.read_bytes()
    same, other = tuned_table(kind, "--precision", computed_in), {"fp32": "bf16", "bf16": "fp32"}[computed_in]
    assert (same.code, same.stderr.count("(there already)")) == (0, 2), same.stderr
    again = tuned_table(kind, "--precision", other)
    assert (again.code, again.stderr.count("(there already)")) == (0, 1), again.stderr
    runs = {path.name for path in kept.parent.glob("*.json")}
    assert runs == {kept.name, kept.name.replace(f"{computed_in}-", f"{other}-")}
    assert kept.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "verb"), [*((kind, "train") for kind in KINDS), ("tag", "table7")])
def test_the_time_of_a_long_epoch_is_told_once(kind: str, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [*base(kind, verb, "sets"), "--batch-size", "2", "--seed", "5"]
    assert "an epoch takes about" not in told(asked)
    ticks = count(step=5)  # each look at the clock is 5 s later, and there is one look a batch
    monkeypatch.setattr("bertfeat.learning.loop.time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    asked += ["--overwrite"] if verb == "train" else ["-o", "slow"]
    (line,) = (line for line in told(asked).splitlines() if "an epoch takes about" in line)
    seconds = 5 * {"tag": 15, "classify": 12, "answer": 6, "choose": 6}[kind]
    found = re.fullmatch(r"an epoch takes about (?:(\d+) min )?(\d+) s to learn; there are 3 at most, .*", line)
    assert found is not None, line
    # examples of one length take one time; sentences and questions are of several
    tolerance = 1e-9 if kind in ("classify", "choose") else 0.5
    assert int(found[1] or 0) * 60 + int(found[2]) == pytest.approx(seconds, rel=tolerance)


def told(arguments: list[str]) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stderr


@pytest.mark.parametrize("kind", ["tag", "classify"])
def test_a_dry_run_says_how_to_pay_less(kind: str) -> None:
    asked = [*base(kind, "table7", "sets"), "--dry-run"]
    assert "for less    a part of the corpora" in run(asked).stdout
    more = run([*asked, "--seeds", "3", "--rows", "last,embeddings"]).stdout
    assert re.search(r"for less    --seeds 1 \(training about .*\), one of --rows \(about .*\), a part of", more), more
