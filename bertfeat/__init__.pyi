__version__: str

from .adapters.pytorch import VectorDataset as VectorDataset
from .corpus import (
    Corpus as Corpus,
    CorpusSettings as CorpusSettings,
    Document as Document,
    Failure as Failure,
    memory_corpus as memory_corpus,
    open_corpus as open_corpus,
)
from .errors import BertfeatError as BertfeatError
from .extraction import (
    Estimate as Estimate,
    ExtractionReport as ExtractionReport,
    Extractor as Extractor,
    StoredEncoder as StoredEncoder,
    estimate_extraction as estimate_extraction,
    verify_features as verify_features,
)
from .features import (
    DocumentFeatures as DocumentFeatures,
    FeatureSet as FeatureSet,
    StreamBatch as StreamBatch,
    StreamSettings as StreamSettings,
    VectorStream as VectorStream,
    export_features as export_features,
)
from .learning import (
    Head as Head,
    HeadSettings as HeadSettings,
    Tagger as Tagger,
    estimate_head_table7 as estimate_head_table7,
    evaluate_head as evaluate_head,
    evaluate_predictions as evaluate_predictions,
    train_head as train_head,
    train_head_table7 as train_head_table7,
    verify_head as verify_head,
    verify_head_table7 as verify_head_table7,
    write_predictions as write_predictions,
)
from .plots import (
    draw_change as draw_change,
    draw_comparison as draw_comparison,
    draw_curves as draw_curves,
    draw_frequencies as draw_frequencies,
    draw_layers as draw_layers,
    draw_map as draw_map,
    draw_retrieval as draw_retrieval,
    draw_senses as draw_senses,
    draw_table7 as draw_table7,
    write_map_page as write_map_page,
)
from .pretraining import (
    PretrainingSettings as PretrainingSettings,
    estimate_pretraining as estimate_pretraining,
    pretrain_model as pretrain_model,
)
from .probes import ProbeSettings as ProbeSettings, probe_layers as probe_layers, read_probes as read_probes
from .recipe import FeatureColumn as FeatureColumn, Operation as Operation, Pooling as Pooling, Recipe as Recipe
from .search import (
    Hit as Hit,
    Index as Index,
    MaxSim as MaxSim,
    append_features as append_features,
    build_index as build_index,
    evaluate_beir as evaluate_beir,
    evaluate_layers as evaluate_layers,
    evaluate_run as evaluate_run,
    measure_recall as measure_recall,
    remove_documents as remove_documents,
    verify_index as verify_index,
)
from .speed import Speed as Speed, measure_speed as measure_speed
from .study import (
    ChangeSettings as ChangeSettings,
    ComparisonSettings as ComparisonSettings,
    compare_features as compare_features,
    measure_change as measure_change,
)
from .usages import (
    find_collocates as find_collocates,
    find_senses as find_senses,
    find_usages as find_usages,
    find_usages_by as find_usages_by,
)
