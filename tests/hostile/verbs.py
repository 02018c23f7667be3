"""A command of every verb that ends well, to which cases add what is wrong."""

from collections.abc import Iterator

from tests.hostile.process import Command, words
from tests.hostile.world import HEADS
from tests.hostile.yard import Use


def _base(name: str, arguments: str, needs: str, writes: str = "", quoted: str = "") -> Use:
    given = (*words(arguments), *((quoted,) if quoted else ()))
    return Use(name, Command(given), tuple(needs.split()), tuple(writes.split()))


_TINY = "--model model --device cpu --precision fp32"
_SETS = "--train train.features --dev dev.features"


def _head_bases() -> Iterator[Use]:
    for kind, (ending, columns) in HEADS.items():
        corpora, head = f"train.{ending} dev.{ending}", f"{kind}.head"
        both = f"--train train.{ending} --dev dev.{ending} {columns} --epochs 1 --hidden 4 {_TINY}"
        yield _base(f"{kind} train", f"{kind} train {both} -o out.head --layers last", f"{corpora} model", "out.head")
        table = f"{kind} table7 {both} -o out.table7 --rows last --seeds 1"
        yield _base(f"{kind} table7", table, f"{corpora} model", "out.table7")
        on_it = f"{head} dev.{ending} --model model --device cpu"
        yield _base(f"{kind} predict", f"{kind} predict {on_it}", f"{head} dev.{ending} model", "out*")
        yield _base(f"{kind} evaluate", f"{kind} evaluate {on_it}", f"{head} dev.{ending} model")


BASES = {
    use.name: use
    for use in (
        _base(
            "extract",
            f"extract docs.jsonl -o out.features {_TINY} --allow-failures",
            "docs.jsonl model",
            "out.features",
        ),
        _base("info", "info docs.jsonl", "docs.jsonl model docs.features"),
        _base("verify", "verify docs.features --sample 2 --model model --device cpu", "docs.features docs.jsonl model"),
        _base(
            "contexts", "contexts many.jsonl -o out.parquet --model model --size 8", "many.jsonl model", "out.parquet"
        ),
        _base("export", "export docs.features --to csv --column last_mean -o out.csv", "docs.features", "out.*"),
        _base("bench", f"bench plain.txt {_TINY} --documents 3 --repeats 1", "plain.txt model docs.jsonl"),
        _base("index", "index many.features -o out.index --type flat --no-evaluate", "many.features", "out.index"),
        _base(
            "search",
            "search flat.index --model model",
            "flat.index model queries.txt vectors.npy",
            quoted="the old mill",
        ),
        _base("usages", "usages docs.features bank --column last_word", "docs.features model word.index"),
        _base("collocates", "collocates docs.features bank", "docs.features"),
        _base("words", "words docs.features", "docs.features"),
        _base("evaluate", "evaluate flat.index --beir beir --model model", "flat.index beir model"),
        _base(
            "tag train",
            f"tag train {_SETS} -o out.tagger --layers last --hidden 4 --epochs 1",
            "train.features dev.features train.conll dev.conll model",
            "out.tagger",
        ),
        _base(
            "tag predict",
            "tag predict plain.tagger plain.txt --model model",
            "plain.tagger model plain.txt docs.jsonl",
            "out*",
        ),
        _base(
            "tag evaluate",
            "tag evaluate plain.tagger test.conll --model model",
            "plain.tagger model test.conll predictions.tsv",
        ),
        _base(
            "tag table7",
            f"tag table7 {_SETS} -o out.table7 --rows last --seeds 1 --hidden 4 --epochs 1",
            "train.features dev.features train.conll dev.conll test.features model",
            "out.table7",
        ),
        *_head_bases(),
        _base(
            "pretrain",
            "pretrain docs.jsonl -o out.model --model model --device cpu --max-length 16 --batch-size 2 --steps 2 "
            "--held-out 0.1",
            "docs.jsonl model",
            "out.model",
        ),
        _base(
            "pretrain from scratch",
            "pretrain docs.jsonl -o out.model --shape L=1,H=16,A=2 --vocabulary 120 --device cpu --max-length 24 "
            "--batch-size 2 --steps 3 --held-out 0.2 --checkpoint-minutes 0",
            "docs.jsonl",
            "out.model",
        ),
        _base("probe", "probe docs.features --label author --pooling mean --folds 2", "docs.features"),
        _base("change", "change docs.features --by year --column last_word --least 2 --senses 2", "docs.features"),
        _base("compare", "compare docs.features docs.features --pooling mean -k 2", "docs.features"),
        _base("plot map", "plot map docs.features --column last_mean -o out.png", "docs.features", "out.*"),
        _base("plot layers", "plot layers probe.json -o out.png", "probe.json", "out.*"),
    )
}
"""By name: the verb, and what follows it where there are several of a verb."""
