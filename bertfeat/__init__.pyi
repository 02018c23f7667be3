__version__: str

from .adapters.pytorch import VectorDataset as VectorDataset
from .contexts import ContextSettings as ContextSettings, write_contexts as write_contexts
from .core import (
    Corpus as Corpus,
    CorpusSettings as CorpusSettings,
    Document as Document,
    DocumentFeatures as DocumentFeatures,
    Estimate as Estimate,
    ExtractionReport as ExtractionReport,
    Extractor as Extractor,
    Failure as Failure,
    FeatureColumn as FeatureColumn,
    FeatureSet as FeatureSet,
    Operation as Operation,
    Pooling as Pooling,
    Recipe as Recipe,
    Speed as Speed,
    StoredEncoder as StoredEncoder,
    StreamBatch as StreamBatch,
    StreamSettings as StreamSettings,
    VectorStream as VectorStream,
    estimate_extraction as estimate_extraction,
    export_features as export_features,
    measure_speed as measure_speed,
    memory_corpus as memory_corpus,
    open_corpus as open_corpus,
    verify_features as verify_features,
)
from .errors import BertfeatError as BertfeatError
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
    draw_why as draw_why,
    write_map_page as write_map_page,
)
from .pretraining import (
    PretrainingSettings as PretrainingSettings,
    estimate_pretraining as estimate_pretraining,
    pretrain_model as pretrain_model,
)
from .search import (
    Hit as Hit,
    Index as Index,
    MaxSim as MaxSim,
    build_index as build_index,
    evaluate_beir as evaluate_beir,
    evaluate_layers as evaluate_layers,
    evaluate_run as evaluate_run,
    explain as explain,
    measure_recall as measure_recall,
    remove_documents as remove_documents,
    update_index as update_index,
    verify_index as verify_index,
)
from .study import (
    ChangeSettings as ChangeSettings,
    ComparisonSettings as ComparisonSettings,
    ProbeSettings as ProbeSettings,
    choose_layers as choose_layers,
    compare_features as compare_features,
    measure_change as measure_change,
    probe_layers as probe_layers,
    read_probes as read_probes,
)
from .usages import (
    count_words as count_words,
    find_collocates as find_collocates,
    find_keywords as find_keywords,
    find_senses as find_senses,
    find_usages as find_usages,
    find_usages_by as find_usages_by,
)
