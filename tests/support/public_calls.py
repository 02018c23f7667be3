"""A valid call of every public function, constructor and method, over tiny results of every kind."""

import ast
import dataclasses
import json
import os
import shutil
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import bertfeat
from bertfeat.adapters.scikit_learn import FeatureTransformer
from bertfeat.core.corpus import FORMATS
from bertfeat.core.features import StreamBatch
from bertfeat.io import encode_json
from bertfeat.learning import HeadSettings
from bertfeat.search import BuildOptions
from bertfeat.server import ServerSettings, Service
from tests.support.heads_toy import FP32, MONEY, WATER, topics, write_records
from tests.support.pretraining_toy import write_corpus
from tests.support.tagging_toy import sentences, write_conll

Call = Mapping[str, Any]
ONE_EPOCH = 1
PACKAGE = Path(bertfeat.__file__).parent


def checked_names() -> dict[str, str]:
    """Every function and class that ``@checked`` makes public, and its room's door, or the module of an adapter.

    Of a class it stands on the class, or on some of its methods. A class that another one extends is reached by that.
    """
    found: dict[str, str] = {}
    bases: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        room, *inner = path.relative_to(PACKAGE).with_suffix("").parts
        module = ".".join(("bertfeat", room, *(inner[:1] if room in ("adapters", "core") else ())))
        text = path.read_text("utf-8")
        for node in ast.parse(text).body if "@checked" in text else ():
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and _is_checked(node):
                found[node.name] = module
                bases |= {ast.unparse(base) for base in node.bases} if isinstance(node, ast.ClassDef) else set()
    return {name: module for name, module in found.items() if name not in bases and not name.startswith("_")}


def _is_checked(node: ast.AST) -> bool:
    if isinstance(node, ast.ClassDef) and any(map(_is_checked, node.body)):
        return True
    decorators = node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
    return not {"checked", "checked_methods"}.isdisjoint(map(ast.unparse, decorators))


