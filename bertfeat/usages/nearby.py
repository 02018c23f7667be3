"""Words of any kind that are near a meaning, from an index over word or token features instead of a scan."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.errors import IndexFolderError
from bertfeat.usages.asked import WordEncoder, ask
from bertfeat.usages.find import check_numbers
from bertfeat.usages.results import CONTEXT, Site, Usage, Usages
from bertfeat.usages.words import Match, is_word, wanted

if TYPE_CHECKING:
    from bertfeat.retrieval import Hit, QueryEncoder

_FETCH = 4  # hits asked for at first, for each usage wanted: punctuation is left out


def find_usages_in_index(
    folder: str | Path,
    word: str,
    *,
    like: str,
    k: int = 10,
    one_per_document: bool = False,
    context: int = CONTEXT,
    model: str | Path | None = None,
    device: str | None = None,
    encoder: "QueryEncoder | None" = None,
) -> Usages:
    """Find the words nearest in meaning to ``word`` in the sentence ``like``, as ``match="any"`` does, by an index.

    In an index of tokens what is found are tokens. Scores are those of the index; see :func:`find_usages` for the rest.

    Raises:
        IndexFolderError: the index has one vector a document, or keeps no texts; or the model at hand is another one.
        UsageError: the word is not in the sentence.
    """
    from bertfeat.retrieval import Index  # FAISS, which only an index needs

    check_numbers(k, context)
    looked_for = wanted(word, Match.ANY)
    index = Index(folder, model=model, device=device, **({} if encoder is None else {"encoder": encoder}))
    settings = index.settings
    if settings.column.pooling.per_document:
        raise IndexFolderError(
            f"{folder} holds {settings.column.name}, one vector a document, but usages compare words: give the "
            f"features, or an index of a word column, as bertfeat index FEATURES --column concat4_word makes one"
        )
    if not settings.has_text:
        raise IndexFolderError(f"{folder} keeps no texts, so there is nothing to show; give the features instead")
    index.check_sources()
    using: WordEncoder = index.encoder
    asked = ask(looked_for, like, using, settings.column, settings.extraction)
    wide = k
    while True:
        wide = min(wide * _FETCH, len(index))
        (answer,) = index.search_vectors(asked[None], wide)
        usages = list(_usages(answer.hits, one_per_document, context))[:k]
        if len(usages) == k or wide == len(index):
            return Usages(word, like, settings.column.name, settings.documents, len(index), 0, tuple(usages))


def _usages(hits: Iterable["Hit"], one_per_document: bool, context: int) -> Iterable[Usage]:
    seen: set[tuple[str, int]] = set()
    for hit in hits:
        text = hit.text if hit.place is None or not hit.place.in_pair else hit.pair
        if hit.place is None or text is None or not is_word(hit.place.string or ""):
            continue
        if one_per_document and (hit.source, hit.row) in seen:
            continue
        seen.add((hit.source, hit.row))
        place = hit.place
        yield Site(hit.row, hit.id, text, place.in_pair, place.start, place.end).usage(context, hit.score)
