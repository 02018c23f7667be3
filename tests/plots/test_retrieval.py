"""The picture of which layers search best: every text in it, a mark for each row, the interval that the table has."""

from pathlib import Path

import pytest

from bertfeat.errors import UsageError
from bertfeat.plots import draw_retrieval
from tests.support.drawn_reports import layer_table_of
from tests.support.plots_toy import LONG, drawn_texts, inside, svg_texts

pytest.importorskip("matplotlib")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("transforms", [["none"], ["none", "whiten", "half-whiten:128", "whiten:12", LONG[:30]]])
@pytest.mark.parametrize("columns", [["last_mean"], [LONG, "_b"], [f"layer{layer}_mean" for layer in range(25)]])
def test_every_text_is_inside(
    columns: list[str], transforms: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with drawn_texts(monkeypatch) as drawn:
        draw_retrieval(layer_table_of(columns, transforms, LONG), tmp_path / "table.png")
    assert inside(drawn)
    shown = [text for text, _, _ in drawn]
    assert any(text.startswith(columns[-1][:5]) for text in shown)
    assert ("half-whiten:128" in shown) == (len(transforms) > 1)


def test_what_it_says(tmp_path: Path) -> None:
    draw_retrieval(layer_table_of(["layer1_mean", "last_mean"], ["none", "whiten"]), tmp_path / "table.svg")
    texts = " ".join(svg_texts(tmp_path / "table.svg"))
    assert "Which layers of model search best" in texts
    assert "toy.features: exact search for 20 queries among 1,000 documents, by cosine." in texts
    assert "nDCG@10, mean and interval of 95 %" in texts


def test_a_form_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="goes by the ending"):
        draw_retrieval(layer_table_of(["last_mean"], ["none"]), tmp_path / "table.gif")
