"""One way to compute features, in a process of its own: told over stdin to run, it answers with the seconds it took.

    python benchmarks/_peer.py WAY CORPUS.json MODEL MAX_LENGTH

The model is loaded and warmed up on an eighth of the corpus; the seconds of that first run are the first answer. The
clock is inside: neither starting nor loading counts. A way is the name of a function below with a precision, and with a
device where the function takes one: pooled_ours:bf16, parquet_ours:bf16:cuda.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Run = Callable[[list[str]], Any]


def pooled_ours(model: str, length: int, precision: str) -> Run:
    return _ours(model, length, precision, pooling="mean").encode


def pooled_sentence_transformers(model: str, length: int, precision: str) -> Run:
    from sentence_transformers import SentenceTransformer

    return _encode(SentenceTransformer(model, device="cpu", model_kwargs={"dtype": _dtype(precision)}), length)


def pooled_compiled(model: str, length: int, precision: str) -> Run:
    """sentence-transformers with its model compiled once for all sizes, the weights frozen into it."""
    from sentence_transformers import SentenceTransformer
    from torch._inductor import config

    config.freezing = True  # packs the weights, as our own products do
    loaded = SentenceTransformer(model, device="cpu", model_kwargs={"dtype": _dtype(precision)})
    loaded[0].compile(dynamic=True)
    return _encode(loaded, length)


def pooled_onnx(model: str, length: int, precision: str) -> Run:
    from sentence_transformers import SentenceTransformer

    assert precision == "fp32"
    return _encode(SentenceTransformer(model, device="cpu", backend="onnx", model_kwargs={"export": True}), length)


def pooled_onnx_int8(model: str, length: int, instructions: str) -> Run:
    """The quantization that sentence-transformers recommends for a CPU with such instructions: avx512_vnni, avx2."""
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

    with tempfile.TemporaryDirectory() as folder:
        plain = SentenceTransformer(model, device="cpu", backend="onnx", model_kwargs={"export": True})
        plain.save_pretrained(folder)
        shutil.copy(Path(model, "config.json"), folder)  # which that leaves out
        export_dynamic_quantized_onnx_model(plain, instructions, folder)
        (quantized,) = Path(folder).glob(f"onnx/model_q*_{instructions}.onnx")  # quint8 on AVX2, else qint8
        named = {"file_name": f"onnx/{quantized.name}"}
        return _encode(SentenceTransformer(folder, device="cpu", backend="onnx", model_kwargs=named), length)


def pooled_openvino(model: str, length: int, precision: str) -> Run:
    from sentence_transformers import SentenceTransformer

    hint = {"fp32": "f32", "bf16": "bf16"}[precision]
    settings = {"export": True, "ov_config": {"INFERENCE_PRECISION_HINT": hint}}
    return _encode(SentenceTransformer(model, device="cpu", backend="openvino", model_kwargs=settings), length)


def pooled_openvino_int8(model: str, length: int, kind: str) -> Run:
    """OpenVINO's static quantization with its default settings, calibrated on the texts of the warm-up."""
    from optimum.intel import OVQuantizationConfig
    from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model

    assert kind == "static"
    runs: list[Run] = []

    def run(texts: list[str]) -> Any:
        if not runs:
            with tempfile.TemporaryDirectory() as folder:
                runs.append(quantized(texts, folder))
        return runs[0](texts)

    def quantized(texts: list[str], folder: str) -> Run:
        plain = SentenceTransformer(model, device="cpu", backend="openvino", model_kwargs={"export": True})
        plain.save_pretrained(folder)
        lines = Path(folder) / "lines"
        lines.mkdir()
        (lines / "train.txt").write_text("\n".join(texts), "utf-8")
        data = {"dataset_config_name": "default", "dataset_split": "train", "column_name": "text"}
        settings = OVQuantizationConfig(num_samples=min(300, len(texts)))
        export_static_quantized_openvino_model(plain, settings, folder, dataset_name=str(lines), **data)
        named = {"file_name": "openvino/openvino_model_qint8_quantized.xml"}
        return _encode(SentenceTransformer(folder, device="cpu", backend="openvino", model_kwargs=named), length)

    return run


