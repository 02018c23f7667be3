"""Parsing of requests: JSON → texts, the columns that are wanted of them, and the treatment of long texts.

Inputs that are token ids are refused, unless the server was started with the setting that clients send this model's
own.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, StrictBool, StrictInt, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from bertfeat.core import MAX_TEXT, Document, Extractor, FeatureColumn, LongTextPolicy, Pooling
from bertfeat.server.batching import Wanted
from bertfeat.server.problems import Kind, Problem

Name = Annotated[str, Field(max_length=1000)]
"""A string that is looked up or parsed, rather than embedded."""

ModelName = Annotated[
    Name, Field(description="One of the server's models, as /v1/models names them; by default the first.")
]

Texts = Annotated[list[str], Field(fail_fast=True)]
"""Several texts; only the first wrong one is reported, since there may be millions."""

TokenIds = Annotated[list[Annotated[StrictInt, Field(ge=0, lt=2**31)]], Field(fail_fast=True)]
TextInput = str | Texts | TokenIds | Annotated[list[TokenIds], Field(fail_fast=True)]

_Specs = Annotated[
    Name | Annotated[list[Name], Field(max_length=64, fail_fast=True)],
    Field(examples=["concat4"]),
]
"""Layers or poolings, each of which may name several with commas between them."""


class Body(BaseModel):
    """The JSON of a request.

    An unknown field is refused: to ignore it would answer another question. An option that is null counts as left out,
    since clients send it so.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        options = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in given.items() if value is not None or name not in options}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        shown = handler(schema)
        fields: dict[str, JsonSchemaValue] = handler.resolve_ref_schema(shown)["properties"]
        for name, field in cls.model_fields.items():
            described = fields[name]
            if not field.is_required() and _NULL not in described.get("anyOf", ()):
                about = [key for key in ("title", "description", "default", "examples") if key in described]
                fields[name] = {key: described.pop(key) for key in about} | {"anyOf": [described, _NULL]}
        return shown


_NULL = {"type": "null"}


class CuttingBody(Body):
    """The fields that say whether long texts are cut, and where: text-embeddings-inference's names, for every route."""

    truncate: Annotated[
        StrictBool, Field(description="Cut long texts; by default they are read in overlapping windows.")
    ] = False
    truncation_direction: Annotated[
        Literal["right", "Right", "left", "Left"], Field(description="The end of a long text that is cut off.")
    ] = "right"

    @property
    def long(self) -> LongTextPolicy | None:
        """The treatment of long texts; None for that of the server."""
        if not self.truncate:
            return None
        return LongTextPolicy.TRUNCATE_LEFT if self.truncation_direction.lower() == "left" else LongTextPolicy.TRUNCATE


class WantedBody(CuttingBody):
    """The fields of a request that choose a model, layers, pooling and the reading of long texts."""

    model: ModelName | None = None
    layers: _Specs | None = None
    pooling: _Specs | None = None
    max_length: StrictInt | None = None
    prompt: str | None = None
    prompt_name: Name | None = None


