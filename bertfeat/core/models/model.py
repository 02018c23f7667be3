"""One model: where its files are, and what they say about it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bertfeat.core.models.config import ModelConfig, ModelSizes, read_config, read_config_file, read_library_config
from bertfeat.core.models.families import POSITIONS_AFTER_PADDING
from bertfeat.core.models.files import (
    find_weight_files,
    open_weights,
    path_inside_model,
    read_model_json,
    refuse_special_files,
)
from bertfeat.core.models.fingerprint import (
    config_settings,
    digest_of_model,
    tokenizer_files,
    tokenizer_settings,
    vocabulary_files,
)
from bertfeat.core.models.foreign import LibraryConfig
from bertfeat.core.models.late_interaction import (
    TOKEN_SETTINGS,
    TokenReading,
    compares_tokens,
    is_colbert,
    read_colbert_reading,
    read_listed_reading,
)
from bertfeat.core.models.sentence_files import (
    PoolingFile,
    Prompts,
    SentenceModule,
    pooling_of_modes,
    read_limits,
    read_lower_case,
    read_modules,
    read_not_applied,
    read_pooling_file,
    read_prompts,
    read_truncation_side,
)
from bertfeat.core.models.sentence_modules import (
    SentenceModules,
    read_colbert_modules,
    read_sentence_modules,
    read_token_modules,
)
from bertfeat.core.recipe import BlockSite, OwnVector, Pooling
from bertfeat.errors import ModelError, parameter
from bertfeat.io import MOST_BYTES

_LEAST_TOKENS = 8  # the fewest that a model must be able to read at once: special ones, and some of a text
_WITHOUT_LIMIT = 512  # tokens, where neither positions nor the tokenizer set one


@dataclass(frozen=True, slots=True)
class _TokenizerConfig:
    """``tokenizer_config.json``, as far as bertfeat itself reads it."""

    model_max_length: int | float | None = None
    truncation_side: str | None = None
    fast_tokenizer_files: list[str] | None = None


@dataclass(frozen=True)
class Model:
    """The files of one model, and what they say about it."""

    name: str
    folder: Path
    revision: str | None = None  # the hub's commit, where the files came from there
    home: Path | None = None  # folder of sentence-transformers' own files, where the encoder lies in a folder below it

    @cached_property
    def _raw_config(self) -> dict[str, object]:
        refuse_special_files(self.name, self.folder)
        return read_config_file(self.name, self.folder)

    @cached_property
    def _library(self) -> tuple[ModelConfig, LibraryConfig]:
        return read_library_config(self.name, self.folder, self._raw_config)

    @cached_property
    def config(self) -> ModelConfig:
        """The content of the model's ``config.json``.

        Raises:
            ModelError: no configuration, or one that needs code from the repository or is no encoder's.
        """
        return read_config(self.name, self._raw_config) or self._library[0]

    @property
    def library_config(self) -> LibraryConfig:
        """transformers' own configuration, for the families that it runs; raises the errors of :attr:`config`."""
        return self._library[1]

    @property
    def sizes(self) -> ModelSizes:
        """The numbers of the configuration, checked."""
        return self.config.sizes

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on how this model is read, a sentence each."""
        notes = [*self.config.notes]
        if named := "; ".join(self.settings_not_applied):
            notes.append(f"sentence-transformers has settings for it that are not applied here: {named}")
        if self._truncation_side == "left":
            notes.append(
                f"its tokenizer cuts the beginning of a text that is too long, as {parameter('long', 'truncate-left')} "
                f"does; {parameter('long', 'truncate')} cuts the end"
            )
        return tuple(notes)

    @property
    def causal(self) -> bool:
        """Whether each token sees only those before it, as in decoders."""
        return self.config.causal

    @property
    def num_layers(self) -> int:
        """Number L of transformer blocks."""
        return self.sizes.num_hidden_layers

    @property
    def hidden_size(self) -> int:
        """Width H of a hidden state."""
        return self.sizes.hidden_size

    @property
    def inner_size(self) -> int:
        """Width I inside a block's feed-forward part; 4H where the configuration does not say."""
        return self.config.inner_size

    def width_at(self, site: BlockSite) -> int:
        """Width of a vector at a site of a block: H; of all heads side by side it may be another."""
        return self.config.heads_width if site is BlockSite.HEADS else self.hidden_size

    @cached_property
    def max_tokens(self) -> int:
        """Most tokens that the model reads at once, special tokens included: its number of positions.

        Raises:
            ModelError: it reads fewer than 8 tokens at once.
        """
        positions = (self.sizes.max_position_embeddings or 0) - self.first_position
        if positions + self.first_position <= 0:  # relative positions without a limit
            stored = self._tokenizer_config.model_max_length or _WITHOUT_LIMIT
            positions = int(stored) if stored < 1_000_000 else _WITHOUT_LIMIT  # transformers writes 1e30 for no limit
        if positions < _LEAST_TOKENS:
            raise ModelError(
                f"it reads {positions} tokens at once; at least {_LEAST_TOKENS} are needed", where=self.name
            )
        return positions

    @property
    def first_position(self) -> int:
        """Number of the first token's position: RoBERTa and related families count from padding_idx + 1.

        Raises:
            ModelError: the configuration of such a model names no padding token.
        """
        if self.config.model_type not in POSITIONS_AFTER_PADDING:
            return 0
        padding = self.sizes.pad_token_id
        if padding is None or padding < 0:
            raise ModelError("its positions follow its padding token, and its config.json names none", where=self.name)
        return padding + 1

    @cached_property
    def weight_files(self) -> tuple[Path, ...]:
        """The safetensors files, sharded or not.

        Raises:
            ModelError: there are none, or one of a sharded set is missing.
        """
        return find_weight_files(self.name, self.folder)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over all that decides vectors: weights, tokenizer, and the settings of both.

        Equal fingerprints give equal features.

        Raises:
            ModelError: a file cannot be read.
        """
        vocabulary = vocabulary_files(self.folder)
        for file in vocabulary:
            if file.stat().st_size > MOST_BYTES:
                raise ModelError(f"{file} has more than {MOST_BYTES:,} bytes, which is no tokenizer", where=self.name)
        for file in self.weight_files:  # a file that holds no weights need not be read whole
            open_weights(self.name, file, "np")
        settings: dict[str, object] = {
            "config": config_settings(self.config, self._raw_config),
            "tokenizer": tokenizer_settings(self.name, self.folder),
            "lowercase": self.lower_cases,
        }
        files = [*self.weight_files, *vocabulary]
        with suppress(ModelError):  # modules that cannot be applied decide nothing
            if self.sentence_modules is not None:
                settings["sentence"] = str(self.sentence_modules)
                files += [file for file in self.sentence_modules.weight_files if file not in self.weight_files]
        try:
            return digest_of_model(files, settings)
        except OSError as error:
            raise ModelError(f"its files cannot be read: {error}", where=self.name) from error

    @cached_property
    def pooling(self) -> Pooling:
        """The pooling of the model's own sentence-transformers configuration, else mean.

        Raises:
            ModelError: there are several, or it is one that needs :attr:`sentence_modules`.
        """
        return pooling_of_modes(self.name, self._pooling_file.modes)

    @cached_property
    def sentence_modules(self) -> SentenceModules | None:
        """The modules by which sentence-transformers gives the vector of a text; None where that is :attr:`pooling`.

        In a model that compares tokens (:attr:`reading`) each token's vector goes through them.

        Raises:
            ModelError: one of them is unknown or damaged.
        """
        if (reading := self.reading) is not None:
            if not self._modules:
                return read_colbert_modules(self.name, self.weight_files, self.hidden_size, reading)
            return read_token_modules(self.name, self.sentence_folder, self._modules, self.hidden_size, reading)
        if not self._modules:
            return None
        modules = read_sentence_modules(
            self.name,
            self.sentence_folder,
            self._modules,
            self._pooling_file,
            self.hidden_size,
            num_layers=self.num_layers if self._raw_config.get("output_hidden_states") is True else None,
        )
        return None if modules.plain else modules

    @cached_property
    def reading(self) -> TokenReading | None:
        """The reading of queries and documents by a model that compares tokens; None where a text has one vector.

        Raises:
            ModelError: a file that tells it is damaged.
        """
        if not self._modules:
            return read_colbert_reading(self.name, self.folder) if is_colbert(self._raw_config) else None
        if not compares_tokens(self.name, self.sentence_folder, self._modules):
            return None
        return read_listed_reading(self.name, self.sentence_folder, self.folder, self._modules)

    @property
    def sentence(self) -> OwnVector:
        """The vector that sentence-transformers gives a text; in a model that compares tokens that of each token.

        Raises:
            ModelError: as :attr:`sentence_modules`.
        """
        modules, last = self.sentence_modules, (self.num_layers,)
        if modules is None:
            return OwnVector(self.pooling, self.hidden_size, last)
        layers = last if modules.layers is None else tuple(range(modules.layers.first, self.num_layers + 1))
        return OwnVector(Pooling.SENTENCE if modules.poolings else Pooling.TOKEN, modules.width, layers)

    @property
    def sentence_described(self) -> str:
        """The vector that sentence-transformers gives a text, as ``bertfeat info`` describes it; raises as above."""
        pooling, width, layers = self.sentence
        made = f"by {self.sentence_modules}" if self.sentence_modules else f"under its pooling, {pooling}"
        of = " for each token" if pooling is Pooling.TOKEN else ""
        whole = "the last layer " if layers == (self.num_layers,) else ""
        return f"{width:,} values{of}: {whole}{made}"

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts that the model's files name, and those by which a model that compares tokens marks texts."""
        return {**self._prompts.named, **(self.reading.prompts if self.reading else {})}

    @property
    def default_prompt(self) -> str:
        """The prompt of every text that gets no other: that of a document in a model that compares tokens.

        In others it is what sentence-transformers puts before every text; mostly empty.
        """
        return self.reading.document if self.reading else self._prompts.default

    @cached_property
    def settings_not_applied(self) -> tuple[str, ...]:
        """Settings of sentence-transformers' files that ask for something that bertfeat does not do."""
        applied = () if self.reading is None else TOKEN_SETTINGS
        return read_not_applied(self.name, self.sentence_folder, self.folder, self._modules, applied)

    @cached_property
    def lower_cases(self) -> bool:
        """Whether sentence-transformers lowercases each text before the tokenizer sees it."""
        return read_lower_case(self.name, self.folder, self._modules)

    @cached_property
    def stored_limits(self) -> Mapping[str, int]:
        """Length limits that the files carry and bertfeat switches off, by the file that carries them."""
        return {**read_limits(self.name, self.folder), **(self.reading.limits if self.reading else {})}

    @property
    def sentence_folder(self) -> Path:
        """The folder of sentence-transformers' own files, which may be above that of the encoder."""
        return self.home or self.folder

    @cached_property
    def _pooling_file(self) -> PoolingFile:
        return read_pooling_file(self.name, self.sentence_folder, self._modules)

    @cached_property
    def _modules(self) -> tuple[SentenceModule, ...]:
        return read_modules(self.name, self.sentence_folder)

    @cached_property
    def _prompts(self) -> Prompts:
        return read_prompts(self.name, self.sentence_folder)

    @cached_property
    def _tokenizer_config(self) -> _TokenizerConfig:
        settings = (
            read_model_json(self.name, self.folder, "tokenizer_config.json", _TokenizerConfig) or _TokenizerConfig()
        )
        for file in settings.fast_tokenizer_files or ():
            path_inside_model(self.name, self.folder, file, "tokenizer_config.json")
        return settings

    @cached_property
    def _truncation_side(self) -> str | None:
        return self._tokenizer_config.truncation_side or read_truncation_side(self.name, self.folder)

    @property
    def tokenizer_files(self) -> tuple[Path, ...]:
        """The files of the tokenizer: its vocabulary, and the settings beside it."""
        return tokenizer_files(self.folder)

    def check_tokenizer_files(self) -> None:
        """Check that there is a tokenizer, and its settings, before a library reads them.

        Without a vocabulary transformers makes up a tokenizer that knows no word.

        Raises:
            ModelError: there is none; its settings are no JSON, or name files outside of the folder.
        """
        refuse_special_files(self.name, self.folder)
        _ = self._tokenizer_config
        if not vocabulary_files(self.folder):
            raise ModelError(
                f"{self.folder} has no tokenizer files", where=self.name, remedy="put its tokenizer.json there"
            )
