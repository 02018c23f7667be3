"""``Extractor`` in the form that other libraries take, a module for each; a library is imported only by its module.

A :class:`bertfeat.StoredEncoder` goes wherever an ``Extractor`` does, but into Haystack, which writes one down.

| module | what it has | where it goes |
|---|---|---|
| `bertopic` | `BertopicBackend` | `BERTopic(embedding_model=…)` |
| `keybert` | `KeybertBackend` | `KeyBERT(model=…)` |
| `langchain` | `LangchainEmbeddings` | any vector store of LangChain |
| `llama_index` | `LlamaIndexEmbedding` | `VectorStoreIndex(embed_model=…)` |
| `haystack` | `HaystackTextEmbedder` and `HaystackDocumentEmbedder` | a Haystack pipeline |
| `mteb` | `MtebEncoder` | `mteb.evaluate(…, tasks)` |
| `txtai` | `txtai_transform` | `Embeddings(transform=…)` |
| `scikit_learn` | `FeatureTransformer` | a pipeline or a search of scikit-learn |
| `hugging_face` | `stream_dataset`, of a stream of vectors | what takes an `IterableDataset` |
| `pytorch` | `VectorDataset`, of a stream of vectors | torch's `DataLoader` |

sentence-transformers' own functions and SetFit take an ``Extractor`` itself. Each takes ``normalize_embeddings=True``,
which is what a model's Normalize module does in sentence-transformers.
"""

from typing import TYPE_CHECKING, TypeVar

from bertfeat.errors import MissingLibraryError

if TYPE_CHECKING:
    from bertfeat.core import SentenceEncoder

Encoder = TypeVar("Encoder", bound="SentenceEncoder")

__all__ = ["MissingLibraryError"]


def check_extractor(extractor: "Encoder") -> "Encoder":
    """Return an encoder, of which every adapter asks that it has one vector for each text, and no other columns."""
    extractor.get_embedding_dimension()  # which is of one column
    return extractor
