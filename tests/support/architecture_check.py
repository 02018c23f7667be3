"""An architecture under the glass: is it exact alone and in company, and the same each time, or refused?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.encoder import BatchForm
from bertfeat.core.recipe import outputs_of
from bertfeat.core.tokens import TokenBatch, cut_batches, tokenize
from bertfeat.errors import BertfeatError
from tests.support.runs import contents, extractor, text_file
from tests.support.tiny_architectures import Architecture
from tests.support.tiny_models import LONG_TEXT, PAIRS, TEXTS, Tiny, documents, reference_states

BOUND = 3e-5
ROWS = 3  # of a part, for a run that is resumed
_TEXTS = [text for text in TEXTS if text]


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found of one architecture; differences are the largest absolute ones, over all layers and tokens."""

    form: BatchForm | None = None
    refusal: str = ""
    windows: int = 0  # texts, pairs, and the windows of a long text
    alone: float = 0.0
    in_company: float = 0.0
    repeated: bool = True  # whether the same bytes come again, in another order and from a model that was loaded anew
    sentence: str = ""
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether it is exact alone and in company, and the same each time."""
        return max(self.alone, self.in_company) <= BOUND and self.repeated


SPELLED = ("The <pad> bank <mask> </s> <s> of", "[MASK] the [PAD] river [SEP] [CLS]")
"""Texts that spell out special tokens, padding among them."""
EVERYTHING = (*TEXTS, *PAIRS, *SPELLED, LONG_TEXT)


def check(
    architecture: Architecture,
    folder: Path,
    texts: Sequence[str | tuple[str, str]] = EVERYTHING,
    *,
    load_again: bool = True,
) -> Checked:
    """Build an architecture, compute it in fp32 alone and in company, and hold it against transformers."""
    architecture.build(folder)
    try:
        tiny = Tiny.load(folder)
    except BertfeatError as error:
        return Checked(refusal=str(error).removeprefix(f"{folder.name}: "))
    layout = tokenize(documents(texts), tiny.tokenizer, tiny.settings()).layout
    company = list(cut_batches(layout, 8192, padded=tiny.encoder.padded))
    singles = list(cut_batches(layout, 1, padded=False))
    attention = "eager" if tiny.encoder.path.form is BatchForm.PACKED else None
    wanted = {
        at: reference_states(folder, each.ids.tolist(), each.types.tolist(), attention)
        for at, each in _windows(singles)
    }
    together, alone = _states(tiny, company), _states(tiny, singles)
    again = _states(Tiny.load(folder) if load_again else tiny, reversed(company))
    return Checked(
        form=tiny.encoder.path.form,
        windows=len(wanted),
        alone=_apart(alone, wanted),
        in_company=_apart(together, wanted),
        repeated=all(np.array_equal(again[at], states) for at, states in together.items()),
        sentence=tiny.encoder.path.sentence,
        notes=tiny.encoder.path.notes,
    )


def resumes(folder: Path, work: Path) -> bool:
    """Whether a run that lost its middle and goes on leaves the bytes of one that was left alone."""
    corpus = text_file(work / "corpus.txt", [*_TEXTS, *reversed(_TEXTS), LONG_TEXT.replace("\n", " ")])
    settings = {"layers": "0,-1", "pooling": "mean,token"}
    extractor(folder, **settings).extract(corpus, work / "set", part_rows=ROWS)
    before = contents(work / "set")
    (work / "set" / "part-00001.parquet").unlink()
    (work / "set" / ".bertfeat" / "manifest.json").unlink()
    extractor(folder, **settings).extract(corpus, work / "set", part_rows=ROWS)
    return contents(work / "set") == before


States = dict[int, NDArray[np.float32]]


def _states(tiny: Tiny, given: Iterable[TokenBatch]) -> States:
    """Every layer of each window. Shape: ``[L+1, T, H]``."""
    every, found = range(tiny.model.num_layers + 1), {}
    for batch in given:
        stacked = np.stack(
            [state.values.numpy().copy() for state in tiny.encoder.hidden_states(batch, outputs_of(every))]
        )
        for at, start, length in zip(batch.windows, batch.starts, batch.lengths, strict=True):
            found[int(at)] = stacked[:, start : start + length]
    return found


def _windows(singles: Iterable[TokenBatch]) -> Iterable[tuple[int, TokenBatch]]:
    return ((int(each.windows[0]), each) for each in singles)


def _apart(found: States, wanted: States) -> float:
    assert found.keys() == wanted.keys()
    return max(float(np.abs(states - wanted[at]).max()) for at, states in found.items())
