"""Every verb at work on the world's results, as cases use them."""

from tests.hostile.process import Command, words
from tests.hostile.world import FP32, HEADS, READ, TRAINING
from tests.hostile.yard import Use


def _use(name: str, arguments: str, needs: str, writes: str = "", *, redoes: bool = False, quoted: str = "") -> Use:
    """A use; the sentence ``quoted`` is its last argument."""
    given = (*words(arguments), *((quoted,) if quoted else ()))
    return Use(name, Command(given), tuple(needs.split()), tuple(writes.split()), redoes)


_DOCS, _MODEL = "docs.features", "model"
_TRAIN = "train.features dev.features"
_LIKE = "He went to the *bank*."

FEATURES = (
    _use("verify features", f"verify {_DOCS} --sample 0 --json", _DOCS),
    _use("verify features by a sample", f"verify {_DOCS} --model model --device cpu --json", f"{_DOCS} model"),
    _use("info features", f"info {_DOCS} --json", _DOCS),
    _use("export npy", f"export {_DOCS} --to npy --column last_mean -o out.npy", _DOCS, "out.*"),
    _use("export csv", f"export {_DOCS} --to csv --column last_cls -o out.csv", _DOCS, "out.*"),
    _use("export jsonl", f"export {_DOCS} --to jsonl --column last_word -o out.jsonl", _DOCS, "out.*"),
    _use("export bert-jsonl", f"export {_DOCS} --to bert-jsonl --column last_token -o out.jsonl", _DOCS, "out.*"),
    _use("export hidden-states", f"export {_DOCS} --to hidden-states -o out.states", _DOCS, "out.states"),
    _use(
        "index", f"index {_DOCS} --column last_mean -o out.index --type flat --no-evaluate --json", _DOCS, "out.index"
    ),
    _use("usages", f"usages {_DOCS} bank --column last_word --json", _DOCS),
    _use(
        "usages --like",
        f"usages {_DOCS} bank --column last_word --model model --json --like",
        f"{_DOCS} model",
        quoted=_LIKE,
    ),
    _use("usages --senses", f"usages {_DOCS} bank --column last_word --senses 2 --csv", _DOCS),
    _use("usages --by", f"usages {_DOCS} the --column last_word --by year --slices 2 --json", _DOCS),
    _use(
        "usages --senses --by",
        f"usages {_DOCS} the --column last_word --senses 2 --by author --plot out.png --json",
        _DOCS,
        "out.png",
    ),
    _use("probe", f"probe {_DOCS} --label author --pooling mean --folds 2 --json", _DOCS),
    _use(
        "change",
        f"change {_DOCS} the of --by year --column last_word --least 2 --senses 2 --plot out.png --json",
        _DOCS,
        "out.png",
    ),
    _use("change of all words", f"change {_DOCS} --by author --column last_word --least 2 --senses 2", _DOCS),
    _use("compare", f"compare {_DOCS} {_DOCS} --pooling word -k 2 --json", _DOCS),
    _use(
        "evaluate features",
        f"evaluate {_DOCS} --beir beir --model model --pooling mean --transform none,half-whiten --plot out.png --json",
        f"{_DOCS} beir model",
        "out.png",
    ),
    _use("plot map", f"plot map {_DOCS} --column last_mean --color year -o out.png --json", _DOCS, "out.png"),
    _use("plot map html", f"plot map {_DOCS} --column last_mean -o out.html --json", _DOCS, "out.html"),
    _use(
        "extract again",
        f"extract docs.jsonl -o {_DOCS} {FP32} --layers last,-2 --pooling mean,cls,token,word {READ} --json",
        f"{_DOCS} docs.jsonl model",
        f"{_DOCS}/*",
        redoes=True,
    ),
)
"""Of ``docs.features``."""

TAGGED = (
    _use("verify tagged features", "verify train.features --sample 0 --json", "train.features"),
    _use(
        "tag train",
        "tag train --train train.features --dev dev.features -o out.tagger --layers last --hidden 4 --epochs 1 --json",
        _TRAIN,
        "out.tagger",
    ),
    _use("tag predict features", "tag predict plain.tagger train.features", "train.features plain.tagger"),
    _use("tag evaluate features", "tag evaluate plain.tagger train.features --json", "train.features plain.tagger"),
    _use("probe tags", "probe train.features --label tags --folds 2 --layers last --json", "train.features"),
)
"""Of ``train.features``."""