class ServedModel:
    """A model of the server: it reads the texts of requests, and the columns that these want.

    ``names`` are those that clients find it by, of which answers have the first; by default its own.
    """

    def __init__(self, extractor: Extractor, names: Sequence[str] = (), *, accept_token_ids: bool = False) -> None:
        self.extractor, self.names = extractor, tuple(names) or (extractor.model.name,)
        self._accept_token_ids = accept_token_ids
        self._columns = lru_cache(256)(self._parse)  # combinations that are kept

    @property
    def name(self) -> str:
        """The model, as answers name it."""
        return self.names[0]

    @property
    def pooling(self) -> Pooling | None:
        """The pooling of requests that name layers and no pooling; None for the model's own."""
        own = self.extractor.columns[0]
        return None if own.by_own_modules else own.pooling  # which is of the last layer only

    def read(
        self,
        layers: str | Sequence[str] | None = None,
        pooling: str | Sequence[str] | None = None,
        *,
        long: LongTextPolicy | None = None,
        max_length: int | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Wanted:
        """The wanted columns and token settings; for what is not given, those that the server was started with."""
        given = layers is not None or pooling is not None
        columns = self._columns(_key(layers), _key(pooling)) if given else self.extractor.columns
        settings = self.extractor.token_settings
        most = settings.max_length
        if max_length is not None and not 8 <= max_length <= most:
            raise Problem(Kind.WRONG_VALUE, f"the model reads 8 to {most} tokens at once", param="max_length")
        put_before = self._prompt(prompt, prompt_name)
        self.extractor.check_role(columns, put_before)
        tokens = replace(settings, long=long or settings.long, max_length=max_length or most, prompt=put_before)
        return Wanted(self.extractor, columns, tokens).without_units()

    def read_body(self, body: WantedBody) -> Wanted:
        """The same, from the body of a request."""
        return self.read(
            body.layers,
            body.pooling,
            long=body.long,
            max_length=body.max_length,
            prompt=body.prompt,
            prompt_name=body.prompt_name,
        )

    def read_texts(self, given: TextInput, param: str) -> list[str]:
        """The texts of an input. Refused: no texts; token ids, unless they are accepted and are the ids of a text."""
        is_single = isinstance(given, str) or (given and isinstance(given[0], int))  # one text, or its ids
        items: list[str | list[int]] = [given] if is_single else list(given)  # type: ignore[list-item, arg-type]
        if not items:
            raise Problem(Kind.EMPTY, "the input has no texts", param)
        return [item if isinstance(item, str) else self._text_of_ids(item, param) for item in items]

    def _text_of_ids(self, ids: list[int], param: str) -> str:
        if not self._accept_token_ids:
            raise Problem(
                Kind.TOKEN_IDS,
                "the input has token ids, which are numbers of OpenAI's vocabulary or another one, and mean something "
                "else to this model; send texts (LangChain: check_embedding_ctx_length=False)",
                param,
                "token_ids",
            )
        tokenizer = self.extractor.tokenizer
        special = set(tokenizer.single.ids)
        own = [number for number in ids if number not in special]
        text = tokenizer.decode(own, skip_special=False)
        (pieces,) = tokenizer.pieces([text], offsets=False)
        if pieces.ids.tolist() != own:
            raise Problem(
                Kind.TOKEN_IDS, "these ids are not what the model's tokenizer makes of a text", param, "token_ids"
            )
        return text

    def _parse(self, layers: tuple[str, ...] | None, pooling: tuple[str, ...] | None) -> tuple[FeatureColumn, ...]:
        own = self.extractor.columns
        return self.extractor.columns_under(
            layers=layers if layers is not None else [_layers_of(column) for column in own],
            pooling=pooling if pooling is not None else self.pooling,
            dtype="float32",
        )

    def _prompt(self, prompt: str | None, name: str | None) -> str:
        if prompt is not None:
            _check_characters(prompt, "the prompt", "prompt")
            return prompt
        if name is None:
            return self.extractor.token_settings.prompt
        prompts = {"query": "", "document": "", **self.extractor.model.prompts}
        if name not in prompts:
            known = ", ".join(prompts)
            raise Problem(Kind.WRONG_VALUE, f"the model has no prompt {name!r}; its prompts are {known}", "prompt_name")
        return prompts[name]


def _layers_of(column: FeatureColumn) -> str:
    """The layers of a column under any pooling: of a projection the last one, which goes into it."""
    return str(column.recipe.layers[0]) if column.recipe.projected else column.recipe.spec


def documents_of(texts: Sequence[str], *, param: str) -> list[Document]:
    """Texts as documents, none of which may be empty, too long, or no text at all."""
    documents = []
    for number, text in enumerate(texts):
        if not text.strip():
            raise Problem(Kind.EMPTY, f"text {number} is empty", param)
        if len(text) > MAX_TEXT:
            raise Problem(Kind.TOO_LARGE, f"text {number} has more than {MAX_TEXT:,} characters", param)
        _check_characters(text, f"text {number}", param)
        documents.append(Document(number, str(number), text))
    return documents


def _check_characters(text: str, name: str, param: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem(Kind.WRONG_VALUE, f"{name} has half of a surrogate pair", param) from None


def _key(specs: str | Sequence[str] | None) -> tuple[str, ...] | None:
    return None if specs is None else (specs,) if isinstance(specs, str) else tuple(specs)
