"""Which result each number of a table of measurements is: the row's label → the values of its other cells, in order.

tables.py writes them into the pages that ``TABLES`` lists, each with the digits that stand there.
A row whose numbers no file of results/ has stands in ``UNRECORDED``, with the reason.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

RESULTS = Path(__file__).parent / "results"
TABLES = (
    ("README.md", "Why"),
    ("README.md", "Which layer for which task"),
    ("docs/measurements.md", ""),
    ("docs/layers.md", "Task by layer"),
    ("docs/layers.md", "What it chose"),
    ("docs/layers.md", "Models that compare tokens"),
    ("docs/tagging.md", "Measured"),
    ("docs/tagging.md", "Which subword"),
    ("docs/spans.md", "Measured"),
    ("docs/stored-encoders.md", "Measured"),
    ("docs/many-vectors.md", "Measured"),
    ("docs/many-vectors.md", "Fewer vectors to score again"),
    ("docs/living.md", "Measured"),
    ("docs/canary.md", "Measured"),
    ("docs/learning.md", "Measured"),
    ("docs/pretraining.md", "Measured"),
    ("docs/pretraining.md", "What of it helps"),
    ("docs/change.md", "Measured"),
    ("docs/vectors.md", "The order"),
    ("docs/search.md", "Why a text is near"),
    ("docs/search.md", "Recall for questions"),
    ("docs/search.md", "What scoring again gains"),
    ("docs/speed.md", "On a GPU"),
    ("docs/speed.md", "Look-ups of words"),
    ("docs/serving.md", "Texts in the order of a query"),
    ("docs/serving.md", "Several models"),
    ("docs/serving.md", "The page"),
    ("docs/pictures.md", "Measured"),
    ("docs/speed.md", "Processors"),
    ("docs/numerics.md", "fp32"),
    ("docs/numerics.md", "int8"),
    ("docs/search.md", "What whitening gains"),
    ("docs/models.md", "Speed"),
    ("docs/sizes.md", "Measured"),
    ("docs/sizes.md", "Chosen words"),
    ("docs/ko/words.md", "조사를 떼어 찾기"),
)
"""The pages, and their sections, whose tables quote results."""
CORPORA = ("sentences", "paragraphs", "mix")
SPANS = {
    "paragraphs": ("articles", "paragraphs"),
    "sentences": ("articles", "sentences"),
    "planted sentences": ("novels", "sentences"),
}


def result(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


POOLED, CONCAT4, COMPILED = (result(name)["corpora"] for name in ("pooled", "concat4", "compiled"))
GPU = [result(f"gpu-{shape}") for shape in ("bert-base", "bert-large", "minilm")]
MILLION, GROWTH, SHAPES = result("index_million"), result("growth"), result("shapes")
UPDATES = result("concurrent_updates")
FLAIR = [result(f"tagger_flair-{name}") for name in ("wnut17", "wikigold")]
EXACT = {name: result(f"exact_{name}")["max_absolute_difference"] for name in ("flair", "sentence_transformers")}
HUGGING_FACE = result("exact_transformers")["max_absolute_difference"]
AMX, ZEN4, ZEN5, AVX2_ZEN4, AVX2 = (
    result(f"processors-{name}")["corpora"]
    for name in ("amx-intel-6-167", "avx512_bf16-zen4", "avx512_bf16-zen5", "avx2-zen4", "avx2-zen5")
)
GUARDED = {commit: result(f"guard-amx-{commit}")["corpora"] for commit in ("44c8817", "2f8087c4")}
QUALITY, WHY = result("int8_quality"), result("why")
REAL, REAL_AVX2 = ([*result(name)["models"].values()] for name in ("precision", "precision-avx2"))
WAYS, PLAN, TORTURE = result("ways"), result("plan_size"), result("torture")
# it was also done to shards, a way to share a run that is no more
TRIALS = [trial for name, trial in TORTURE["trials"].items() if not name.startswith("shard-")]
SHUFFLE = result("vectors")["shuffle"]
SERVE, PAGE = result("serve"), result("page_million")
TOKENIZING, AROUND = result("tokenizing"), result("rows")["microseconds"]
RECIPES = {row["column"]: row["ndcg_at_10"] for row in result("index_recipes")["rows"]}
RERANKED = result("rerank")["collections"]
PAPER = {row["row"]["name"]: row["row"]["paper"] for row in result("table7-wikigold")["rows"]}
OVER_MODEL = {row["shape"]: row["over_loaded_model_mib"] for row in GROWTH["shapes"]}


def speeds(way: str) -> list[float]:
    """Tokens a second of pooled vectors, by corpus."""
    return [POOLED[corpus]["tokens_per_second"][f"pooled_{way}"] for corpus in CORPORA]


def ratios(pair: str) -> list[float]:
    return [POOLED[corpus]["ratios"][pair] for corpus in CORPORA]


def shares(precision: str) -> list[float]:
    return [100 * POOLED[corpus]["share_of_ceiling"][precision] for corpus in CORPORA]


def on_gpu_to(peer: str) -> list[float]:
    """How many times as fast as a peer, by shape."""
    return [each["ratios"][f"parquet_ours:bf16:cuda to parquet_{peer}:bf16:cuda"] for each in GPU]


def on_gpu(way: str) -> list[float]:
    """Tokens a second from text to Parquet on a GPU, by shape."""
    return [each["tokens_per_second"][f"parquet_{way}:bf16:cuda"] for each in GPU]


def across(measure: str, pair: str) -> list[float]:
    """The least and the largest of the three corpora, with torch.compile."""
    values = [COMPILED[corpus][measure][pair] for corpus in CORPORA]
    return [min(values), max(values)]


def f1(corpus: str, row: str, part: str = "test") -> list[float]:
    """Mean and standard deviation of span F1 over seeds."""
    (runs,) = (each["runs"] for each in result(f"table7-{corpus}")["rows"] if each["row"]["name"] == row)
    values = [100 * run[part] for run in runs]
    return [mean(values), stdev(values)]


def family(name: str, results: str = "families") -> list[float]:
    """Tokens a second packed, in fp32 and bf16, of sentences and paragraphs; and times the padded path and the peer."""
    runs = [result(results)["families"][name][f"{precision}, {corpus}"] for precision in ("fp32", "bf16")
            for corpus in ("sentences", "paragraphs")]  # fmt: skip
    return [
        *(run["tokens_per_second"]["packed"] for run in runs),
        *(run[f"to {other}"] for other in ("padded", "sentence-transformers") for run in runs),
    ]


def family_backends(name: str, results: str = "families-backends") -> list[float]:
    """How many times as fast as sentence-transformers' other backends, where they run it; sentences and paragraphs."""
    measured = result(results)["families"][name]
    backends = (("fp32", "openvino"), ("fp32", "onnx"), ("bf16", "openvino"))
    runs = [(measured[f"{precision}, {corpus}"], f"to pooled_{backend}:{precision}") for precision, backend in backends
            for corpus in ("sentences", "paragraphs")]  # fmt: skip
    return [run[ratio] for run, ratio in runs if ratio in run]


def small_set(way: str) -> list[float]:
    """Bytes and cosines of words that are stored so, and what tasks score with them."""
    found = {task: told["found"] for task, told in result("small_sets")[way].items()}
    cosines = [found["size"][name] for name in ("mean_cosine", "least_cosine") if name in found["size"]]
    tags = [100 * found["tags"][0]] if "tags" in found else []
    tasks = [found["usages"]["senses"][0], found["usages"]["usages"][0], *tags, found["maxsim"]]
    return [found["size"]["bytes_per_word"], *cosines, *tasks]