_IDS_READ = "--pretokenized --text-column token_ids --keep documents --layers last --pooling token"
CONTEXTS = (
    _use("info contexts", "info rows.parquet --pretokenized --text-column token_ids --json", "rows.parquet"),
    _use(
        "extract contexts",
        f"extract rows.parquet -o out.features {FP32} {_IDS_READ} --json",
        "rows.parquet model",
        "out.features",
    ),
)
"""Of rows of token ids, a Parquet file."""

OF_IDS = (
    _use("verify features of ids", "verify ids.features --sample 0 --json", "ids.features"),
    _use("verify ids by a sample", "verify ids.features --model model --device cpu --json", "ids.features model"),
    _use("export saelens", "export ids.features --to saelens -o out.saelens", "ids.features", "out.saelens"),
    _use(
        "export hidden-states of ids",
        "export ids.features --to hidden-states --column last_token -o out.states",
        "ids.features",
        "out.states",
    ),
    _use(
        "extract ids again",
        f"extract rows.parquet -o ids.features {FP32} --pretokenized --text-column token_ids --keep documents "
        "--layers last,mlp:2 --pooling token,mean --json",
        "ids.features rows.parquet model",
        "ids.features/*",
        redoes=True,
    ),
)
"""Of ``ids.features``, whose documents are token ids."""


def _of_index(name: str) -> tuple[Use, ...]:
    """Verbs over an index of documents."""
    index = f"{name}.index"
    return (
        _use(f"verify {name}", f"verify {index} --json", index),
        _use(f"info {name}", f"info {index} --json", index),
        _use(f"search {name}", f"search {index} --model model --json", f"{index} model", quoted="the old mill"),
        _use(
            f"search {name} --where",
            f"search {index} --vectors vectors.npy --json --where",
            f"{index} vectors.npy",
            quoted="year > 1910",
        ),
        _use(
            f"search {name} --exact",
            f"search {index} --queries queries.txt --exact --model model --json",
            f"{index} model queries.txt",
        ),
        _use(f"evaluate {name}", f"evaluate {index} --beir beir --model model --json", f"{index} model beir"),
        _use(
            f"update {name}",
            f"index more.features -o {index} --update --json",
            f"{index} more.features many.features",
            index,
        ),
        _use(f"remove {name}", f"index -o {index} --remove ids.txt --json", f"{index} ids.txt", index),
    )


FLAT, IVF, HNSW = _of_index("flat"), _of_index("ivf"), _of_index("hnsw")
WORD = (
    _use("verify word", "verify word.index --json", "word.index"),
    _use("info word", "info word.index --json", "word.index"),
    _use("search word", "search word.index --model model --json", "word.index model", quoted=_LIKE),
    _use(
        "usages word",
        "usages word.index * --model model --json --like",
        "word.index model",
        quoted=_LIKE,
    ),
    _use("update word", "index else.features -o word.index --update --json", "word.index else.features", "word.index"),
    _use("remove word", "index -o word.index --remove ids.txt --json", "word.index ids.txt", "word.index"),
)

KEPT = (
    _use("verify kept", "verify kept.index --json", "kept.index"),
    _use("info kept", "info kept.index --json", "kept.index"),
    _use(
        "search kept",
        "search kept.index --rerank maxsim --model model --json",
        "kept.index model",
        quoted="the old mill",
    ),
    _use("update kept", "index else.features -o kept.index --update --json", "kept.index else.features", "kept.index"),
    _use("remove kept", "index -o kept.index --remove ids.txt --json", "kept.index ids.txt", "kept.index"),
)
"""Of an index that keeps tokens."""


def _of_tagger(name: str) -> tuple[Use, ...]:
    tagger = f"{name}.tagger"
    return (
        _use(f"verify {name}", f"verify {tagger} --json", f"{tagger} {_TRAIN}"),
        _use(f"info {name}", f"info {tagger} --json", tagger),
        _use(f"predict {name}", f"tag predict {tagger} plain.txt --model model", f"{tagger} model plain.txt"),
        _use(
            f"evaluate {name}", f"tag evaluate {tagger} test.conll --model model --json", f"{tagger} model test.conll"
        ),
    )


