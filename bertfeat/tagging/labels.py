"""The labels of a tagger: they map tags in files to numbers in the network, and back."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.tagging.schemes import Scheme, detect_scheme, is_tag_of, to_bio, to_iobes

_SHOWN = 12  # labels that a message lists

_WRITERS: dict[Scheme, Callable[[Sequence[str]], Sequence[str]]] = {
    Scheme.BIO: to_bio,
    Scheme.IOBES: to_iobes,
    Scheme.PLAIN: lambda tags: tags,
}


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels by number, in the scheme that the network learns.

    Raises:
        HeadError: labels that nothing can be learnt of, or not of the scheme.
    """

    names: tuple[str, ...]
    scheme: Scheme  # BIO or IOBES for spans, PLAIN for other tags

    def __post_init__(self) -> None:
        if self.scheme not in _WRITERS:
            raise HeadError(f"labels are learnt as {', '.join(_WRITERS)}, not as {self.scheme}")
        if len(self.names) < 2 or len(set(self.names)) < len(self.names):
            raise HeadError(f"a tagger needs labels, at least two and all different, and has {list_labels(self.names)}")
        if strange := [name for name in self.names if not is_tag_of(self.scheme, name)]:
            raise HeadError(f"{strange[0]!r} is no label of the scheme {self.scheme}")

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], *, inside: Scheme = Scheme.BIO) -> "LabelSet":
        """The labels of some sentences' tags; spans become those of the scheme ``inside``.

        Raises:
            HeadError: one label only, so that there is nothing to learn.
            CorpusError: tags of spans and others among one another.
        """
        read = [tuple(map(sys.intern, tags)) for tags in sentences]
        scheme = inside if detect_scheme(read).has_spans else Scheme.PLAIN
        names = {label for tags in dict.fromkeys(read) for label in _WRITERS[scheme](tags)}
        if len(names) < 2:
            raise HeadError(
                f"every word of the training sentences has the tag {min(names, default='')!r}, so there is nothing to "
                f"learn",
                remedy=f"see that the right column is read: {parameter('tag_column')} names another",
            )
        return cls(tuple(sorted(names, key=lambda name: (name != "O", name[2:], name))), scheme)

    @property
    def has_spans(self) -> bool:
        """Whether tags stand for spans of words."""
        return self.scheme.has_spans

    def __len__(self) -> int:
        return len(self.names)

    def numbers(self, sentences: Iterable[Sequence[str]]) -> Iterator[list[int]]:
        """The number of each tag of each sentence, whichever scheme they are in.

        Raises:
            UsageError: a tag that is not among the labels.
        """
        known = {name: number for number, name in enumerate(self.names)}
        for tags in sentences:
            try:
                yield [known[tag] for tag in _WRITERS[self.scheme](tags)]
            except KeyError as error:
                raise UsageError(
                    f"the tag {error.args[0]!r} is not among those that the tagger learnt: {list_labels(self.names)}"
                ) from None

    def tags(self, numbers: Iterable[int]) -> list[str]:
        """The tags of a sentence: BIO for spans, whatever scheme is learnt."""
        names = [self.names[number] for number in numbers]
        return to_bio(names) if self.has_spans else names

    def unknown(self, sentences: Iterable[Sequence[str]]) -> list[str]:
        """Tags (of spans: in the scheme that is learnt) that no label stands for."""
        return sorted(self._used(sentences) - set(self.names))

    def can_learn_from(self, sentences: Iterable[Sequence[str]]) -> bool:
        """Whether some tag, of spans another than O, is among the labels, so that there is something to get right."""
        known = self._used(sentences) & set(self.names)
        return bool(known - {"O"} if self.has_spans else known)

    def _used(self, sentences: Iterable[Sequence[str]]) -> set[str]:
        write = _WRITERS[self.scheme]
        return {label for tags in dict.fromkeys(map(tuple, sentences)) for label in write(tags)}


def list_labels(names: Sequence[str]) -> str:
    """List names in a message: the first ones, escaped so that they stay on one line."""
    listed = ", ".join(name if name.isprintable() else repr(name) for name in names[:_SHOWN])
    return f"{listed} … ({len(names):,})" if len(names) > _SHOWN else listed or "none"
