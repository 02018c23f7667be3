"""Digests of documents: equal only where every field that they cover is equal.

Every field is written with its length before it, so that no two different documents are written alike.
"""

from collections.abc import Sequence
from hashlib import blake2b

from bertfeat.core.corpus.document import Document


def text_digest(document: Document) -> bytes:
    """The digest of all that a document's features are made of: 16 bytes of BLAKE2b.

    It covers text, pair, words, ids, tags and the neighboring sentences, but not row, id and kept columns. The document
    keeps it: a plan, a search for copies and a part ask for it in turn.
    """
    if not document._digest:
        object.__setattr__(document, "_digest", _digest_content(document))
    return document._digest


def stands_for_ids(text: str, digest: str) -> bool:
    """Whether a text is the numbers of a document of token ids, by that document's digest in hexadecimal."""
    return text_digest(Document(0, "", text, ids=())).hex() == digest


def _digest_content(document: Document) -> bytes:
    content = write_string(document.text)
    if document.pair is not None:
        content += f"p{write_string(document.pair)}"
    if document.words is not None:
        content += f"w{write_strings(document.words)}"
    if document.ids is not None:
        content += "i"  # the text says which
    if document.tags is not None:
        content += f"t{write_strings(document.tags)}"
    if document.before or document.after:
        content += f"c{write_string(document.before)}{write_string(document.after)}"
    return blake2b(encode_lossless(content), digest_size=16).digest()


def write_string(text: str) -> str:
    """A string after its length."""
    return f"{len(text)}:{text}"


def write_strings(strings: Sequence[str]) -> str:
    """Strings after their number."""
    return f"{len(strings)};{''.join(map(write_string, strings))}"


def encode_lossless(text: str) -> bytes:
    """The bytes of a text in UTF-8, half surrogate pairs included."""
    return text.encode("utf-8", "surrogatepass")
