"""The training that a dry run times is done on the device that is named."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.learning import HeadSettings, estimate_head_table7
from tests.support.heads_toy import FP32, topics, write_records
from tests.support.tagging_toy import sentences, write_conll
from tests.support.tiny_models import Tiny

NAME = "cuda:7"


class StandIn(TorchFunctionMode):
    """A GPU that is none: what is to be put on it is counted, and stays on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.put: Counter[str] = Counter()  # calls of torch that name the GPU

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        def on_cpu(device: torch.device) -> torch.device:
            self.put[func.__name__] += device == torch.device(NAME)
            return torch.device("cpu")

        return func(*tree_map_only(torch.device, on_cpu, args), **tree_map_only(torch.device, on_cpu, kwargs or {}))


@pytest.mark.parametrize("learned", ["tags", "labels in epochs", "labels solved"])
def test_the_estimate_is_timed_on_the_device(
    tiny: Callable[[str], Tiny], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learned: str
) -> None:
    tags = learned == "tags"
    corpus = tmp_path / ("a.conll" if tags else "a.csv")
    corpus = write_conll(corpus, sentences(12, 1)) if tags else write_records(corpus, topics(12, 1))
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="word" if tags else "mean", **FP32)
    extractor.extract(corpus, tmp_path / "a.features", corpus_settings=CorpusSettings(keep=() if tags else ("topic",)))
    features = FeatureSet(tmp_path / "a.features")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    waited: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)  # a GPU computes behind the program
    gpu = StandIn()
    given: dict[str, Any] = {"rows": ("last",), "seeds": (1,), "device": NAME}
    with gpu:
        if tags:
            settings = HeadSettings(hidden=4)
            assert estimate_head_table7("tag", features, features, None, settings=settings, **given).training > 0
        else:
            hidden = HeadSettings(hidden=4 if learned == "labels in epochs" else 0)
            made = estimate_head_table7("classify", features, features, None, label="topic", settings=hidden, **given)
            assert (made.training > 0, made.solving > 0) == (hidden.hidden > 0, hidden.hidden == 0)
    assert gpu.put["zeros"] > 0  # what is learned from
    assert set(waited) == {torch.device(NAME)}
    assert gpu.put["empty" if learned == "labels solved" else "_parse_to"] > 0  # the weights: of a layer, of a network
