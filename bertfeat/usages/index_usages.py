"""Words of any kind that are near a meaning, from an index over word or token features instead of a scan."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.errors import IndexFolderError
from bertfeat.search.queries import query_text
from bertfeat.usages.match import Match, is_word, parse_word
from bertfeat.usages.query import WordEncoder, embed_word
from bertfeat.usages.results import CONTEXT, Site, Usage, Usages
from bertfeat.usages.search import check_numbers

if TYPE_CHECKING:
    from bertfeat.search.index import Hit, Index, QueryEncoder

_FETCH = 4  # hits asked for at first, for each usage wanted: punctuation is left out


def find_usages_in_index(
    index: "Index | str | Path",
    word: str,
    *,
    like: str,
    k: int = 10,
    where: str | None = None,
    one_per_document: bool = False,
    context: int = CONTEXT,
    model: str | Path | None = None,
    device: str | None = None,
    encoder: "QueryEncoder | None" = None,
) -> Usages:
    """Find the words nearest in meaning to ``word`` in the sentence ``like``, as ``match="any"`` does, by an index.

    In an index of tokens what is found are tokens. Scores are those of the index. ``model``, ``device`` and ``encoder``
    are for an index that is given as a folder; see :func:`find_usages` for the rest.

    Raises:
        IndexFolderError: the index has one vector a document, or keeps no texts; or the model at hand is another one.
        UsageError: the word is not in the sentence, or a condition cannot be read.
    """
    check_numbers(k, context)
    looked_for, like = parse_word(word, Match.ANY), query_text(like, "--like")
    index = _open_index(index, model, device, encoder)
    settings, folder = index.settings, index.vectors.folder
    if settings.column.pooling.per_document:
        raise IndexFolderError(
            f"{folder} holds {settings.column.name}, one vector a document, but usages compare words: give the "
            f"features, or an index of a word column, as bertfeat index FEATURES --column concat4_word makes one"
        )
    if not settings.has_text:
        raise IndexFolderError(f"{folder} keeps no texts, so there is nothing to show; give the features instead")
    index.check_sources()
    searched = index.count(where)
    using: WordEncoder = index.encoder
    asked = embed_word(looked_for, like, using, settings.column, settings.extraction)
    wide = k
    while True:
        wide = min(wide * _FETCH, max(searched.vectors, 1))
        (answer,) = index.search_vectors(asked[None], wide, where=where)
        usages = list(_usages(answer.hits, one_per_document, context))[:k]
        if len(usages) == k or wide >= searched.vectors:
            name = settings.column.name
            return Usages(word, like, name, searched.documents, searched.vectors, 0, tuple(usages))


def _open_index(
    index: "Index | str | Path", model: str | Path | None, device: str | None, encoder: "QueryEncoder | None"
) -> "Index":
    from bertfeat.search.index import Index  # FAISS, which only an index needs

    if isinstance(index, Index):
        return index
    return Index(index, model=model, device=device, **({} if encoder is None else {"encoder": encoder}))


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
        site = Site(hit.row, hit.id, text, place.in_pair, place.start, place.end, hit.values)
        yield site.usage(context, hit.score)
