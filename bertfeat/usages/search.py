"""The usages of a word: in the order of the corpus, or nearest in meaning to a sentence; by a scan or by an index."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.errors import IndexFolderError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import Address
from bertfeat.search import Hit, Index, QueryEncoder, query_text
from bertfeat.usages.match import Match, is_word, parse_word
from bertfeat.usages.query import embed_word, open_usage_search
from bertfeat.usages.ranking import UsageRanking, check_numbers
from bertfeat.usages.results import CONTEXT, Site, Usage, Usages
from bertfeat.usages.scan import ScanCounts

_FETCH = 4  # hits asked for at first, for each usage wanted: punctuation is left out


@checked
def find_usages(
    features: FeatureSet | str | Path | Address,
    word: str,
    *,
    like: str | None = None,
    match: Match | str = Match.EXACT,
    k: int = 10,
    column: str | None = None,
    where: str | None = None,
    one_per_document: bool = False,
    context: int = CONTEXT,
    model: str | Path | None = None,
    device: str | None = None,
    encoder: QueryEncoder | None = None,
) -> Usages:
    """Find the ``k`` usages of a word that are nearest in meaning to the word in the sentence ``like``.

    Without ``like`` they are the first ones of the corpus. The sentence is embedded as the feature set was; where the
    word is in it more than once, stars mark the one that is meant: ``a bank on the *bank* of the river``. With
    ``match="any"`` every word of the corpus is compared. ``column`` names a column of words or tokens, or a recipe that
    the stored ones contain; without one it is the last layer, where they contain it, else the only one. Only documents
    that meet the condition ``where``, such as ``"year > 1900"``, are searched. ``context`` is how many characters are
    kept on either side. ``model`` says where the set's model is now, if not where it was; ``encoder`` replaces it.

    All texts are read; of the vectors only those row groups in which the word occurs, one at a time.

    Raises:
        UsageError: the word is not in the sentence, ``k`` is below 1, ``match="any"`` without a sentence, or a
            condition that cannot be read.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set; or the model is another one.
        NotDerivableError: the column cannot be derived from the stored ones.
    """
    check_numbers(k, context)
    search = open_usage_search(features, word, like, match, column, where, model, device, encoder)
    ranking = UsageRanking(search.vector, k, one_per_document, context)
    counts = ScanCounts()
    for group in counts.count(search.groups()):
        ranking.add(group)
    found = (search.column.name, counts.documents, counts.found, counts.skipped, ranking.usages)
    return Usages(word, search.like, *found)


@checked
def find_usages_in_index(
    index: Index | str | Path | Address,
    word: str,
    *,
    like: str,
    k: int = 10,
    where: str | None = None,
    one_per_document: bool = False,
    context: int = CONTEXT,
    model: str | Path | None = None,
    device: str | None = None,
    encoder: QueryEncoder | None = None,
) -> Usages:
    """Find the words nearest in meaning to ``word`` in the sentence ``like``, as ``match="any"`` does, by an index.

    In an index of tokens they are tokens. Scores are those of the index. ``model``, ``device`` and ``encoder`` are for
    an index that is given as a folder; see :func:`find_usages` for the rest.

    Raises:
        IndexFolderError: the index has one vector a document, or keeps no texts; or the model is another one.
        UsageError: the word is not in the sentence, or a condition cannot be read.
    """
    check_numbers(k, context)
    query, like = parse_word(word, Match.ANY), query_text(like, parameter("like"))
    if not isinstance(index, Index):
        index = Index(index, model=model, device=device, encoder=encoder)
    settings, folder = index.settings, index.vectors.folder
    if settings.per_document:
        raise IndexFolderError(
            f"{folder} holds {settings.column.name}, one vector a document, but usages compare words",
            remedy=f"give the features, or an index of a word column, made with {parameter('column', 'concat4_word')}",
        )
    if not settings.has_text:
        raise IndexFolderError(
            f"{folder} keeps no texts, so there is nothing to show", remedy="give the features instead"
        )
    index.check_sources()
    scope = index.count(where)
    vector = embed_word(query, like, index.encoder, settings.column, settings.extraction)
    depth = k
    while True:
        depth = min(depth * _FETCH, max(scope.vectors, 1))
        (answer,) = index.search_vectors(vector[None], depth, where=where)
        usages = list(_usages_of_hits(answer.hits, one_per_document, context))[:k]
        if len(usages) == k or depth >= scope.vectors:
            return Usages(word, like, settings.column.name, scope.documents, scope.vectors, 0, tuple(usages))


def _usages_of_hits(hits: Iterable[Hit], one_per_document: bool, context: int) -> Iterator[Usage]:
    seen: set[tuple[str, int]] = set()
    for hit in hits:
        piece = hit.piece
        text = hit.text if piece is None or not piece.in_pair else hit.pair
        if piece is None or text is None or not is_word(piece.string or ""):
            continue
        if one_per_document and (hit.source, hit.row) in seen:
            continue
        seen.add((hit.source, hit.row))
        site = Site(hit.row, hit.id, text, piece.in_pair, piece.start, piece.end, hit.values)
        yield site.usage(context, hit.score)
