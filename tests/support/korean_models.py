"""Stand-ins for the Korean models that docs/ko names: tests have no network.

They are tiny random models of the same architectures, in a cache as the Hugging Face hub's client keeps it.
"""

from pathlib import Path

from tests.support.tiny_families import build
from tests.support.tiny_tokenizers import BERT_NAMES, word_piece

STAND_INS = {"klue/bert-base": "bert"}
"""The families of the models, by their names."""

_EXAMPLES = Path(__file__).parents[2] / "examples"
_REVISION = "0" * 40
_VOCABULARY = 1_000
_POSITIONS = 512


def write_stand_ins(cache: Path) -> Path:
    """Write the models into a cache of the hub, and return it. Their tokenizers know the words of the examples."""
    texts = [path.read_text("utf-8") for path in sorted(_EXAMPLES.glob("korean*"))]
    for name, family in STAND_INS.items():
        folder = cache / f"models--{name.replace('/', '--')}"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(_REVISION, "utf-8")
        model = build(
            family, folder / "snapshots" / _REVISION, vocab_size=_VOCABULARY, max_position_embeddings=_POSITIONS
        )
        tokenizer = word_piece(BERT_NAMES, lowercase=False, sentences=texts, vocabulary=_VOCABULARY)
        tokenizer.save(str(model / "tokenizer.json"))
    return cache
