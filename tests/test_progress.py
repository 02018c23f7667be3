"""Progress of long calls: who hears of it, and the bar of notebooks."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import bertfeat
from bertfeat.core.extraction import Extractor
from bertfeat.errors import UsageError
from bertfeat.progress import ProgressOption, StepProgress, in_notebook, telling
from tests.support.tiny_models import Tiny


def bar(progress: ProgressOption[StepProgress], capsys: pytest.CaptureFixture[str]) -> str:
    with telling(progress) as tell:
        tell(StepProgress("read", 1, 4, "words"))
        tell(StepProgress("read", 4, 4, "words"))
    return capsys.readouterr().err


def run_telling(call: Callable[[Callable[[StepProgress], None]], None]) -> None:
    progress: ProgressOption[StepProgress] = True
    with telling(progress) as tell:
        call(tell)


def pretend_shell(monkeypatch: pytest.MonkeyPatch, shell: object) -> None:
    module = ModuleType("IPython")
    module.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)


def test_a_step_in_words() -> None:
    assert str(StepProgress("train", 1_000, 24_000, "vectors")) == "train 1,000 of 24,000 vectors"
    assert str(StepProgress("", 1, 2, "words")) == "1 of 2 words"
    assert StepProgress("", 1, 4, "words").fraction == 0.25
    assert StepProgress("", 0, 0, "words").fraction == 0.0


def test_scripts_are_silent_unless_they_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert not in_notebook()
    assert bar(None, capsys) == bar(False, capsys) == ""
    assert "100%" in (written := bar(True, capsys))
    assert "read 4 of 4 words" in written


def test_a_function_hears_everything(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[StepProgress] = []
    assert bar(heard.append, capsys) == ""
    assert [step.done for step in heard] == [1, 4]


def test_notebooks_have_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pretend_shell(monkeypatch, SimpleNamespace(kernel=object()))
    assert in_notebook()
    assert "100%" in bar(None, capsys)
    assert bar(False, capsys) == ""


@pytest.mark.parametrize("shell", [None, SimpleNamespace()], ids=["no shell", "a terminal"])
def test_a_terminal_of_ipython_is_no_notebook(monkeypatch: pytest.MonkeyPatch, shell: object) -> None:
    pretend_shell(monkeypatch, shell)
    assert not in_notebook()


def test_a_bar_ends_where_the_call_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(tell: Callable[[StepProgress], None]) -> None:
        tell(StepProgress("", 1, 2, "words"))
        raise KeyError

    with pytest.raises(KeyError):
        run_telling(fail)
    assert capsys.readouterr().err.endswith("\n")


def test_an_extraction_shows_its_bar(bert: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("The bank of the river.\n" * 20, "utf-8")
    extractor = Extractor(bert.folder, pooling="mean", device="cpu")
    extractor.extract(corpus, tmp_path / "quiet.features")
    assert capsys.readouterr().err == ""
    extractor.extract(corpus, tmp_path / "shown.features", progress=True)
    written = capsys.readouterr().err
    assert "20 documents" in written
    assert "100%" in written
    with pytest.raises(UsageError, match="progress='yes': must be"):
        extractor.extract(corpus, tmp_path / "wrong.features", progress="yes")  # type: ignore[arg-type]


def test_long_calls_say_progress_alike() -> None:
    """Each public call that takes minutes has ``progress``, and the same default."""
    found = {}
    for name in dir(bertfeat):
        public = getattr(bertfeat, name)
        function = public.extract if name == "Extractor" else public
        if inspect.isfunction(function) and "progress" in (parameters := inspect.signature(function).parameters):
            found[name] = parameters["progress"].default
    assert found == dict.fromkeys(
        [
            "Extractor",
            "update_index",
            "build_index",
            "choose_layers",
            "compare_features",
            "count_words",
            "evaluate_layers",
            "find_collocates",
            "find_keywords",
            "find_senses",
            "find_usages",
            "find_usages_by",
            "measure_change",
            "pretrain_model",
            "probe_layers",
            "train_head",
            "train_head_table7",
            "write_contexts",
        ]
    )
