"""The settings of an extractor against its model: columns and token settings of them, and settings of a record."""

from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, get_args

from bertfeat.core.encoder import Precision
from bertfeat.core.extraction.encode_arguments import check_prompt
from bertfeat.core.extraction.patterns import bytes_of_patterns
from bertfeat.core.extraction.plan import PLAN_VERSION
from bertfeat.core.extraction.settings import ExtractorSettings
from bertfeat.core.features import FeatureSettings, ModelIdentity
from bertfeat.core.grammar import OF_LAST, feature_columns, parse_poolings, split_specs
from bertfeat.core.models import BLOCK_MODULES, Model, find_block_modules, find_model
from bertfeat.core.recipe import BlockSite, FeatureColumn, Pooling, Unit, VectorDtype
from bertfeat.core.tokens import LongTextPolicy, Subword, TokenSettings
from bertfeat.core.words import WordList, WordRule
from bertfeat.display import format_size
from bertfeat.errors import FeatureSetError, ModelError, RecipeError, UsageError, parameter

NUMERICS_VERSION = 8
"""Raised whenever the same settings would give other numbers than before."""

INT8_VERSION = 1
"""Raised whenever int8 would give other integers: by another method, or another text for its calibration."""

_Choice = TypeVar("_Choice", bound=StrEnum)
_LEAST_LENGTH = 8  # tokens of a window


def resolve_columns(settings: ExtractorSettings, model: Model) -> tuple[FeatureColumn, ...]:
    """The feature columns of settings: every recipe under every pooling.

    Raises:
        UsageError: an unknown layer, pooling or dtype.
    """
    if settings.dtype not in get_args(VectorDtype):
        problem = f"unknown dtype {settings.dtype!r}"
        raise UsageError(problem, remedy=f"there are: {', '.join(get_args(VectorDtype))}")
    _refuse_patterns(settings, model)
    columns = feature_columns(
        resolve_layers(settings, model),
        resolve_poolings(settings, model) or (),
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
        dtype=settings.dtype,
        heads_width=model.width_at(BlockSite.HEADS),
        sentence=lambda: model.sentence,
    )
    if model.causal and any(column.pooling is Pooling.CLS for column in columns):
        raise UsageError(
            f"in {model.name} each token sees only those before it, so that the first token's vector is the "
            f"same for all texts, and pooling cls says nothing",
            remedy=f"give {parameter('pooling', 'last-token')} or {parameter('pooling', 'mean')}",
        )
    return columns


def _refuse_patterns(settings: ExtractorSettings, model: Model) -> None:
    """Say what attention patterns would take, which are no vectors."""
    for spec in split_specs(settings.layers or "last"):
        if spec.startswith("patterns:"):
            heads, tokens = model.sizes.num_attention_heads or 1, settings.max_length or model.max_tokens
            size = format_size(bytes_of_patterns(heads, [tokens] * 1000))
            raise RecipeError(
                f"attention patterns are {heads} × T × T weights of a text of T tokens, and no vectors: {size} for "
                f"each 1,000 texts of {tokens} tokens, in one layer",
                remedy=f"Extractor.patterns(texts, {spec.partition(':')[2]!r}) gives those of a few texts in Python",
            )


def check_sites(model: Model, columns: Sequence[FeatureColumn], precision: Precision) -> None:
    """Refuse columns of what is within blocks where the model's family does not have it, or its blocks are of integers.

    Raises:
        RecipeError: the first such column.
    """
    family = find_block_modules(model)
    for recipe in (column.recipe for column in columns if column.recipe.within_blocks):
        kind = f"model_type {model.config.model_type!r}"
        if family is None:
            raise RecipeError(
                f"{kind} gives whole layers only, and not {recipe.spec}",
                remedy=f"docs/activations.md lists the {len(BLOCK_MODULES)} families that give more",
            )
        if recipe.site not in family.sites:
            known = ", ".join(site for site in BlockSite if site in family.sites and site is not BlockSite.OUTPUT)
            raise RecipeError(f"{kind} has no {recipe.site}, and so not {recipe.spec}", remedy=f"it has {known}")
        if precision is Precision.INT8:
            raise RecipeError(
                f"in int8 a model gives whole layers only, and not {recipe.spec}",
                remedy=f"use another {parameter('precision')}",
            )


