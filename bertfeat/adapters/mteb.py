"""An adapter for MTEB, the benchmark of text embeddings: an Extractor as an encoder to evaluate."""

# mypy: disable-error-code="import-not-found, misc"

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from bertfeat.adapters import check_extractor
from bertfeat.arguments import checked
from bertfeat.core import EncodeResult, Extractor, StoredEncoder
from bertfeat.errors import needed_library

with needed_library("this adapter is for mteb", "mteb"):
    from mteb.models import ModelMeta
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.types import PromptType


class MtebEncoder(AbsEncoder):
    """An encoder for MTEB, with the model's prompts or with ``model_prompts`` by task, task type, query or document.

    ::

        from bertfeat.adapters.mteb import MtebEncoder
        results = mteb.evaluate(MtebEncoder(Extractor()), tasks, encode_kwargs={"batch_size": 4096})

    Results are stored apart from those of the model itself: under the name ``bertfeat/NAME``, with the model's
    fingerprint as the revision, and its column and settings as the experiment. ``batch_size`` is 32 unless it is given.
    """

    @checked
    def __init__(
        self,
        extractor: Extractor | StoredEncoder,
        *,
        model_prompts: Mapping[str, str] | None = None,
        normalize_embeddings: bool = False,
    ) -> None:
        self.model = check_extractor(extractor)
        # an Extractor's own prompt takes precedence over those of the model
        default_prompts = {} if extractor.own_prompt else dict(extractor.prompts)
        self.model_prompts = self.validate_task_to_prompt_name(dict(model_prompts or {})) or default_prompts
        self.normalize_embeddings = normalize_embeddings
        self.mteb_model_meta = _model_meta(extractor, self.model_prompts, normalize_embeddings)

    def encode(
        self,
        inputs: Iterable[Mapping[str, Sequence[str]]],
        *,
        task_metadata: object,
        prompt_type: object = None,
        **keywords: Any,
    ) -> EncodeResult:
        """Embed the texts of MTEB's batches. Shape: ``[n, width]``."""
        for unused in ("hf_split", "hf_subset"):  # vectors do not depend on the part of the task
            keywords.pop(unused, None)
        texts = [text for batch in inputs for text in batch["text"]]
        name = self.get_prompt_name(task_metadata, prompt_type)
        prompt = self.model_prompts.get(name) if name else None
        calls = {PromptType.query: self.model.encode_query, PromptType.document: self.model.encode_document}
        call = calls.get(prompt_type, self.model.encode)
        vectors: EncodeResult = call(texts, prompt=prompt, normalize_embeddings=self.normalize_embeddings, **keywords)
        return vectors


def _model_meta(extractor: Extractor | StoredEncoder, prompts: Mapping[str, str], normalized: bool) -> ModelMeta:
    settings = extractor.feature_settings
    named = [f"{name}: {prompt}" for name, prompt in sorted(prompts.items()) if prompt]
    texts = [*([extractor.prompt] if extractor.own_prompt else []), *named]
    experiment = {  # short, since MTEB makes a folder name of it
        "column": extractor.column.name,
        "precision": settings.precision,
        "length": f"{settings.long}-{settings.max_length}",
        **({"prompts": sha256("\n".join(texts).encode()).hexdigest()[:12]} if any(texts) else {}),
        **({} if settings.special_tokens else {"special_tokens": False}),
        **({"normalized": True} if normalized else {}),
    }
    return ModelMeta.create_empty(
        {
            "name": f"bertfeat/{PurePath(extractor.model_name).name}",
            "revision": extractor.identity.fingerprint,
            "adapted_from": extractor.model_name,
            "embed_dim": extractor.get_embedding_dimension(),
            "max_tokens": extractor.max_seq_length,
            "framework": ["PyTorch"],
            "experiment_kwargs": experiment,
        }
    )