def pooled_fastembed(model: str, length: int, precision: str) -> Run:
    """fastembed over the model as optimum writes it to ONNX, since its own file of it is on a hub."""
    import numpy as np
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType
    from sentence_transformers import SentenceTransformer

    assert precision == "fp32"
    with tempfile.TemporaryDirectory() as folder:
        plain = SentenceTransformer(model, device="cpu", backend="onnx", model_kwargs={"export": True})
        plain.save_pretrained(folder)
        TextEmbedding.add_custom_model(
            model="local/model",
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(hf="local/model"),
            dim=plain.get_sentence_embedding_dimension(),
            model_file="onnx/model.onnx",
        )
        loaded = TextEmbedding("local/model", specific_model_path=folder)
    loaded.model.tokenizer.enable_truncation(length)
    return lambda texts: np.stack(list(loaded.embed(texts, batch_size=32)))


def _encode(model: Any, length: int, batch_size: int = 32) -> Run:
    model.max_seq_length = length
    return lambda texts: model.encode(texts, batch_size=batch_size, show_progress_bar=False)


def _dtype(precision: str) -> Any:
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]


def pooled_pipeline(model: str, length: int, precision: str) -> Run:
    import numpy as np
    from transformers import pipeline

    assert precision == "fp32"
    extract = pipeline("feature-extraction", model=model, device="cpu")
    settings = {"truncation": True, "max_length": length}
    return lambda texts: [np.array(each[0]).mean(0) for each in extract(texts, tokenize_kwargs=settings)]


def words_ours(model: str, length: int, precision: str) -> Run:
    return _stored(_ours(model, length, precision, layers="concat4", pooling="word"))


def tokens_ours(model: str, length: int, precision: str) -> Run:
    return _stored(_ours(model, length, precision, layers="concat4", pooling="token"))


def tokens_ours_not_stored(model: str, length: int, precision: str) -> Run:
    """The same without Parquet: what storing costs."""
    from bertfeat import memory_corpus

    ours = _ours(model, length, precision, layers="concat4", pooling="token")

    def run(texts: list[str]) -> None:
        ours.compute_rows(ours.tokenize_rows(list(memory_corpus(texts).rows())))

    return run


def _ours(model: str, length: int, precision: str, **settings: Any) -> Any:
    from bertfeat import Extractor

    return Extractor(model, precision=precision, long="truncate", max_length=length, **settings)


