"""Inputs that are token ids: refused, unless whoever started the server says that clients send this model's own."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from bertfeat.server.problems import Kind, Problem
from bertfeat.server.service import Service

Texts = Annotated[list[str], Field(fail_fast=True)]
"""The first wrong one is told: there may be millions."""

TokenIds = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(fail_fast=True)]
TextInput = str | Texts | TokenIds | Annotated[list[TokenIds], Field(fail_fast=True)]


def texts_of_input(given: TextInput | Sequence[str | list[int]], service: Service, param: str) -> list[str]:
    """The texts of an input.

    Raises:
        Problem: there are none, or ids that are not taken, or not those of a text.
    """
    items: list[str | list[int]]
    if isinstance(given, str):
        items = [given]
    elif given and isinstance(given[0], int):
        items = [given]  # type: ignore[list-item]
    else:
        items = list(given)  # type: ignore[arg-type]
    if not items:
        raise Problem(Kind.EMPTY, "the input has no texts", param)
    return [item if isinstance(item, str) else _text_of_ids(item, service, param) for item in items]


def _text_of_ids(ids: list[int], service: Service, param: str) -> str:
    if not service.settings.accept_token_ids:
        raise Problem(
            Kind.TOKEN_IDS,
            "the input has token ids, which are numbers of OpenAI's vocabulary or another one, and mean something "
            "else to this model; send texts (LangChain: check_embedding_ctx_length=False)",
            param,
            "token_ids",
        )
    tokenizer = service.extractor.tokenizer
    special = set(tokenizer.single.ids)
    own = [number for number in ids if number not in special]
    text = tokenizer.decode(own, skip_special=False)
    (pieces,) = tokenizer.pieces([text], offsets=False)
    if pieces.ids.tolist() != own:
        raise Problem(
            Kind.TOKEN_IDS, "these ids are not what the model's tokenizer makes of a text", param, "token_ids"
        )
    return text