def resolve_layers(settings: ExtractorSettings, model: Model) -> tuple[str, ...]:
    """The layers of settings; by default what the model was trained to give a text, where that is no layer's pooling.

    Raises:
        RecipeError: there are none.
    """
    if settings.layers is not None:
        return split_specs(settings.layers)
    with suppress(ModelError):  # modules that cannot be applied
        if settings.pooling is None and model.sentence_modules is not None and model.sentence_modules.turns:
            return ("sentence",)
    return ("last",)


def resolve_poolings(settings: ExtractorSettings, model: Model) -> tuple[Pooling, ...] | None:
    """The poolings of settings, by default the model's own; None where all layers bring theirs (``cls``, ``sentence``).

    Raises:
        UsageError: an unknown pooling.
        ModelError: the model's own has no name here.
    """
    if settings.pooling is None and OF_LAST.keys() >= set(resolve_layers(settings, model)):
        return None
    return parse_poolings(settings.pooling, lambda: model.pooling)


def resolve_tokens(settings: ExtractorSettings, model: Model, columns: Sequence[FeatureColumn]) -> TokenSettings:
    """The settings of tokens that follow from those of an extractor, for some columns.

    Raises:
        UsageError: a value that is unknown or out of range, or settings that exclude each other.
    """
    units = {column.pooling.unit for column in columns}
    tokens = TokenSettings(
        max_length=_max_length(settings.max_length, model),
        long=_choice(LongTextPolicy, "long", settings.long),
        prompt=check_prompt(model.default_prompt if settings.prompt is None else settings.prompt),
        special_tokens=settings.special_tokens,
        subword=_choice(Subword, "subword", settings.subword),
        with_tokens=Unit.TOKEN in units,
        with_words=Unit.WORD in units,
        only=_word_list(settings.only),
        context=_context(settings.context),
        words=_choice(WordRule, "words", settings.words),
        causal=model.causal,
    )
    check_role(model, columns, tokens.prompt)
    tokens.words.check_installed()
    if tokens.context is not None and tokens.prompt:
        problem = f"a prompt and {parameter('context')} both stand before a word"
        raise UsageError(problem, remedy=f"give one of them; an empty {parameter('prompt')} is none")
    if tokens.context is not None and any(column.pooling is Pooling.CLS for column in columns):
        raise UsageError(f"with {parameter('context')} the first token of a text reads its first word only")
    if tokens.context is not None and any(column.by_own_modules for column in columns):
        raise UsageError(f"a model's own modules take a text as a whole, and {parameter('context')} reads it in pieces")
    if tokens.only is not None and not tokens.with_words:
        raise UsageError(
            f"{parameter('only')} chooses the words that get vectors, and words get none",
            remedy=f"add {parameter('pooling', str(Pooling.WORD))}",
        )
    return tokens


def check_role(model: Model, columns: Sequence[FeatureColumn], prompt: str) -> None:
    """Refuse texts of which a model that compares tokens cannot tell whether they are queries or documents.

    Raises:
        UsageError: the prompt is neither that of a query nor that of a document.
    """
    own = () if model.reading is None else model.reading.prompts.values()
    if prompt not in own and any(column.recipe.projected for column in columns):
        raise UsageError(
            f"{model.name} compares tokens of texts that begin with {' or '.join(map(repr, own))}, and not with "
            f"{prompt!r}",
            remedy=f"leave out {parameter('prompt')}, or take {parameter('layers', 'last')}",
        )