def end_server(address: str) -> None:
    """Have a server that has begun to listen end, as whoever started it would; its process ignores the signal then."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which uvicorn sends itself again, with the handler of before

    def end() -> None:
        while True:
            try:
                urllib.request.urlopen(f"{address}health", timeout=30).close()
                break
            except urllib.error.URLError:  # not warm yet
                time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()


@dataclass
class PublicWorld:
    """Corpora, feature sets, an index, a tagger, a head and a Table 7, each made when it is first needed."""

    folder: Path
    model: Path

    def __post_init__(self) -> None:
        self._numbers = count()
        (self.folder / "new").mkdir()

    def new(self, ending: str = "") -> Path:
        """A path at which there is nothing."""
        return self.folder / "new" / f"{next(self._numbers)}{ending}"

    def copy(self, folder: Path) -> Path:
        """A copy of a result, to be changed."""
        return Path(shutil.copytree(folder, self.new()))

    @cached_property
    def corpus(self) -> Path:
        records = [dict(record, year=1900 + at) for at, record in enumerate(topics(24, 1))]
        return write_records(self.folder / "docs.jsonl", records)

    @cached_property
    def extractor(self) -> bertfeat.Extractor:
        return bertfeat.Extractor(self.model, pooling="mean", **FP32)

    def _extract(self, name: str, corpus: Path, layers: str, pooling: str, **settings: Any) -> bertfeat.FeatureSet:
        bertfeat.Extractor(self.model, layers=layers, pooling=pooling, **FP32).extract(
            corpus, self.folder / name, corpus_settings=bertfeat.CorpusSettings(**settings)
        )
        return bertfeat.FeatureSet(self.folder / name)

    @cached_property
    def plain(self) -> bertfeat.FeatureSet:
        return self._extract("plain.features", self.corpus, "last", "mean,token", keep=("topic", "year"))

    @cached_property
    def stored(self) -> bertfeat.StoredEncoder:
        return bertfeat.StoredEncoder(self.plain, "last_mean", missing="compute", device="cpu")

    @cached_property
    def more(self) -> bertfeat.FeatureSet:
        records = [dict(record, id=f"more{record['id']}", year=1) for record in topics(5, 2)]
        path = write_records(self.folder / "more.jsonl", records)
        return self._extract("more.features", path, "last", "mean", keep=("topic", "year"))

    @cached_property
    def words(self) -> bertfeat.FeatureSet:
        return self._extract("words.features", self.corpus, "last,-2", "word", keep=("topic", "year"))

    @cached_property
    def tags(self) -> bertfeat.FeatureSet:
        corpus = write_conll(self.folder / "tags.conll", sentences(20, 1))
        return self._extract("tags.features", corpus, "last", "word")

    @cached_property
    def index_folder(self) -> Path:
        bertfeat.build_index(self.plain, self.folder / "plain.index", options=BuildOptions(type="flat"))
        return self.folder / "plain.index"

    @cached_property
    def index(self) -> bertfeat.Index:
        """An index with token vectors, so that it can rerank."""
        both = self._extract("both.features", self.corpus, "last", "mean,token", keep=("topic", "year"))
        bertfeat.build_index(both, self.folder / "both.index", "last_mean", options=BuildOptions(type="flat"))
        return bertfeat.Index(self.folder / "both.index", device="cpu")

    @cached_property
    def tagger_folder(self) -> Path:
        settings = HeadSettings(epochs=ONE_EPOCH, hidden=4)
        bertfeat.train_head(
            "tag", self.tags, self.tags, self.folder / "a.tagger", layers="last", settings=settings, picture=False
        )
        return self.folder / "a.tagger"

    @cached_property
    def tagger(self) -> bertfeat.Tagger:
        return bertfeat.Tagger(self.tagger_folder, device="cpu")

    @cached_property
    def head_folder(self) -> Path:
        bertfeat.train_head(folder=self.folder / "a.head", **self.head_call)
        return self.folder / "a.head"

    @cached_property
    def head_call(self) -> Call:
        settings = HeadSettings(epochs=ONE_EPOCH)
        named = {"train": self.plain, "dev": self.plain, "label": "topic"}
        return {"kind": "classify", **named, "settings": settings, "picture": False}

    @cached_property
    def head(self) -> bertfeat.Head:
        return bertfeat.Head(self.head_folder, device="cpu")

    @cached_property
    def head_table7_call(self) -> Call:
        named = {name: value for name, value in self.head_call.items() if name != "picture"}
        return {**named, "test": None, "rows": ["last"], "seeds": [1]}

    @cached_property
    def head_table7(self) -> Any:
        return bertfeat.train_head_table7(folder=self.folder / "head.table7", picture=False, **self.head_table7_call)

    @cached_property
    def word_index_folder(self) -> Path:
        bertfeat.build_index(self.words, self.folder / "words.index", "last_word", options=BuildOptions(type="flat"))
        return self.folder / "words.index"

    @cached_property
    def pretrained(self) -> Any:
        return bertfeat.pretrain_model(folder=self.folder / "a.model", picture=False, **self.pretraining)

    def service(self) -> Service:
        return Service(self.extractor, ServerSettings(port=0))

    @cached_property
    def beir(self) -> Path:
        folder = self.folder / "beir"
        (folder / "qrels").mkdir(parents=True)
        queries = [{"_id": f"q{at}", "text": text} for at, text in enumerate((*MONEY, *WATER))]
        (folder / "queries.jsonl").write_text("".join(f"{json.dumps(query)}\n" for query in queries))
        judged = "".join(f"q{at}\t{at}\t1\n" for at in range(len(queries)))
        (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
        return folder

    @cached_property
    def run(self) -> Path:
        path = self.folder / "toy.run"
        path.write_text("q0 Q0 0 1 0.5 toy\n")
        return path

    @cached_property
    def probes(self) -> Any:
        return bertfeat.probe_layers(self.plain, "topic", bertfeat.ProbeSettings(folds=2))

    @cached_property
    def probes_file(self) -> Path:
        path = self.folder / "probes.jsonl"
        path.write_text(json.dumps(json.loads(encode_json(self.probes))))
        return path

    @cached_property
    def predictions(self) -> Path:
        path = self.folder / "predictions.conll"
        path.write_text("bank B-PER B-PER\nran O O\n\nthe O B-LOC\n")
        return path

    @cached_property
    def pretraining(self) -> Call:
        shape = {"shape": "L=1,H=8,A=2", "vocabulary": 100, "max_length": 16, "batch_size": 4, "steps": 1}
        corpus = write_corpus(self.folder / "pretraining.txt", documents=4)
        return {"corpus": corpus, "settings": bertfeat.PretrainingSettings(**shape), "device": "cpu"}  # type: ignore[arg-type]

    @cached_property
    def change(self) -> Any:
        settings = bertfeat.ChangeSettings(slices=2, least=2, senses=2, column="last_word")
        return bertfeat.measure_change(self.words, ["bank", "the"], "year", settings)

    @cached_property
    def why(self) -> Any:
        return bertfeat.explain(self.extractor, "a bank", "the river")

    @cached_property
    def senses(self) -> Any:
        return bertfeat.find_senses(self.words, "the", 2, column="last_word", by="year", slices=2)

    @cached_property
    def document(self) -> bertfeat.DocumentFeatures:
        extractor = bertfeat.Extractor(self.model, pooling="mean,token", **FP32)
        return extractor.features(["the bank"])[0]

    @cached_property
    def stream(self) -> bertfeat.VectorStream:
        return self.plain.vectors(batch=4)

    @cached_property
    def batch(self) -> StreamBatch:
        return next(iter(self.stream))

    @cached_property
    def rows(self) -> list[Any]:
        return list(bertfeat.memory_corpus(["the bank", "a river"]).rows())


def fields_of(value: Any) -> Call:
    """The arguments that make an equal dataclass."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