def look_ups(word: str) -> list[float]:
    """Usages of a word, and processor milliseconds of each kind of look-up."""
    found = result("lookups")["look_ups"][word]
    return [found[name] for name in ("usages", "ten", "thousand", "sorted", "slices", "sentences", "fts5")]


def look_up_patterns() -> dict[str, list[float]]:
    """Usages of each pattern, and processor milliseconds of look-ups and of a regular expression over all texts."""
    found = result("lookups")["patterns"]
    names = ("usages", "ten", "thousand", "sorted", "slices", "sentences", "regex")
    quotable = {pattern: told for pattern, told in found.items() if "|" not in pattern}  # which ends a cell of a table
    return {f"pattern `{pattern}`": [told[name] for name in names] for pattern, told in quotable.items()}


def word_lists() -> dict[str, list[float]]:
    """Different words of each list, and processor milliseconds of it and of scikit-learn's counts."""
    found = result("lookups")["lists"]
    return {f"list of {name}": [told[key] for key in ("different", "ours", "sklearn")] for name, told in found.items()}


def page_lines(word: str) -> list[float]:
    """Usages of a word, and milliseconds of the server and of the browser, for 50 lines and for 1,000."""
    found = result("page_lines")["words"][word]
    return [
        found["usages"],
        *(found[lines][where] for lines in ("50", "1000") for where in ("server_ms", "browser_ms")),
    ]


def layout(method: str) -> list[float]:
    """Percent of questions whose neighbors on a map have their intent, percent of neighbors kept, and seconds."""
    found = result("maps")["layouts"][method]
    return [100 * found["category"], 100 * found["neighbors"], found["seconds"]]


def cluster_words(way: str) -> list[float]:
    """Percent of texts that have a word of their cluster's name, and of the others, for questions and paragraphs."""
    names = result("maps")["names"]
    return [100 * names[texts][way][where] for texts in ("questions", "paragraphs") for where in ("inside", "outside")]


def korean_words(rule: str) -> list[float]:
    """Usages of the word, processor seconds and MiB of the extraction, by a rule of words."""
    found = result("korean_words")["rules"][rule]
    return [found["usages"], found["processor_seconds"], found["memory_mib"]]


def late_spans(task: str, unit: str, layers: str) -> list[float]:
    """The mean reciprocal rank of spans that are pooled late and alone, what the former lose, and its interval."""
    found = result("spans")["tasks"][task]["found"][unit][layers]
    gain, low, high = found["late - alone"]["mrr"]
    return [found["late"]["mrr"][0], found["alone"]["mrr"][0], -gain, -high, -low]


def projected_tokens(part: str, measure: str) -> list[float]:
    """What each way took, or gave a second, of documents or queries of a model that compares tokens."""
    return [*result("late_interaction")[part][measure].values()]


def planted_subjects(way: str) -> list[float]:
    """Of all texts in which a sentence was planted, those found, and the queries that find all of theirs."""
    found = result("spans")["subjects"]["found"][way]
    return [found["found"], found["all three"]]


def many_vectors(way: str) -> list[float]:
    """The share of maxsim's 100 best texts that are found, and nDCG@10 after scoring again, for each task."""
    tasks = [task["ways"][way] for task in many_vector_tasks()]
    return [value for task in tasks for value in (task["recall_of_100"], task["reranked"])]


def pooled_tokens() -> dict[str, list[float]]:
    """By the vectors that are kept: nDCG@10 of each task."""
    tasks = [task for collection in result("pool_tokens")["collections"].values() for task in collection.values()]
    names = {"all": "all tokens"} | {
        f"{way}:{factor}": label.format(factor)
        for way, label in (("pooled", "`--pool-tokens {}`"), ("neighbors", "means of {} neighbors"))
        for factor in (2, 3, 4, 6)
    }
    found = {label: [task["ways"][way]["ndcg_at_10"] for task in tasks] for way, label in names.items()}
    return found | {"by vector, none scored again": [task["vector"] for task in tasks]}


def many_vector_tasks() -> list[Any]:
    """The last layer and the sum of the last four, of each collection."""
    return [task for collection in result("many_vectors")["collections"].values() for task in collection.values()]


def stored_encoder(way: str) -> list[float]:
    """Seconds and MiB in which texts get their vectors."""
    found = result("stored_encoder")["ways"][way]
    return [found["seconds"], found["memory_mib"]]


def living(way: str) -> list[float]:
    """The median of the seconds of a way to follow a day's changes."""
    return [median(result("living")["seconds"][way])]


def living_index(way: str) -> list[float]:
    """The median of the seconds in which an index follows a day's changes."""
    return [median(result("living_index")["seconds"][way])]


def served_while_changing(what: str) -> list[float]:
    """Requests, failed and stale ones, the longest wait for the new version, and 99th percentiles of seconds."""
    found = result("living_index")[what]
    numbers = [found[name] for name in ("requests", "failures", "stale")]
    return [*numbers, max(found["seconds_to_the_new_version"]), found["p99_before"], found["p99_meanwhile"]]


def growth_of_update(at: int) -> list[float]:
    """Of a set of short texts: seconds and MiB of the extraction, of its update, of an index, and of its update."""
    found = result("living")["growth"][at]
    ways = ("extract", "update", "index", "index_update")
    return [found[f"{way}_{unit}"] for way in ways for unit in ("seconds", "mib")]


def canaries() -> dict[str, list[float]]:
    """By change of the computation: the least cosine of the canary, and how many of ten nearest texts are found."""
    found = result("canary")
    return {name: [one["cosine"], one["same_of_ten"]] for name, one in (found["sound"] | found["defects"]).items()}


def subword(way: str) -> list[float]:
    """Span F1 and its deviation, on WNUT-17 and Wikigold, by the last layer and by concat4."""
    found = result("subword")["f1"]
    return [
        value
        for corpus in ("wnut17", "wikigold")
        for layers in ("last", "concat4")
        for value in found[corpus][layers][way]
    ]


def chosen_words(way: str) -> list[float]:
    """Megabytes, bytes a word of the corpus, times the text's bytes, and seconds of words that are stored so."""
    found = result("chosen_words")["ways"][way]
    return [found["bytes"] / 1e6, found["bytes_per_word"], found["times_the_text"], found["seconds"]]


def head_scores(name: str, row: str) -> list[float]:
    """Mean and standard deviation of the scores of a row of heads.py's table on the test set, over seeds."""
    (scores,) = (
        [100 * score for score in each["test"]] for each in result(f"heads-{name}")["rows"] if each["name"] == row
    )
    return [mean(scores), stdev(scores) if len(scores) > 1 else 0.0]


def ablated(row: dict[str, Any]) -> list[float]:
    """Held-out loss and accuracy of next sentences; on each task mean and deviation, frozen and fine-tuned."""
    tasks = [f"{task}, {way}" for task in ("tagging", "pairs", "spans") for way in ("frozen", "fine-tuned")]
    measured = [row["held_out_loss"]["mean"]]
    if "next_accuracy" in row:
        measured.append(100 * row["next_accuracy"]["mean"])
    return measured + [100 * row[task][part] for task in tasks for part in ("mean", "spread")]