def find_recorded_model(identity: ModelIdentity, location: str | Path | None, where: object) -> Model:
    """Find the model that a record names; it may have moved to ``location``.

    Raises:
        FeatureSetError: the model there is not the recorded one; ``where`` is the record's folder.
    """
    model = find_model(location or identity.name, revision=None if location else identity.revision)
    if model.fingerprint != identity.fingerprint:
        raise FeatureSetError(
            f"the features were made by {identity.name} with the fingerprint {identity.fingerprint[:12]}…, but "
            f"{model.name} has {model.fingerprint[:12]}…, and vectors of two models cannot be compared",
            where=where,
            remedy=f"name the right model with {parameter('model')}",
        )
    sizes, recorded = (model.num_layers, model.hidden_size), (identity.num_layers, identity.hidden_size)
    if sizes != recorded:
        raise FeatureSetError(
            f"it says that {identity.name} has {recorded[0]} layers of width {recorded[1]}, and the model has "
            f"{sizes[0]} of width {sizes[1]}",
            where=where,
            remedy="make it again",
        )
    return model


def settings_to_record(
    model: Model, columns: Sequence[FeatureColumn], precision: Precision, tokens: TokenSettings
) -> FeatureSettings:
    """The settings that a feature set records, but for those of a corpus and a run."""
    return FeatureSettings(
        model=model.fingerprint,
        layers=tuple(column.described for column in columns),
        precision=precision.value,
        dtype=next((column.dtype for column in columns if not column.pooling.per_document), "float32"),
        long=str(tokens.long),
        max_length=tokens.max_length,
        prompt=tokens.prompt,
        subword=str(tokens.subword) if tokens.with_words else None,
        special_tokens=tokens.special_tokens,
        numerics=NUMERICS_VERSION,
        quantization=INT8_VERSION if precision is Precision.INT8 else None,
        only=() if tokens.only is None or not tokens.with_words else tokens.only.entries,
        words=tokens.words.record,
        context=tokens.context,
        plan=PLAN_VERSION,
    )


def settings_of_record(record: FeatureSettings, columns: Sequence[FeatureColumn]) -> ExtractorSettings:
    """The settings under which a model computes ``columns`` as a record says; the model itself is left to be named."""
    own = [column for column in columns if column.by_own_modules]
    return ExtractorSettings(
        layers=tuple(dict.fromkeys("sentence" if each in own else each.recipe.spelling for each in columns)),
        pooling=tuple(dict.fromkeys(each.pooling for each in columns if each not in own)) or None,
        precision=record.precision,
        long=record.long,
        max_length=record.max_length,
        dtype=record.dtype,
        subword=record.subword or Subword.FIRST,
        special_tokens=record.special_tokens,
        prompt=record.prompt,
        only=record.only or None,
        words=record.word_rule if record.needs_words else WordRule.SPACES,
        context=record.context,
    )


def _max_length(length: int | None, model: Model) -> int:
    limit = model.max_tokens
    if length is None:
        return limit
    if not _LEAST_LENGTH <= length <= limit:
        raise UsageError(
            f"{model.name} reads {_LEAST_LENGTH} to {limit} tokens at once", where=parameter("max_length", length)
        )
    return length


def _word_list(words: str | Sequence[str] | None) -> WordList | None:
    """The words of a list, or of a string in which commas separate them: ``bank,train*``."""
    if words is None:
        return None
    try:
        return WordList.parse(words.split(",") if isinstance(words, str) else words)
    except UsageError as error:
        raise error.within(parameter("only")) from None


def _context(context: str | None) -> str | None:
    """``left:8``, checked."""
    if context is None:
        return None
    kind, _, number = context.partition(":")
    if kind != "left" or not number.isascii() or not number.isdigit() or len(number) > 6:
        raise UsageError(
            "not a number of words before each word", where=parameter("context", context), remedy="write left:8"
        )
    return f"left:{int(number)}"


def _choice(kind: type[_Choice], name: str, value: str) -> _Choice:
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"known are {', '.join(kind)}", where=parameter(name, value)) from None