Owner = Callable[[PublicWorld], Any]
_WORD = "the"

METHOD_OWNERS: Mapping[str, Owner] = {
    "CorpusSettings": lambda world: bertfeat.CorpusSettings(),
    "DocumentFeatures": lambda world: world.document,
    "Extractor": lambda world: world.extractor,
    "FeatureColumn": lambda world: world.plain.columns[0],
    "FeatureSet": lambda world: world.plain,
    "FeatureTransformer": lambda world: FeatureTransformer(world.model, device="cpu"),
    "Head": lambda world: world.head,
    "HeadSettings": lambda world: HeadSettings(),
    "Index": lambda world: world.index,
    "MaxSim": lambda world: bertfeat.MaxSim(),
    "PretrainingSettings": lambda world: bertfeat.PretrainingSettings(),
    "Recipe": lambda world: world.plain.columns[0].recipe,
    "StoredEncoder": lambda world: world.stored,
    "StreamBatch": lambda world: world.batch,
    "Tagger": lambda world: world.tagger,
    "VectorDataset": lambda world: bertfeat.VectorDataset(world.stream),
    "VectorStream": lambda world: world.stream,
    "Why": lambda world: world.why,
}
"""Of each class with public methods an object to call them on."""

CALLS: Mapping[str, Callable[[PublicWorld], Call]] = {
    "BertopicBackend": lambda world: {"extractor": world.extractor},
    "BuildOptions": lambda world: {},
    "ChangeSettings": lambda world: {},
    "ComparisonSettings": lambda world: {},
    "ContextSettings": lambda world: {},
    "CorpusSettings": lambda world: {},
    "CorpusSettings.check_for": lambda world: {"file_format": FORMATS["text"], "name": "it"},
    "CorpusSettings.has_tags": lambda world: {"file_format": FORMATS["text"]},
    "CorpusSettings.has_words": lambda world: {"file_format": FORMATS["text"]},
    "CorpusSettings.with_defaults": lambda world: {"file_format": FORMATS["text"]},
    "Document": lambda world: {"row": 0, "id": "1", "text": "the bank"},
    "DocumentFeatures": lambda world: fields_of(world.document),
    "DocumentFeatures.matrix": lambda world: {"pooling": "token"},
    "DocumentFeatures.pieces_of": lambda world: {"column": world.document.columns[1]},
    "DocumentFeatures.vector": lambda world: {"pooling": "mean"},
    "Estimate": lambda world: fields_of(bertfeat.estimate_extraction(world.extractor, world.corpus)),
    "ExtractionReport": lambda world: fields_of(world.extractor.extract(world.corpus, world.new())),
    "Extractor": lambda world: {"model": world.model, "device": "cpu"},
    "Extractor.__call__": lambda world: {"features": world.extractor.preprocess(["the bank"])},
    "Extractor.blocks": lambda world: {"corpus": bertfeat.memory_corpus(["the bank"]), "rows": 2},
    "Extractor.compute_rows": lambda world: {"tokenized": world.extractor.tokenize_rows(world.rows)},
    "Extractor.contents": lambda world: {"texts": ["the bank"]},
    "Extractor.encode": lambda world: {"inputs": ["the bank"]},
    "Extractor.encode_document": lambda world: {"inputs": ["the bank"]},
    "Extractor.encode_query": lambda world: {"inputs": ["the bank"]},
    "Extractor.evaluate": lambda world: {"evaluator": lambda model, path: {"score": 1.0}},
    "Extractor.check_against": lambda world: {"recorded": world.plain.header.model, "where": world.plain.folder},
    "Extractor.extract": lambda world: {"corpus": world.corpus, "folder": world.new()},
    "Extractor.features": lambda world: {"texts": ["the bank"]},
    "Extractor.language_warning": lambda world: {"text": "the bank"},
    "Extractor.from_record": lambda world: {
        "identity": world.plain.header.model,
        "settings": world.plain.header.settings,
        "columns": world.plain.columns,
        "name": world.model,
        "device": "cpu",
    },
    "Extractor.check_role": lambda world: {"columns": world.plain.columns, "prompt": ""},
    "Extractor.columns_under": lambda world: {"layers": "concat4,cls", "pooling": ["mean"], "dtype": "float32"},
    "Extractor.of_columns": lambda world: {"columns": world.extractor.columns},
    "Extractor.patterns": lambda world: {"texts": ["the bank"], "layers": 1},
    "Extractor.preprocess": lambda world: {"inputs": ["the bank"]},
    "Extractor.similarity": lambda world: dict.fromkeys(("embeddings1", "embeddings2"), world.plain.matrix()),
    "Extractor.similarity_pairwise": lambda world: dict.fromkeys(("embeddings1", "embeddings2"), world.plain.matrix()),
    "Extractor.to": lambda world: {"device": "cpu"},
    "Extractor.with_bases": lambda world: {"columns": world.extractor.columns},
    "Extractor.token_features": lambda world: {"texts": ["the bank"], "column": world.plain.columns[1]},
    "Extractor.tokenize_rows": lambda world: {"rows": world.rows},
    "Extractor.variant": lambda world: {
        "columns": world.extractor.columns,
        "token_settings": world.extractor.token_settings,
    },
    "Failure": lambda world: {"row": 0, "id": "1", "reason": "it failed"},
    "FeatureColumn": lambda world: fields_of(world.plain.columns[0]),
    "FeatureSet": lambda world: {"folder": world.plain.folder},
    "FeatureSet.__getitem__": lambda world: {"key": 1},
    "FeatureSet.batches": lambda world: {},
    "FeatureSet.by_id": lambda world: {"document_id": "1"},
    "FeatureSet.documents": lambda world: {},
    "FeatureSet.documents_at": lambda world: {"rows": [1, 3]},
    "FeatureSet.find_each": lambda world: {"column": "last"},
    "FeatureSet.find": lambda world: {},
    "FeatureSet.find_vectors": lambda world: {"name": "last_mean"},
    "FeatureSet.matrix": lambda world: {},
    "FeatureSet.single_layers": lambda world: {"pooling": "mean"},
    "FeatureSet.slice": lambda world: {"start": 1, "stop": 3},
    "FeatureSet.spans": lambda world: {"spans": "sentences"},
    "FeatureSet.stream": lambda world: {},
    "FeatureSet.stream_rows": lambda world: {"rows": [1, 3]},
    "FeatureSet.to_arrow": lambda world: {},
    "FeatureSet.to_numpy": lambda world: {"path": world.new(".npy")},
    "FeatureSet.to_pandas": lambda world: {},
    "FeatureSet.to_polars": lambda world: {},
    "FeatureSet.vectors": lambda world: {},
    "FeatureTransformer": lambda world: {"model": world.model, "device": "cpu"},
    "FeatureTransformer.fit": lambda world: {"X": ["the bank"]},
    "FeatureTransformer.transform": lambda world: {"X": ["the bank"]},
    "GridPoint": lambda world: {"batch_size": 4, "learning_rate": 1e-4, "epochs": 1},
    "HaystackDocumentEmbedder": lambda world: {"extractor": world.extractor},
    "HaystackTextEmbedder": lambda world: {"extractor": world.extractor},
    "Head": lambda world: {"folder": world.head_folder, "device": "cpu"},
    "Head.predict": lambda world: {"source": world.plain},
    "Head.predict_texts": lambda world: {"texts": ["the bank"]},
    "Head.stream": lambda world: {"source": world.plain},
    "HeadSettings": lambda world: {},
    "Hit": lambda world: fields_of(world.index.search("the bank").hits[0]),
    "Index": lambda world: {"folder": world.index_folder, "device": "cpu"},
    "Index.count": lambda world: {},
    "Index.encode": lambda world: {"texts": ["the bank"]},
    "Index.explain": lambda world: {"query": "the bank", "numbers": [0]},
    "Index.reconstruct": lambda world: {"numbers": np.array([1, 2])},
    "Index.reranker": lambda world: {"options": bertfeat.MaxSim()},
    "Index.search": lambda world: {"query": "the bank"},
    "Index.search_batch": lambda world: {"queries": ["the bank"]},
    "Index.search_vectors": lambda world: {"vectors": world.plain.matrix()[:2]},
    "Join": lambda world: {},
    "KeybertBackend": lambda world: {"extractor": world.extractor},
    "LangchainEmbeddings": lambda world: {"extractor": world.extractor},
    "LlamaIndexEmbedding": lambda world: {"extractor": world.extractor},
    "MaxSim": lambda world: {},
    "MaxSim.of_tokens": lambda world: {"trained": True},
    "MtebEncoder": lambda world: {"extractor": world.extractor},
    "PretrainingSettings": lambda world: {},
    "PretrainingSettings.resolved": lambda world: {"from_scratch": True},
    "ProbeSettings": lambda world: {},
    "Processes": lambda world: {},
    "RayCluster": lambda world: {},
    "Recipe": lambda world: fields_of(world.plain.columns[0].recipe),
    "FeatureColumn.fits": lambda world: {"hidden_size": 8},
    "Recipe.width": lambda world: {"hidden_size": 8},
    "ServerSettings": lambda world: {},
    "Service": lambda world: {"extractor": world.extractor, "settings": ServerSettings()},
    "Speed": lambda world: fields_of(bertfeat.measure_speed(world.extractor, world.corpus, documents=4, repeats=1)),
    "StoredEncoder": lambda world: {"features": world.plain.folder, "column": "last_mean", "device": "cpu"},
    "StoredEncoder.__call__": lambda world: {"features": world.stored.preprocess(["the bank"])},
    "StoredEncoder.encode": lambda world: {"inputs": ["the bank"]},
    "StoredEncoder.encode_document": lambda world: {"inputs": ["the bank"]},
    "StoredEncoder.encode_query": lambda world: {"inputs": ["the bank"]},
    "StoredEncoder.evaluate": lambda world: {"evaluator": lambda model, path: {"score": 1.0}},
    "StoredEncoder.features": lambda world: {"texts": [str(world.plain[0].text)]},
    "StoredEncoder.of_columns": lambda world: {"columns": world.extractor.columns},
    "StoredEncoder.preprocess": lambda world: {"inputs": ["the bank"]},
    "StoredEncoder.similarity": lambda world: dict.fromkeys(("embeddings1", "embeddings2"), world.plain.matrix()),
    "StoredEncoder.similarity_pairwise": lambda world: dict.fromkeys(
        ("embeddings1", "embeddings2"), world.plain.matrix()
    ),
    "StoredEncoder.to": lambda world: {"device": "cpu"},
    "StreamBatch": lambda world: {"matrix": world.batch.matrix},
    "StreamBatch.__getitem__": lambda world: {"column": next(iter(world.batch.columns))},
    "StreamBatch.join": lambda world: {"batches": [world.batch]},
    "StreamBatch.take": lambda world: {"numbers": np.array([1, 0])},
    "StreamSettings": lambda world: {},
    "Tagger": lambda world: {"folder": world.tagger_folder, "device": "cpu"},
    "Tagger.predict": lambda world: {"source": world.tags},
    "Tagger.predict_texts": lambda world: {"texts": ["the bank"]},
    "Tagger.stream": lambda world: {"source": world.tags},
    "Tagger.tag": lambda world: {"texts": ["the bank"]},
    "Tagger.tag_documents": lambda world: {"documents": list(world.tags.documents())},
    "VectorDataset": lambda world: {"stream": world.stream},
    "VectorDataset.set_epoch": lambda world: {"epoch": 1},
    "VectorStream": lambda world: fields_of(world.stream),
    "VectorStream.at_epoch": lambda world: {"epoch": 1},
    "VectorStream.divide": lambda world: {"index": 0, "count": 2},
    "VectorStream.turns": lambda world: {"index": 0, "count": 2},
    "Why": lambda world: fields_of(world.why),
    "Why.strongest": lambda world: {"most": 3},
    "as_whitening": lambda world: {"name": "whiten"},
    "best_threshold": lambda world: {"gold": [["a"], []], "predicted": ["a", "b"], "no_answer_scores": [0.1, 0.9]},
    "build_index": lambda world: {
        "features": world.plain,
        "folder": world.new(),
        "options": BuildOptions(type="flat"),
    },
    "choose_layers": lambda world: {
        "extractor": world.extractor,
        "examples": write_conll(world.folder / "tags.conll", sentences(20, 1)),
        "task": "tags",
        "layers": "last",
    },
    "choose_stored_layers": lambda world: {
        "sets": world.plain,
        "task": "labels",
        "layers": ["last"],
        "pooling": "mean",
        "label": "topic",
    },
    "compare_features": lambda world: {"first": world.words, "second": world.words},
    "compare_precisions": lambda world: {
        "extractors": [world.extractor],
        "exact": world.extractor,
        "corpus": world.corpus,
        "documents": 4,
        "repeats": 1,
    },
    "create_app": lambda world: {"service": world.service()},
    "detect_scheme": lambda world: {"sentences": [["B-PER", "O"]]},
    "draw_change": lambda world: {"report": world.change, "path": world.new(".png")},
    "draw_comparison": lambda world: {
        "comparison": bertfeat.compare_features(world.words, world.words),
        "path": world.new(".png"),
    },
    "draw_curves": lambda world: {"settings": world.tagger.record, "path": world.new(".png")},
    "draw_frequencies": lambda world: {
        "usages": bertfeat.find_usages_by(world.words, "the", "year", 2, column="last_word"),
        "path": world.new(".png"),
    },
    "draw_layers": lambda world: {"probes": [world.probes], "path": world.new(".png")},
    "draw_map": lambda world: {"features": world.plain, "path": world.new(".png")},
    "draw_pretraining": lambda world: {"record": world.pretrained.record, "path": world.new(".png")},
    "draw_retrieval": lambda world: {
        "table": bertfeat.evaluate_layers(world.plain, world.beir, device="cpu"),
        "path": world.new(".png"),
    },
    "draw_senses": lambda world: {"senses": world.senses, "path": world.new(".png")},
    "draw_table7": lambda world: {"table": world.head_table7.table, "path": world.new(".png")},
    "draw_why": lambda world: {"why": world.why, "path": world.new(".png")},
    "estimate_extraction": lambda world: {"extractor": world.extractor, "corpus": world.corpus},
    "estimate_head_table7": lambda world: world.head_table7_call,
    "estimate_pretraining": lambda world: world.pretraining,
    "evaluate_beir": lambda world: {"index": world.index, "folder": world.beir},
    "evaluate_head": lambda world: {"head": world.head, "source": world.plain},
    "evaluate_layers": lambda world: {"features": world.plain, "folder": world.beir, "device": "cpu"},
    "evaluate_run": lambda world: {"run": world.run, "folder": world.beir},
    "evaluate_predictions": lambda world: {"path": world.predictions},
    "explain": lambda world: {"extractor": world.extractor, "query": "a bank", "text": "the river"},
    "export_features": lambda world: {"folder": world.plain.folder, "to": "npy", "out": world.new(".npy")},
    "export_to_lance": lambda world: {"features": world.plain, "dataset": world.new(".lance")},
    "export_to_qdrant": lambda world: {"features": world.plain, "folder": world.new()},
    "count_words": lambda world: {"features": world.words},
    "find_keywords": lambda world: {"features": world.words, "against": "rest", "where": "year > 1900"},
    "find_collocates": lambda world: {"features": world.words, "word": _WORD},
    "find_senses": lambda world: {"features": world.words, "word": _WORD, "senses": 2, "column": "last_word"},
    "find_usages": lambda world: {"features": world.words, "word": _WORD, "column": "last_word", "device": "cpu"},
    "find_usages_by": lambda world: {
        "features": world.words,
        "word": _WORD,
        "by": "year",
        "slices": 2,
        "column": "last_word",
        "device": "cpu",
    },
    "format_head_table": lambda world: {"table": world.head_table7.table},
    "log_as_json": lambda world: {},
    "map_documents": lambda world: {"features": world.plain},
    "measure_change": lambda world: {
        "features": world.words,
        "words": [_WORD],
        "by": "year",
        "settings": bertfeat.ChangeSettings(slices=2, least=2, column="last_word"),
    },
    "measure_recall": lambda world: {"index": world.index_folder},
    "measure_speed": lambda world: {
        "extractor": world.extractor,
        "corpus": world.corpus,
        "documents": 4,
        "repeats": 1,
    },
    "memory_corpus": lambda world: {"items": ["the bank"]},
    "open_corpus": lambda world: {"sources": world.corpus},
    "open_service": lambda world: {"folders": [], "settings": ServerSettings(), "model": world.model, "device": "cpu"},
    "pretrain_model": lambda world: {**world.pretraining, "folder": world.new(), "picture": False},
    "probe_layers": lambda world: {
        "features": world.plain,
        "label": "topic",
        "settings": bertfeat.ProbeSettings(folds=2),
    },
    "read_beir": lambda world: {"folder": world.beir},
    "read_predictions": lambda world: {"path": world.predictions},
    "read_probes": lambda world: {"path": world.probes_file},
    "read_record": lambda world: {"folder": world.pretrained.folder},
    "read_spans": lambda world: {"tags": ["B-PER", "O"]},
    "update_index": lambda world: {"folder": world.copy(world.index_folder), "features": world.more},
    "remove_documents": lambda world: {"folder": world.copy(world.index_folder), "ids": ["1"]},
    "run_server": lambda world: {"service": world.service(), "on_start": end_server},
    "run_status": lambda world: {"folder": world.plain.folder},
    "score_answers": lambda world: {"gold": [["a"], []], "predicted": ["a", "b"]},
    "score_classes": lambda world: {"gold": ["a", "b"], "predicted": ["a", "a"]},
    "score_multi_labels": lambda world: {"gold": [["a"], ["a", "b"]], "predicted": [["a"], []]},
    "score_numbers": lambda world: {"gold": [1.0, 2.0], "predicted": [1.0, 3.0]},
    "score_tagger": lambda world: {"gold": [["B-PER", "O"]], "predicted": [["B-PER", "O"]]},
    "score_tags": lambda world: {"gold": [["B-PER", "O"]], "predicted": [["B-PER", "O"]]},
    "stream_dataset": lambda world: {"stream": world.stream},
    "to_bio": lambda world: {"tags": ["B-PER", "O"]},
    "to_iobes": lambda world: {"tags": ["B-PER", "O"]},
    "train_head": lambda world: {**world.head_call, "folder": world.new()},
    "train_head_table7": lambda world: {**world.head_table7_call, "folder": world.new(), "picture": False},
    "txtai_transform": lambda world: {"extractor": world.extractor},
    "verify_features": lambda world: {"folder": world.plain.folder, "device": "cpu"},
    "verify_head": lambda world: {"folder": world.head_folder},
    "verify_head_table7": lambda world: {"folder": world.head_table7.folder},
    "verify_index": lambda world: {"folder": world.index_folder},
    "verify_pretrained": lambda world: {"folder": world.pretrained.folder},
    "write_contexts": lambda world: {
        "corpus": world.corpus,
        "file": world.new(".parquet"),
        "settings": bertfeat.ContextSettings(size=8),
        "model": world.model,
    },
    "write_map_page": lambda world: {"features": world.plain, "path": world.new(".html")},
    "write_predictions": lambda world: {"head": world.head, "source": world.plain, "out": world.new()},
}
"""The arguments of one valid call of everything public, by ``function``, ``Class`` or ``Class.method``."""