def head_times(name: str) -> float:
    """How many times as long fine-tuning takes as the slowest head."""
    seconds = {row["name"]: mean(run["seconds"] for run in row["runs"]) for row in result(f"heads-{name}")["rows"]}
    tuned = seconds.pop("fine-tuning")
    return float(tuned / max(seconds.values()))


def heads(name: str, baseline: str = "most-frequent") -> list[float]:
    """A row of docs/learning.md."""
    single = [head_scores(name, row)[0] for row in (baseline, "embeddings", "last")]
    best = [*head_scores(name, "concat4"), head_scores(name, "mix-all")[0], *head_scores(name, "fine-tuning")]
    return [*single, *best, head_times(name)]


def of_page(task: str) -> list[float]:
    """The default head with its spread, its linear head alone (not of spans), the page, and the ends of the difference.

    Differences are unsigned.
    """
    told = result("heads_page")["tasks"][task]
    head = [told["head"][name] for name in ("mean", "spread", "linear") if name in told["head"]]
    return [
        100 * abs(value)
        for value in (*head, told["page"]["test"], *(told["difference"][end] for end in ("low", "high")))
    ]


def recalled(tuned_on: str) -> list[float]:
    """The least difference of found and told recall of ivf, hnsw and ivfpq, unsigned.

    First of the two collections that the noise was chosen on, then of a third.
    """
    rows = [row for row in result("recall")["rows"] if row["tuned_on"] == tuned_on]
    return [
        abs(
            min(
                row["found"] - row["told"]
                for row in rows
                if row["type"] == kind and row["collection"].startswith("banking77") == third
            )
        )
        for third in (False, True)
        for kind in ("ivf", "hnsw", "ivfpq")
    ]


def adapted(name: str) -> list[float]:
    """A row of docs/pretraining.md: losses of masked words before and after, nDCG@10, and F1 with its spread."""
    (row,) = (each for each in result("adapt")["models"] if each["model"] == name)
    measured = [key for key in ("masked_loss_before", "masked_loss") if key in row["seeds"][0]]
    losses = [mean(seed[key] for seed in row["seeds"]) for key in measured]
    taggers = [100 * row[key][value] for key in ("wnut17_f1", "wikigold_f1") for value in ("mean", "spread")]
    return [*losses, row["ndcg_at_10"]["mean"], *taggers]


def whitened(part: str, column: str) -> list[float]:
    """A row of docs/search.md: nDCG@10 on Cranfield, or Spearman's correlation on SICK, by transform."""
    rows = {row["transform"]: row for row in result("whitening")[part] if row["column"] == column}
    transforms = ("none", "half-whiten", "half-whiten:128", "half-whiten:64", "whiten", "whiten:128")
    return [rows[name]["ndcg_at_10"][0] if part == "cranfield" else rows[name]["spearman"] for name in transforms]


def reranked(collection: str) -> list[float]:
    """A row of docs/search.md: nDCG@10 by vector, by the defaults, without idf, and as the other half chose."""
    scores = RERANKED[collection]
    (unweighted,) = (
        row["ndcg_at_10"]
        for row in scores["tried"]
        if (row["column"], row["weight"], row["idf"]) == ("layer6_token", 0.5, False)
    )
    by = {way: each["ndcg_at_10"] for way, each in scores["defaults"].items()}
    return [by["plain"], by["maxsim"], unweighted, scores["held_out"]]


ARRANGEMENTS = ("one_server", "two_servers")


def of_models(load: str, model: str, measure: str) -> list[float]:
    """A row of docs/serving.md: a measure of one of two models, in one server and in a server of its own."""
    found = result("serve_models")["loads"][load]
    return [found[place][model][measure] for place in ARRANGEMENTS]


def ordered(collection: str) -> list[float]:
    """A row of docs/serving.md: nDCG@10 by vector, by `/rerank`, and with an index; milliseconds of a request."""
    found = result("rerank_route")["collections"][collection]
    return [*(found["ndcg_at_10"][way] for way in ("by vector", "alone", "with an index")), found["ms"]]


def reranking_times(collection: str) -> list[float]:
    """Milliseconds and megabytes of an index: by vector, and with tokens in the index, and in the feature set."""
    kept = RERANKED[collection]["kept"]
    ways = [kept[way] for way in ("int8", "from the feature set")]
    pairs = [(way["milliseconds"]["maxsim"], way["bytes"] / 1e6) for way in ways]
    return [ways[-1]["milliseconds"]["plain"], *(value for pair in pairs for value in pair)]


def chosen_for_names(model: str) -> list[float]:
    """The seconds of the choice, and the F1 of taggers by it, by the best single layer and by the last four."""
    found = result("chosen_layers")["models"][model]
    choice, trained = found["chosen"]["tags"], found["trained tags"]
    single = next(layers for layers in trained if layers.isdigit())
    return [choice["seconds"], trained[choice["layers"]], trained[single], trained["concat4"]]


def seconds_of_choice(task: str) -> list[float]:
    """The seconds of the choice, for both models."""
    return [model["chosen"][task]["seconds"] for model in result("chosen_layers")["models"].values()]


def by_task(task: str, benchmark: str = "layers_by_task") -> list[float]:
    """A row of docs/layers.md: the score of each layer, and the ends of the best one's interval."""
    layers = result(benchmark)[task]["layers"].values()
    return [*(score for score, _, _ in layers), *max(layers)[1:]]


def by_task_briefly(task: str) -> list[float]:
    """A row of README.md: the scores of layers 0 and 3, the last one, and the last four."""
    layers = result("layers_by_task")[task]["layers"]
    return [layers[name][0] for name in ("embeddings", "3", "last", "concat4")]


def planted(column: str) -> list[float]:
    """A row of docs/change.md: areas under the ROC curve."""
    return [result("change")["columns"][column][measure]["auc"] for measure in ("prt", "jsd", "apd")]


def on_processor(corpora: dict[str, Any], precisions: Sequence[str], peer: str) -> list[float]:
    """A row of docs/speed.md: sentences and paragraphs of each precision and of a peer, and the fastest's ratio to it."""
    ours = [f"pooled_ours:{precision}" for precision in precisions]
    both = [corpora[name] for name in ("sentences", "paragraphs")]
    fastest = max(ours, key=both[0]["tokens_per_second"].__getitem__)
    return [
        *(each["tokens_per_second"][way] for way in (*ours, peer) for each in both),
        *(each["ratios"][f"{fastest} to {peer}"] for each in both),
    ]


def one_call(corpora: dict[str, Any], precision: str) -> list[float]:
    """A row of docs/speed.md: all blocks in one call, next to the blocks one by one; shares of ceiling and peak."""
    both = [corpora[name] for name in ("sentences", "paragraphs")]
    return [
        *(each["tokens_per_second"][f"pooled_ours{way}:{precision}"] for way in ("_blocks", "") for each in both),
        *(each["ratios"][f"pooled_ours:{precision} to pooled_ours_blocks:{precision}"] for each in both),
        *(
            round(100 * each[f"share_of_{bound}"][f"pooled_ours:{precision}"])
            for bound in ("ceiling", "peak")
            for each in both
        ),
    ]