def _of_head(kind: str) -> tuple[Use, ...]:
    (ending, columns), head = HEADS[kind], f"{kind}.head"
    corpora = f"train.{ending} dev.{ending}"
    given = f"--train train.{ending} --dev dev.{ending} {columns} -o {head} --epochs 2 --hidden 4 --layers last {FP32}"
    test = f"{head} test.{ending} --model model"
    return (
        _use(f"verify {head}", f"verify {head} --json", head),
        _use(f"info {head}", f"info {head} --json", head),
        _use(f"predict {head}", f"{kind} predict {test}", f"{head} test.{ending} model"),
        _use(f"evaluate {head}", f"{kind} evaluate {test} --json", f"{head} test.{ending} model"),
        _use(f"train {head} again", f"{kind} train {given} --json", f"{head} {corpora} model", f"{head}/*"),
    )


CLASSIFY, ANSWER, CHOOSE = (_of_head(kind) for kind in HEADS)

_AGAIN = "tag train --train train.features --dev dev.features --layers last --hidden 6"
PLAIN = (
    *_of_tagger("plain"),
    _use("train again", f"{_AGAIN} -o plain.tagger --epochs 2 --json", f"plain.tagger {_TRAIN}", "plain.tagger/*"),
)
CRF = _of_tagger("crf")
BEGUN = (_use("train on", f"{_AGAIN} -o begun.tagger --epochs 3 --json", f"begun.tagger {_TRAIN}", "begun.tagger/*"),)

TRAINED = (
    _use("verify model", "verify trained.model --json", "trained.model"),
    _use("info model", "info trained.model --json", "trained.model"),
    _use(
        "pretrain again",
        f"pretrain plain.txt -o trained.model --model model --device cpu {TRAINING} --json",
        "trained.model plain.txt model",
        "trained.model/*",
    ),
    _use(
        "extract by it",
        "extract plain.txt -o out.features --model trained.model --device cpu --precision fp32 --json",
        "trained.model plain.txt",
        "out.features",
    ),
)
"""Of a model that was pre-trained."""

TABLE = (
    _use("verify table7", "verify paper.table7 --json", f"paper.table7 test.features {_TRAIN}"),
    _use("info table7", "info paper.table7 --json", "paper.table7"),
    _use(
        "table7 again",
        "tag table7 --train train.features --dev dev.features --test test.features -o paper.table7 "
        "--rows last,mix=4..5 --seeds 1 --hidden 6 --epochs 1 --json",
        f"paper.table7 test.features {_TRAIN}",
        "paper.table7/*",
    ),
)
PROBE = (_use("plot layers", "plot layers probe.json -o out.png --json", "probe.json", "out.png"),)

QUERIES = (
    _use("queries", "search flat.index --queries queries.txt --model model --json", "flat.index model queries.txt"),
    _use(
        "index --queries",
        "index many.features -o out.index --type hnsw --queries queries.txt --model model --json",
        "many.features model queries.txt",
        "out.index",
    ),
)
VECTORS = (_use("vectors", "search flat.index --vectors vectors.npy --json", "flat.index vectors.npy"),)
IDS = (_use("ids", "index -o flat.index --remove ids.txt --json", "flat.index ids.txt", "flat.index"),)
JUDGED = (_use("judgments", "evaluate flat.index --beir beir --model model --json", "flat.index model beir"),)
PREDICTIONS = (_use("predictions", "tag evaluate --predictions predictions.tsv --json", "predictions.tsv"),)

USES = (
    *(
        *FEATURES,
        *CONTEXTS,
        *OF_IDS,
        *TAGGED,
        *FLAT,
        *IVF,
        *HNSW,
        *WORD,
        *KEPT,
        *PLAIN,
        *CRF,
        *BEGUN,
        *TRAINED,
        *TABLE,
        *PROBE,
    ),
    *(*CLASSIFY, *ANSWER, *CHOOSE),
    *(*QUERIES, *VECTORS, *IDS, *JUDGED, *PREDICTIONS),
)