def _stored(ours: Any) -> Run:
    from bertfeat import memory_corpus

    def run(texts: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ours.extract(memory_corpus(texts), Path(folder) / "features")

    return run


def words_flair(model: str, length: int, precision: str) -> Run:
    """Flair's frozen word embeddings, in batches of 32, kept in memory only."""
    import flair
    import torch
    from flair.data import Sentence
    from flair.embeddings import TransformerWordEmbeddings

    assert precision == "fp32"
    flair.device = torch.device("cpu")
    embeddings = TransformerWordEmbeddings(
        model, layers="-1,-2,-3,-4", layer_mean=False, subtoken_pooling="first", fine_tune=False
    )

    def run(texts: list[str]) -> None:
        for at in range(0, len(texts), 32):
            sentences = [Sentence(text) for text in texts[at : at + 32]]
            embeddings.embed(sentences)
            for sentence in sentences:
                torch.stack([token.embedding for token in sentence]).numpy()

    return run


def tokens_loop(model: str, length: int, precision: str) -> Run:
    """The loop that people write: batches of 32 as they come, padded, all hidden states, nothing stored."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    encoder = AutoModel.from_pretrained(model, dtype=_dtype(precision)).eval()

    @torch.inference_mode()
    def run(texts: list[str]) -> None:
        for at in range(0, len(texts), 32):
            batch = tokenizer(
                texts[at : at + 32], padding=True, truncation=True, max_length=length, return_tensors="pt"
            )
            states = encoder(**batch, output_hidden_states=True).hidden_states
            joined = torch.cat(states[-4:], dim=-1)
            for row, mask in zip(joined, batch["attention_mask"].bool(), strict=True):
                row[mask].float().numpy()

    return run


def parquet_ours(model: str, length: int, precision: str, device: str) -> Run:
    """Mean vectors from texts to Parquet."""
    return _stored(_ours(model, length, precision, pooling="mean", device=device))


def parquet_sentence_transformers(model: str, length: int, precision: str, device: str, attention: str = "sdpa") -> Run:
    """The same, by sentence-transformers and one call of pyarrow."""
    from sentence_transformers import SentenceTransformer

    settings = {"dtype": _dtype(precision), "attn_implementation": attention}
    loaded = SentenceTransformer(model, device=device, model_kwargs=settings)
    return _in_parquet(_encode(loaded, length, _batch_size(device)))


def parquet_ours_concat4_tokens(model: str, length: int, precision: str, device: str) -> Run:
    """Every token's last four layers, from texts to Parquet."""
    return _stored(_ours(model, length, precision, layers="concat4", pooling="token", device=device))


def parquet_sentence_transformers_flash(model: str, length: int, precision: str, device: str) -> Run:
    """With FlashAttention-2, for which sentence-transformers leaves padding out.

    The package flash-attn is built for few versions of torch; where it is not installed, torch's own copy of the same
    kernels takes its place.
    """
    if find_spec("flash_attn") is None:
        folder = tempfile.mkdtemp()  # for as long as the process runs
        Path(folder, "flash_attn").mkdir()
        Path(folder, "flash_attn", "__init__.py").write_text(_FLASH_ATTN)
        Path(folder, "flash_attn", "bert_padding.py").write_text("pad_input = unpad_input = None\n")
        (information := Path(folder, "flash_attn-2.8.3.dist-info")).mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n")
        (information / "top_level.txt").write_text("flash_attn\n")
        sys.path.insert(0, folder)
    return parquet_sentence_transformers(model, length, precision, device, "flash_attention_2")


_FLASH_ATTN = """
from torch.nn.attention.varlen import varlen_attn

__version__ = "2.8.3"
flash_attn_func = flash_attn_with_kvcache = None


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False,
    deterministic=False,
):
    assert not causal and not dropout_p and softmax_scale in (None, q.shape[-1] ** -0.5)
    return varlen_attn(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
"""


def parquet_transformers(model: str, length: int, precision: str, device: str) -> Run:
    """The same, by the loop that people write: texts in order of length, padded batches, the mean under the mask."""
    import numpy as np
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    encoder = AutoModel.from_pretrained(model, dtype=_dtype(precision)).to(device).eval()
    size = _batch_size(device)

    @torch.inference_mode()
    def encode(texts: list[str]) -> Any:
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        vectors = np.empty((len(texts), encoder.config.hidden_size), np.float32)
        for begin in range(0, len(order), size):
            rows = order[begin : begin + size]
            chosen = [texts[at] for at in rows]
            batch = tokenizer(chosen, padding=True, truncation=True, max_length=length, return_tensors="pt").to(device)
            mask = batch["attention_mask"][:, :, None]
            mean = (encoder(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
            vectors[rows] = mean.float().cpu().numpy()
        return vectors

    return _in_parquet(encode)


def _batch_size(device: str) -> int:
    return 32 if device == "cpu" else 512


def _in_parquet(encode: Callable[[list[str]], Any]) -> Run:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def run(texts: list[str]) -> None:
        vectors = encode(texts)
        cells = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(pa.table({"text": texts, "vector": cells}), Path(folder) / "vectors.parquet")

    return run


def main() -> None:
    way, corpus, model, length = sys.argv[1:]
    name, precision, *device = way.split(":")
    texts = json.loads(Path(corpus).read_text("utf-8"))
    run = globals()[name](model, int(length), precision, *device)
    begin = time.perf_counter()
    run(texts[::8])
    print(json.dumps(time.perf_counter() - begin), file=_ANSWERS, flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        run(texts)
        print(json.dumps(time.perf_counter() - begin), file=_ANSWERS, flush=True)


if __name__ == "__main__":
    _ANSWERS, sys.stdout = sys.stdout, sys.stderr  # libraries may print what they like
    main()