def guarded_on_amx(commit: str, precision: str) -> list[float]:
    """A row of docs/speed.md: tokens a second as they were with a commit, as they became, and the ratio."""
    both = [GUARDED[commit][name] for name in ("sentences", "paragraphs")]
    return [
        *(
            each["tokens_per_second"][f"pooled_ours:{precision}{build}"]
            for build in (f"@{commit}", "")
            for each in both
        ),
        *(1 / each["seconds_to_reference"][precision] for each in both),
    ]


def precision_layer(layer: int) -> list[float]:
    """A row of docs/numerics.md: cosines of both models' tokens with those of fp32, in bf16 and int8."""
    names = ("tokens_first_percentile", "tokens_least", "tokens_below_0.99")
    deep = [model for model in REAL if layer < len(model["int8"]["tokens_least"])]
    return [model[precision][name][layer] for model in deep for precision in ("bf16", "int8") for name in names]


def exactness(model: dict[str, Any]) -> dict[str, list[float]]:
    """A column of docs/numerics.md's table of fp32, by row."""
    found = model["fp32"]
    ours, theirs = (found["rms_to_float64"][name][1:] for name in ("ours", "hugging_face"))
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    largest = [max(found["largest_to_float64"][name]) for name in ("ours", "hugging_face")]
    return {
        "distance from float64 over Hugging Face's own (root mean square of a layer; least to largest)": [
            min(ratios),
            max(ratios),
        ],
        "largest difference of a value from float64: ours, Hugging Face's": largest,
        "largest difference between the two; tokens with one beyond 3e-5": [
            max(found["largest_to_each_other"]),
            max(found["tokens_beyond_3e-5"]),
        ],
    }


def table7(row: str) -> list[float]:
    """A row of docs/tagging.md: both corpora, both parts, and the paper's number."""
    ours = [f1(corpus, row, part) for corpus in ("wnut17", "wikigold") for part in ("dev", "test")]
    return [*(value for pair in ours for value in pair), PAPER[row]]


def both(*rows: str) -> list[float]:
    """Rows of Table 7 on the test sets, one corpus after the other."""
    return [value for corpus in ("wnut17", "wikigold") for row in rows for value in f1(corpus, row)]


def of_plain(way: str) -> list[float]:
    return [MILLION["search"][index]["of_plain"][way] for index in ("auto", "hnsw", "flat")]


def peaks(model: str) -> list[float]:
    """Peak memory with 100,000 and with 1,000,000 documents, and the growth in percent."""
    before, after = (row["peak_mib"] for row in GROWTH[model] if row["documents"] >= 100_000)
    return [before, after, 100 * (after / before - 1)]


def spread(runs: Sequence[dict[str, float]]) -> list[float]:
    values = [100 * run["test"] for run in runs]
    return [mean(values), stdev(values)]


SENTENCES, PARAGRAPHS = CONCAT4["sentences"], CONCAT4["paragraphs"]
WORDS = SENTENCES["tokens_per_second"]
STORING = [each for each in result("storing").values() if isinstance(each, dict) and "concat4 tokens" in each]
LARGEST = GROWTH["default"][-1]
BUILDS = [MILLION["builds"][index] for index in ("ivf", "hnsw", "flat")]
EXACT_SEARCH = [MILLION["search"]["flat"]["queries_per_second"]["ours"], MILLION["exact"]["queries_per_second"]]
CEILINGS = [100 * SHAPES["shapes"][shape]["share_of_ceiling"] for shape in SHAPES["shapes"]]


def shuffled(memory: str) -> list[float]:
    """A row of docs/vectors.md."""
    found = SHUFFLE[memory]
    return [found["variance_of_batch_means"], found["documents_in_a_batch"]]


