from .building.build import build_index as build_index
from .building.update import (
    UpdateReport as UpdateReport,
    remove_documents as remove_documents,
    update_index as update_index,
)
from .databases.export import (
    DatabaseRecall as DatabaseRecall,
    DatabaseReport as DatabaseReport,
    export_to_lance as export_to_lance,
    export_to_qdrant as export_to_qdrant,
)
from .evaluation.beir import BeirFolder as BeirFolder, read_beir as read_beir
from .evaluation.layer_table import (
    Interval as Interval,
    LayerScores as LayerScores,
    LayerTable as LayerTable,
    LeftOut as LeftOut,
    QueryResamples as QueryResamples,
    evaluate_layers as evaluate_layers,
)
from .evaluation.metrics import RetrievalMetric as RetrievalMetric
from .evaluation.recall import measure_recall as measure_recall
from .evaluation.retrieval import (
    OwnIds as OwnIds,
    RetrievalScores as RetrievalScores,
    evaluate_beir as evaluate_beir,
    evaluate_run as evaluate_run,
)
from .index import (
    Answer as Answer,
    Hit as Hit,
    HitPiece as HitPiece,
    Index as Index,
    SearchScope as SearchScope,
    living_values as living_values,
)
from .options import BuildOptions as BuildOptions, MaxSim as MaxSim, SearchSettings as SearchSettings
from .queries import (
    QueryEncoder as QueryEncoder,
    RecordedVectors as RecordedVectors,
    query_prompt as query_prompt,
    query_texts as query_texts,
    query_vectors as query_vectors,
    query_warnings as query_warnings,
    read_queries as read_queries,
    read_query_records as read_query_records,
    read_vectors as read_vectors,
    token_vectors as token_vectors,
    unmark_words as unmark_words,
)
from .reranking.kept_tokens import TokenCounts as TokenCounts
from .reranking.rerank import Reranker as Reranker, compute_maxsim as compute_maxsim
from .settings import (
    IndexSettings as IndexSettings,
    QueryKind as QueryKind,
    RecallReport as RecallReport,
    SearchParameter as SearchParameter,
    SourceSet as SourceSet,
    read_index_settings as read_index_settings,
    write_index_settings as write_index_settings,
)
from .two_texts import explain as explain
from .vector_index import Neighbors as Neighbors, VectorIndex as VectorIndex
from .vectors.faiss_index import count_faiss_gpus as count_faiss_gpus
from .vectors.index_types import IndexType as IndexType
from .vectors.metric import (
    Metric as Metric,
    Whitening as Whitening,
    WhiteningKind as WhiteningKind,
    as_whitening as as_whitening,
)
from .vectors.statistics import (
    PrincipalComponents as PrincipalComponents,
    RunningMean as RunningMean,
    find_principal_components as find_principal_components,
)
from .verify import IndexReport as IndexReport, verify_index as verify_index
from .why import Origin as Origin, Why as Why, WhyWord as WhyWord, WordPair as WordPair