_GROUPS: tuple[tuple[str, dict[str, list[float]]], ...] = (
    (
        "families",
        {name: family(name) for name in ("MPNet-base", "ModernBERT-base", "Nomic v1.5", "EuroBERT-210m")},
    ),
    (
        "small_sets",
        {
            "`--dtype float32`": small_set("float32"),
            "float16, the default": small_set("float16"),
            "`--dtype int8`": small_set("int8"),
            **{f"`--dtype int8 --width {width}`": small_set(f"int8, width {width}") for width in (256, 128, 64)},
        },
    ),
    (
        "lookups",
        {
            **{
                f"look-up of `{word}`": look_ups(word)
                for word in ("zeal", "bank", "time", "said", "of course", "train*")
            },
            **look_up_patterns(),
            **word_lists(),
        },
    ),
    (
        "rerank_route",
        {"50 of Cranfield's abstracts": ordered("cranfield"), "50 of XQuAD's paragraphs": ordered("xquad")},
    ),
    (
        "serve_models",
        {
            "a text a request: tokens/s of the small model": of_models("alike", "small", "tokens_per_second"),
            "and of the large one": of_models("alike", "large", "tokens_per_second"),
            "ms until an answer of the small model": of_models("alike", "small", "p50_ms"),
            "and of the large one's": of_models("alike", "large", "p50_ms"),
            "64 texts a request to the large model: its tokens/s": of_models(
                "beside_bulk", "large", "tokens_per_second"
            ),
            "and ms until an answer of the small one, with a text a request": of_models(
                "beside_bulk", "small", "p50_ms"
            ),
            "MiB that are held": [result("serve_models")["resident_mib"][place] for place in ARRANGEMENTS],
        },
    ),
    ("page_lines", {f"the page of `{word}`": page_lines(word) for word in ("bank", "time", "said", "of course")}),
    (
        "maps",
        {
            **{f"`{method}`": layout(method) for method in ("pca", "umap", "tsne")},
            "by G² among words three times as frequent (ours)": cluster_words("ours"),
            "by c-TF-IDF, as in BERTopic": cluster_words("c-TF-IDF"),
            "by c-TF-IDF, without English stop words": cluster_words("c-TF-IDF without stop words"),
        },
    ),
    (
        "chosen_words",
        {f"vectors of {name}": chosen_words(name) for name in ("every word", "24 words", "one word")},
    ),
    ("korean_words", {"어절 그대로": korean_words("spaces"), "조사를 떼어": korean_words("korean")}),
    (
        "spans",
        {
            f"{name}, by `{layers}`": late_spans(task, unit, layers)
            for name, (task, unit) in SPANS.items()
            for layers in ("last", "sum4")
        }
        | {f"by {way}": planted_subjects(way) for way in ("whole texts", "spans of tokens", "split")},
    ),
    (
        "late_interaction",
        {
            "vectors a second, sentences": projected_tokens("sentences", "vectors_per_second"),
            "vectors a second, paragraphs": projected_tokens("paragraphs", "vectors_per_second"),
            "ms a query, filled up to 32 tokens": projected_tokens("queries", "milliseconds"),
        },
    ),
    (
        "many_vectors",
        {
            **{
                label: many_vectors(way)
                for label, way in {
                    "the mean vector": "vector",
                    "the mean vector, half-whitened": "half-whitened vector",
                    **{f"`fde:{width}`": f"fde:{width}" for width in (512, 1024, 2048, 4096, 8192)},
                    "random partitions, 4,096 values, inner product": "random 4096, inner product",
                    "random partitions, 4,096 values, cosine": "random 4096, cosine",
                }.items()
            },
            "maxsim of all texts": [
                value for task in many_vector_tasks() for value in (1, task["maxsim"]["by_itself"])
            ],
            "`fde:4096`, 50 scored again": [
                task["ways"]["fde:4096"]["queries_per_second"] for task in many_vector_tasks()
            ],
            "maxsim with every text": [task["maxsim"]["queries_per_second"] for task in many_vector_tasks()],
        },
    ),
    (
        "living",
        {
            "`extract --update`": living("update"),
            "the 700 changed texts by themselves": living("changed"),
            "the corpus read once": living("reading"),
            "all of it anew": living("anew"),
            "100,000 texts": growth_of_update(0),
            "1,000,000 texts": growth_of_update(1),
        },
    ),
    (
        "living_index",
        {
            "`index --update`": living_index("update"),
            "`index` anew": living_index("build"),
            "`export --to lance --update`": living_index("export"),
            "`export --to lance` anew": living_index("export_whole"),
            "Lance, given the difference with its vectors": living_index("lance"),
            "Lance, given all rows with their vectors": living_index("lance_whole"),
            "LangChain's indexing API, given all texts; in memory": living_index("langchain"),
            "32 clients, 5 days": served_while_changing("server"),
            "32 clients, a new model": served_while_changing("new_model"),
        },
    ),
    ("canary", canaries()),
    ("pool_tokens", pooled_tokens()),
    ("stored_encoder", {f"`{way}`": stored_encoder(way) for way in ("Extractor", "StoredEncoder")}),
    (
        "subword",
        {
            **{f"`--subword {way}`": subword(way) for way in ("first", "mean", "last")},
            "first and last side by side": subword("first and last"),
        },
    ),
    ("families-esm2", {"ESM-2 35M": family("ESM-2 35M", "families-esm2")}),
    (
        "families-backends",
        {
            f"{name}: other backends": family_backends(name)
            for name in ("MPNet-base", "ModernBERT-base", "Qwen3-0.6B, 4 layers")
        },
    ),
    (
        "families-backends-esm2",
        {"ESM-2 35M: other backends": family_backends("ESM-2 35M", "families-backends-esm2")},
    ),
    ("families-qwen3", {"Qwen3-0.6B, 4 layers": family("Qwen3-0.6B, 4 layers", "families-qwen3")}),
    (
        "pooled",
        {
            "bertfeat, bf16 (default)": speeds("ours:bf16"),
            "bertfeat, fp32": speeds("ours:fp32"),
            "sentence-transformers, bf16": speeds("sentence_transformers:bf16"),
            "sentence-transformers, OpenVINO bf16": speeds("openvino:bf16"),
            "sentence-transformers, OpenVINO fp32": speeds("openvino:fp32"),
            "sentence-transformers, fp32": speeds("sentence_transformers:fp32"),
            "sentence-transformers, ONNX": speeds("onnx:fp32"),
            "transformers pipeline, fp32": speeds("pipeline:fp32"),
            "bertfeat, bf16: share of the bf16 ceiling": shares("bf16"),
            "bertfeat, fp32: share of the fp32 ceiling": shares("fp32"),
            "bertfeat to sentence-transformers, bf16": ratios("bf16 to pooled_sentence_transformers:bf16"),
            "bertfeat to OpenVINO, bf16": ratios("bf16 to pooled_openvino:bf16"),
            "bertfeat to sentence-transformers, fp32": ratios("fp32 to pooled_sentence_transformers:fp32"),
        },
    ),
    (
        "processors-amx-intel-6-167",
        {
            "Intel Xeon with AMX": on_processor(AMX, ("fp32", "bf16", "int8"), "pooled_openvino_int8:static"),
            **{
                f"sentences to vectors, {precision}, tokens/s": [
                    AMX["sentences"]["tokens_per_second"][f"pooled_{way}"] for way in (f"ours:{precision}", peer)
                ]
                for precision, peer in (("bf16", "openvino_int8:static"), ("fp32", "openvino:fp32"))
            },
        },
    ),
    (
        "guard-amx-44c8817",
        {f"with AMX, {precision}": guarded_on_amx("44c8817", precision) for precision in ("fp32", "bf16", "int8")},
    ),
    (
        "guard-amx-2f8087c4",
        {
            f"a leaner block with AMX, {precision}": guarded_on_amx("2f8087c4", precision)
            for precision in ("fp32", "bf16", "int8")
        },
    ),
    (
        "concat4",
        {
            "concat4 features of words into Parquet, next to Flair (fp32, in memory only)": [
                SENTENCES["ratios"]["words, bf16 to Flair"],
                PARAGRAPHS["ratios"]["words, bf16 to Flair"],
                SENTENCES["ratios"]["words, fp32 to Flair"],
                PARAGRAPHS["ratios"]["words, fp32 to Flair"],
            ],
            "concat4 features of tokens into Parquet, next to the padded loop over transformers in fp32, and in bf16 "
            "(nothing stored)": [
                SENTENCES["ratios"]["tokens, bf16 to the loop in fp32"],
                PARAGRAPHS["ratios"]["tokens, bf16 to the loop in fp32"],
                SENTENCES["ratios"]["tokens, bf16 to the loop in bf16"],
                PARAGRAPHS["ratios"]["tokens, bf16 to the loop in bf16"],
            ],
            "concat4 features of every word, tokens/s": [WORDS["words_ours:bf16"], WORDS["words_flair:fp32"]],
        },
    ),
    (
        "storing",
        {
            "concat4 tokens into Parquet, 3 kB a token, next to the same dropped; to `encode`": [
                *(
                    100 * bound(each["concat4 tokens"]["ratios"][way] for each in STORING)
                    for way in ("not stored", "encode")
                    for bound in (min, max)
                ),
            ],
            "mean vectors, from a file of texts to Parquet, next to `encode`": [
                100
                * bound(
                    each[f"pooled {name}"]["ratios"]["encode"]
                    for each in STORING
                    for name in ("sentences", "paragraphs")
                )
                for bound in (min, max)
            ],
        },
    ),
    (
        "compiled",
        {
            "torch.compile, given to sentence-transformers, bf16, on the EPYC": [
                *across("ratios", "compiled to plain, bf16"),
                *across("warm_up_seconds", "pooled_compiled:bf16"),
                *across("ratios", "ours to compiled, bf16"),
            ],
        },
    ),
    (
        "gpu-bert-base gpu-bert-large gpu-minilm",
        {
            "bertfeat, text to Parquet": on_gpu("ours"),
            "sentence-transformers, and one call of pyarrow": on_gpu("sentence_transformers"),
            "the same with FlashAttention-2, without padding": on_gpu("sentence_transformers_flash"),
            "a loop over transformers, by length, and one call of pyarrow": on_gpu("transformers"),
            "bertfeat to sentence-transformers": on_gpu_to("sentence_transformers"),
            "bertfeat to sentence-transformers without padding": on_gpu_to("sentence_transformers_flash"),
            "concat4 of every token, text to Parquet": on_gpu("ours_concat4_tokens"),
            "texts to token ids alone, on 16 cores": [
                each["steps_alone_tokens_per_second"]["tokenize"] for each in GPU
            ],
            "token ids to vectors alone": [each["steps_alone_tokens_per_second"]["compute"] for each in GPU],
            "these to the ceiling of the model's own products": [
                100 * each["share_of_ceiling"]["the encoder"] for each in GPU
            ],
        },
    ),
    (
        "gpu-bert-base",
        {
            "paragraphs to vectors in Parquet on an H100, bert-base's shape, bf16, tokens/s": [
                on_gpu("ours")[0],
                on_gpu("sentence_transformers_flash")[0],
            ],
        },
    ),
    (
        "shapes",
        {
            "share of the ceiling, bf16 and fp32: bert-base's shape, bert-large's": CEILINGS,
            "`--layers 1` next to `--layers last`, bert-base's shape; `cls` next to `mean`, default model": [
                SHAPES["layers 1 to last, bert-base"]["ratio"],
                SHAPES["cls to mean, default model"]["ratio"],
            ],
        },
    ),
    (
        "growth",
        {
            "1,000,000 short documents, text to Parquet": [LARGEST["tokens_per_second"], LARGEST["seconds"]],
            "peak memory, 100,000 → 1,000,000 documents": [*peaks("default"), *peaks("tiny")],
            "memory above the loaded tiny model: one line of 4 Mi, of 16 Mi characters; 1,000, 10,000 documents of 5,000; "
            "30,000 kept columns": [
                OVER_MODEL["one line of 4 Mi characters"],
                OVER_MODEL["one line of 16 Mi characters"],
                OVER_MODEL["1,000 documents of 5,000 characters"],
                OVER_MODEL["10,000 documents of 5,000 characters"],
                OVER_MODEL["30,000 kept columns"],
            ],
            "peak memory, 100,000 → 1,000,000 documents, MiB": peaks("default")[:2],
        },
    ),
    (
        "lstm",
        {
            "learning a tagger, our LSTM next to what `torch.nn.LSTM` calls in bf16, and in fp32 (AMD EPYC)": list(
                result("lstm")["ratio"].values()
            ),
        },
    ),
    (
        "table7-wnut17 table7-wikigold",
        {
            "embeddings; last; second-to-last layer": both("embeddings", "last", "second-to-last"),
            "weighted sum of all layers; of the last four": both("mix-all", "mix4"),
            "concat of the last four, plain": both("concat4"),
            "embeddings": table7("embeddings"),
            "second-to-last": table7("second-to-last"),
            "last": table7("last"),
            "weighted sum of the last four": table7("mix4"),
            "concat of the last four": table7("concat4"),
            "weighted sum of all": table7("mix-all"),
        },
    ),
    (
        "tagger_flair-wnut17 tagger_flair-wikigold",
        {
            "the same, with `--crf`": [number for each in FLAIR for number in spread(each["runs"]["ours"])],
            "Flair on concat of the last four, BiLSTM-CRF, one run": [
                number for each in FLAIR for number in (float(each["flair"]["test"]), each["ratio"])
            ],
        },
    ),
    (
        "table7-wikigold",
        {
            "the model fine-tuned": f1("wikigold", "fine-tuning"),
            "fine-tuned": [*f1("wikigold", "fine-tuning", "dev"), *f1("wikigold", "fine-tuning"), PAPER["fine-tuning"]],
            "span F1 on Wikigold, concat of the last four layers": [
                f1("wikigold", "concat4")[0],
                f1("wikigold", "fine-tuning")[0],
            ],
        },
    ),
    (
        "heads-banking77",
        {
            "accuracy on banking77 (77 intents), concat of the last four layers": [
                head_scores("banking77", "concat4")[0],
                head_scores("banking77", "fine-tuning")[0],
                head_times("banking77"),
            ],
            "banking77, 77 intents: accuracy": heads("banking77"),
        },
    ),
    (
        "heads-sick-entailment",
        {
            "sick, entailment of pairs: accuracy": heads("sick-entailment"),
        },
    ),
    (
        "heads-sick-relatedness",
        {
            "sick, relatedness of pairs: Spearman": heads("sick-relatedness", "cosine"),
        },
    ),
    (
        "heads_page",
        {
            "sick, entailment": of_page("sick-entailment"),
            "sick, relatedness": of_page("sick-relatedness"),
            "banking77": of_page("banking77"),
            "banking77, two of one intent or not": of_page("banking77-pairs"),
            "restaurant8k, which values": of_page("restaurant8k-slots"),
            "novels, which of four": of_page("novels"),
            "novels, the year of a paragraph": of_page("novels-year"),
            "xquad, answers": of_page("xquad"),
            "restaurant8k, values or none": of_page("restaurant8k"),
        },
    ),
    (
        "recall",
        {
            "stored vectors as they are": recalled("stored"),
            "stored vectors disturbed, the default": recalled("disturbed"),
            "half of the questions, `--queries`": recalled("given"),
        },
    ),
    (
        "heads-xquad",
        {
            "xquad, answers in passages: F1": heads("xquad"),
        },
    ),
    (
        "heads-restaurant8k",
        {
            "restaurant8k, values in requests, or none: F1": heads("restaurant8k"),
        },
    ),
    (
        "heads-novels",
        {
            "novels, the next sentence of four: accuracy": heads("novels"),
        },
    ),
    (
        "adapt",
        {
            "as it comes": adapted("default"),
            "novels": adapted("novels"),
            "novels, `--anchor 10`": adapted("novels-anchored"),
            "Cranfield": adapted("cranfield"),
            "Cranfield, `--anchor 10`": adapted("cranfield-anchored"),
        },
    ),
    (
        "processors-avx512_bf16-zen5",
        {
            "sentences to vectors, int8, without AMX, tokens/s": [
                ZEN5["sentences"]["tokens_per_second"][way]
                for way in ("pooled_ours:int8", "pooled_onnx_int8:avx512_vnni")
            ],
            "AMD EPYC (Zen 5), AVX512-BF16 and VNNI, no AMX": on_processor(
                ZEN5, ("fp32", "bf16", "int8"), "pooled_onnx_int8:avx512_vnni"
            ),
        },
    ),
    (
        "processors-avx512_bf16-zen4",
        {
            "AMD EPYC (Zen 4), AVX512-BF16 and VNNI": on_processor(
                ZEN4, ("fp32", "bf16", "int8"), "pooled_openvino_int8:static"
            ),
            **{f"Zen 4, {precision}": one_call(ZEN4, precision) for precision in ("fp32", "bf16", "int8")},
        },
    ),
    (
        "processors-avx2-zen4",
        {
            "the Zen 4, all held to AVX2": on_processor(
                AVX2_ZEN4, ("fp32", "int8"), "pooled_sentence_transformers:fp32"
            ),
            **{f"Zen 4 held to AVX2, {precision}": one_call(AVX2_ZEN4, precision) for precision in ("fp32", "int8")},
        },
    ),
    (
        "processors-avx2-zen5",
        {
            "the Zen 5, all held to AVX2": on_processor(AVX2, ("fp32", "int8"), "pooled_sentence_transformers:fp32"),
        },
    ),
    (
        "why",
        {
            "the sum of the shares less the cosine, at most: fp32, bf16, int8": [
                each for model in WHY["models"].values() for each in model.values()
            ],
            "a search for ten hits, ms: without and with why": [1000 * each for each in WHY["seconds"].values()],
        },
    ),
    (
        "int8_quality",
        {
            "search on Cranfield: nDCG@10": [QUALITY["ndcg_at_10"][precision] for precision in ("fp32", "int8")],
            "taggers on concat4, Wikigold, 3 seeds: span F1": [
                100 * QUALITY["wikigold_f1"][precision][value]
                for precision in ("fp32", "int8")
                for value in ("mean", "spread")
            ],
        },
    ),
    (
        "precision",
        {
            **{row: [value for model in REAL for value in exactness(model)[row]] for row in exactness(REAL[0])},
            "mean vectors of the last layer: mean; least": [
                model[precision]["mean_vectors"][value]
                for model in REAL
                for precision in ("bf16", "int8")
                for value in ("mean", "least")
            ],
            "layer 1: first percentile; least; tokens below 0.99": precision_layer(1),
            **{f"layer {layer}": precision_layer(layer) for layer in range(2, 13)},
        },
    ),
    (
        "precision-avx2 precision",
        {
            "mean vectors: mean and least cosine with fp32": [
                each[0]["int8"]["mean_vectors"][value] for each in (REAL, REAL_AVX2) for value in ("mean", "least")
            ],
            "token vectors of layer 6: first percentile": [
                each[0]["int8"]["tokens_first_percentile"][6] for each in (REAL, REAL_AVX2)
            ],
        },
    ),
    (
        "change",
        {
            "0: embeddings": planted("embeddings"),
            **{str(layer): planted(str(layer)) for layer in range(1, 6)},
            "last (6)": planted("last"),
            "concat4": planted("concat4"),
            "mean-all": planted("mean-all"),
        },
    ),
    (
        "index_million",
        {
            "`--type auto`, which chooses IVF4000,Flat: time from Parquet; recall@10 of stored vectors, of queries "
            "farther off": [
                MILLION["auto"]["seconds"],
                MILLION["auto"]["recall"]["10"],
                MILLION["autofaiss"]["judged"]["ours"]["recall"],
            ],
            "autofaiss, which chooses HNSW32: time from Parquet": [MILLION["autofaiss"]["build"]["seconds"]],
            "train, add and write, next to plain FAISS doing it from memory: IVF, HNSW, flat": [
                *(build["ratio"] for build in BUILDS),
                *(median(build["ours_s"]) for build in BUILDS),
            ],
            "batches of queries, next to plain FAISS with the same file: `auto`, HNSW, flat": [
                *of_plain("ours"),
                *of_plain("ours, typed hits"),
            ],
            "exact search, next to sentence-transformers' `semantic_search`": [
                *EXACT_SEARCH,
                MILLION["search"]["auto"]["queries_per_second"]["ours"],
            ],
            "a search from the shell, next to loading the model": [MILLION["shell"]["more_than_model_s"]],
            "1,000,000 vectors to a tuned index, seconds": [
                MILLION["auto"]["seconds"],
                MILLION["autofaiss"]["build"]["seconds"],
            ],
        },
    ),
    (
        "ways",
        {
            "the whole command next to one process: `--join`, one run; `--engine ray`, one worker; `--workers 2`, a thread "
            "each": [
                WAYS["speed"]["command_of_one_process"][way] for way in ("join", "ray, one worker", "two workers")
            ],
            "memory of the run that hands out 100 and 1,000 parts to two workers": [
                *WAYS["memory"]["peak_of_the_run_mib"].values()
            ],
            "a finished set of 10,000 parts on an S3 server, run again": [
                WAYS["resume"]["again"]["seconds"],
                sum(WAYS["resume"]["again"]["requests"].values()),
                WAYS["resume"]["again"]["requests"]["list"],
            ],
        },
    ),
    (
        "tokenizing",
        {
            "WordPiece on one core, next to tokenizers, sentences and paragraphs: ids; with character offsets": [
                TOKENIZING[name][f"ours_to_tokenizers{more}"]
                for more in ("", "_with_offsets")
                for name in ("sentences", "paragraphs")
            ],
        },
    ),
    (
        "rows",
        {
            "a sentence around the encoder, µs of one core, for one vector, of every token, of every word; before": [
                sum(AROUND[side][unit].values())
                for side in ("today", "before")
                for unit in ("document", "token", "word")
            ],
            "sentences through `extract` with an encoder that does next to nothing, µs of the clock each; before": [
                AROUND[side]["run"]["wall"] for side in ("today", "before")
            ],
        },
    ),
    (
        "plan_size",
        {
            "documents that a core scans in a second: text, JSONL, Parquet, of 20 words": [
                PLAN["scanning"][form]["documents_per_second"] for form in ("text", "jsonl", "parquet")
            ],
            "a plan of a thousand million documents, once scanned: 10,000 files, numbered as 70,000 parts": [
                PLAN["assembly"]["seconds"],
                PLAN["assembly"]["peak_memory_mib"],
            ],
        },
    ),
    (
        "torture",
        {
            "random faults on every way to share a run, here and over S3: trials; faults; wrong feature sets": [
                len(TRIALS),
                sum(trial.get("faults", 0) for trial in TRIALS),
                len(TORTURE["wrong"]),
            ],
            "runs shared out, with random faults of processes, disks, clocks and S3": [len(TRIALS)],
        },
    ),
    (
        "serve",
        {
            "64 clients with a text each: tokens/s; next to `encode` of the same texts; p50 and p99": [
                SERVE["clients"]["tokens_per_second"],
                SERVE["clients"]["of_offline"],
                SERVE["clients"]["p50_ms"],
                SERVE["clients"]["p99_ms"],
            ],
            "the same clients at sentence-transformers behind FastAPI": [
                SERVE["peer"]["tokens_per_second"],
                SERVE["peer"]["p50_ms"],
                SERVE["peer"]["p99_ms"],
            ],
            "one client with 2,048 sentences a request: tokens/s; next to `encode`": [
                SERVE["bulk"]["tokens_per_second"],
                SERVE["bulk"]["of_offline"],
            ],
            "640 clients with eight texts each, a short queue: answered, and refused by 429; p50 and p99 of the answered; p99 "
            "of a client afterwards": [
                SERVE["overload"]["statuses"]["200"],
                SERVE["overload"]["statuses"]["429"],
                SERVE["overload"]["p50_ms"],
                SERVE["overload"]["p99_ms"],
                SERVE["overload"]["one_client_afterwards"]["p99_ms"],
            ],
            "resident memory at rest after the first 1,000 requests, and after 100,000": [
                SERVE["memory"]["first"]["resident_mib"],
                SERVE["memory"]["last"]["resident_mib"],
            ],
            "64 clients over HTTP with a text each, bf16, tokens/s": [
                SERVE[server]["tokens_per_second"] for server in ("clients", "peer")
            ],
        },
    ),
    (
        "page_million",
        {
            "the page over 1,000,000 documents: until it can be used, first and later; from Enter to the hits, median and "
            "slowest": [
                PAGE["opened_first_ms"],
                PAGE["opened_ms"],
                PAGE["searched_ms"]["median"],
                PAGE["searched_ms"]["slowest"],
            ],
        },
    ),
    (
        "exact_transformers",
        {
            "fp32 layers against Hugging Face: default model, 200 real paragraphs; bert-base and bert-large shapes (random "
            "weights), 12": list(HUGGING_FACE.values()),
            "largest difference from Hugging Face's hidden states, fp32": [HUGGING_FACE["all-MiniLM-L6-v2"]],
        },
    ),
    (
        "exact_sentence_transformers",
        {
            "mean vectors against sentence-transformers, 1,000 real paragraphs, L2-normalized, fp32": [
                EXACT["sentence_transformers"]
            ],
        },
    ),
    (
        "exact_flair",
        {
            "concat4 word features against Flair, 200 real sentences": [EXACT["flair"]],
        },
    ),
    (
        "kill_and_resume",
        {
            "runs killed at random moments and resumed": [result("kill_and_resume")["kills"]],
        },
    ),
    (
        "concurrent_updates",
        {
            "pairs of updates of one index at once; of extractions, trainings and tables; kills at the steps of an update": [
                UPDATES["index"]["pairs"]["starts"] + UPDATES["index"]["pairs"]["stops"],
                sum(
                    UPDATES[kind]["pairs"][pair]
                    for kind in ("extract", "train", "table7")
                    for pair in ("starts", "stops")
                ),
                UPDATES["index"]["kills"]["killed"],
            ],
        },
    ),
    (
        "index_recipes",
        {
            "nDCG@10 on Cranfield, exact cosine, fp32: `last`, `[CLS]`, `concat4`, `sum4`": [
                RECIPES[column] for column in ("last_mean", "last_cls", "concat4_mean", "sum4_mean")
            ],
        },
    ),
    (
        "rerank",
        {
            "nDCG@10 with `--rerank maxsim`, and by vector alone: Cranfield; XQuAD's paragraphs": [
                RERANKED[name]["defaults"][way]["ndcg_at_10"]
                for name in ("cranfield", "xquad")
                for way in ("maxsim", "plain")
            ],
            "Cranfield: 1,400 abstracts, 225 queries": reranked("cranfield"),
            "XQuAD: 240 paragraphs, 1,190 questions": reranked("xquad"),
            "a search in Cranfield": reranking_times("cranfield"),
            "nDCG@10 on Cranfield, the best 50 scored again by their tokens, as the other half of the queries chose": [
                RERANKED["cranfield"]["held_out"],
                RERANKED["cranfield"]["defaults"]["plain"]["ndcg_at_10"],
            ],
        },
    ),
    (
        "vectors",
        {
            "stored order": shuffled("stored order"),
            **{f"{size} MiB": shuffled(f"{size} MiB") for size in (16, 32, 64, 128)},
            "all of it": shuffled("1024 MiB"),
        },
    ),
    (
        "ablation",
        {
            **{row["setting"]: ablated(row) for row in result("ablation")["rows"]},
        },
    ),
    (
        "chosen_layers",
        {
            "names, MiniLM: `concat4`, single 4": chosen_for_names("all-MiniLM-L6-v2"),
            "names, MPNet: `concat=4..7`, single 6": chosen_for_names("all-mpnet-base-v2"),
            "pairs, MiniLM and MPNet: `concat4`": seconds_of_choice("pairs"),
            "labels, MiniLM and MPNet: the last": seconds_of_choice("labels"),
            "search, MiniLM and MPNet: the last": seconds_of_choice("search"),
            "senses, MiniLM: the last, MPNet: `sum=6..9`": seconds_of_choice("senses"),
        },
    ),
    (
        "layers_by_task",
        {
            "senses of a word": by_task("senses"),
            "usages near a sentence": by_task("usages"),
            "words that changed": by_task("change"),
            "search": by_task("search"),
            "likeness of two sentences": by_task("likeness"),
            "pairs, learned": by_task("pairs"),
            "labels of texts, learned": by_task("labels"),
            "names in texts, learned": by_task("tags"),
            "finding texts": by_task_briefly("search"),
            "telling the senses of a word apart": by_task_briefly("senses"),
            "finding usages near a sentence": by_task_briefly("usages"),
            "finding words that changed": by_task_briefly("change"),
            "learning names in texts": by_task_briefly("tags"),
            "learning what follows from a sentence": by_task_briefly("pairs"),
        },
    ),
    (
        "layers_by_task-all-mpnet-base-v2",
        {
            f"{name}, MPNet": by_task(task, "layers_by_task-all-mpnet-base-v2")
            for name, task in {
                "senses of a word": "senses",
                "usages near a sentence": "usages",
                "words that changed": "change",
                "search": "search",
                "likeness of two sentences": "likeness",
                "pairs, learned": "pairs",
                "labels of texts, learned": "labels",
            }.items()
        },
    ),
    (
        "whitening",
        {
            "Cranfield, nDCG@10: layer 0, mean": whitened("cranfield", "layer0_mean"),
            "Cranfield, nDCG@10: layer 3, mean": whitened("cranfield", "layer3_mean"),
            "Cranfield, nDCG@10: layer 5, mean": whitened("cranfield", "layer5_mean"),
            "Cranfield, nDCG@10: layer 6 (last), mean": whitened("cranfield", "layer6_mean"),
            "Cranfield, nDCG@10: `sum4`, mean": whitened("cranfield", "sum4_mean"),
            "Cranfield, nDCG@10: `concat4`, mean": whitened("cranfield", "concat4_mean"),
            "Cranfield, nDCG@10: layer 6 (last), cls": whitened("cranfield", "layer6_cls"),
            "Cranfield, nDCG@10: layer 6 (last), max": whitened("cranfield", "layer6_max"),
            "Cranfield, nDCG@10: `concat4`, max": whitened("cranfield", "concat4_max"),
            "SICK, Spearman: layer 0, mean": whitened("sick", "layer0_mean"),
            "SICK, Spearman: layer 3, mean": whitened("sick", "layer3_mean"),
            "SICK, Spearman: layer 5, mean": whitened("sick", "layer5_mean"),
            "SICK, Spearman: layer 6 (last), mean": whitened("sick", "layer6_mean"),
            "SICK, Spearman: `sum4`, mean": whitened("sick", "sum4_mean"),
            "SICK, Spearman: `concat4`, mean": whitened("sick", "concat4_mean"),
            "SICK, Spearman: layer 6 (last), cls": whitened("sick", "layer6_cls"),
            "SICK, Spearman: layer 6 (last), max": whitened("sick", "layer6_max"),
            "SICK, Spearman: `concat4`, max": whitened("sick", "concat4_max"),
        },
    ),
)
_HEADLINES = {
    "**Fast**: MiniLM over sentences, 2 cores, bf16, tokens/s": "sentences to vectors, bf16, tokens/s",
    "**On a GPU**: texts to Parquet on an H100, BERT base's architecture, bf16, tokens/s": (
        "paragraphs to vectors in Parquet on an H100, bert-base's shape, bf16, tokens/s"
    ),
    "**Every word**: its last four layers, 2 cores, tokens/s": "concat4 features of every word, tokens/s",
    "**Exact**: largest difference from Hugging Face's hidden states, fp32": (
        "largest difference from Hugging Face's hidden states, fp32"
    ),
    "**Safe**: runs on several workers, with processes killed and disks and networks failing at random": (
        "runs shared out, with random faults of processes, disks, clocks and S3"
    ),
}
"""Rows of README.md's first screen, and those of docs/measurements.md that they repeat."""

ROWS = {label: values for _, rows in _GROUPS for label, values in rows.items()}
ROWS |= {headline: ROWS[label] for headline, label in _HEADLINES.items()}
SOURCES = {label: names.split() for names, rows in _GROUPS for label in rows}
SOURCES |= {headline: SOURCES[label] for headline, label in _HEADLINES.items()}
"""The results that the numbers of a row are of."""

UNRECORDED = {
    "generated hostile cases (`make hostile`): damaged and forged files, wrong options, full disks, closed streams": (
        "a count of tests; make hostile TALLY=… writes it, and no result is kept"
    ),
    "kills of 19 commands at their steps in the file system, and the same command again": (
        "a count of tests; make hostile TALLY=… writes it, and no result is kept"
    ),
}
