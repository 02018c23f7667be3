"""How soon does an index, and a server, answer from a corpus that has changed?

    python benchmarks/living_index.py --data NOVELS [--work DIR] [--rows 30000] [--rounds 7] [--clients 32] [--days 5]
                                      [--langchain-python .venv-peers/bin/python]
                                      [--model build/models/all-mpnet-base-v2 [--model-rows 3000]]

The corpus and its changes are those of living.py, and the feature set of each day is at hand. In turn: `update`
(`index --update`), `build` (the index anew, its recall measured), `lance` (a dataset is given the rows of the edited
and new texts with their vectors, merge_insert, and the ids of those that are gone, delete), `lance_whole` (it is given
all rows of today, and finds the difference), `export` (`export --to lance --update`, which reads the set and finds the
difference), `export_whole` (`export --to lance`, anew), and, with a Python that has langchain-core, `langchain` (its
indexing API over all documents of today, cleanup="full", into its store in memory; vectors are looked up). What Lance
and LangChain are given of features, they do not read from a feature set.

Then a server over feature set and index, and clients that search by vectors without a pause, while on each of some days
`extract --update` and `index --update` run. Told are: seconds from the end of `index --update` to the first answer from
the new version; requests that failed; stale answers, which came from the old version to requests that began after an
answer from the new one; the 99th percentile of seconds before, and while it goes on; and versions that the server still
has mapped at the end, besides the current one.

With --model, at last a server over a link to an index, and clients that search by texts, while the corpus is extracted
by that model and indexed, and the link is set to the new index.
"""

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from _commands import BERTFEAT, bertfeat
from _duel import distinct_lines
from _machine import machine
from living import READING, Record, a_day, timed, write
from numpy.typing import NDArray

from bertfeat import Extractor, FeatureSet, build_index, update_index
from bertfeat.search import export_to_lance, read_index_settings

QUIET_SECONDS = 5
RESULT = Path(__file__).parent / "results" / "living_index.json"
LANGCHAIN = """
import json, sys, time
import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore

before, now = (json.load(open(path)) for path in sys.argv[1:3])
vectors = dict(zip((each["text"] for each in (*before, *now)), np.load(sys.argv[3])))

class Stored(Embeddings):
    def embed_documents(self, texts):
        return [vectors[text].tolist() for text in texts]
    def embed_query(self, text):
        return vectors[text].tolist()

def add(records):
    documents = [Document(each["text"], metadata={"source": each["id"]}) for each in records]
    how = {"cleanup": "full", "source_id_key": "source", "key_encoder": "blake2b", "batch_size": 1000}
    return index(documents, manager, store, **how)

store, manager = InMemoryVectorStore(Stored()), InMemoryRecordManager("corpus")
manager.create_schema()
add(before)
began = time.perf_counter()
done = add(now)
print(json.dumps({"seconds": time.perf_counter() - began, **done}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt")
    parser.add_argument("--work", type=Path, help="a folder for sets and indexes (default: a temporary one)")
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--model", help="the model of a new index, which takes the place of the old one")
    parser.add_argument("--model-rows", type=int, default=3000)
    parser.add_argument("--langchain-python", type=Path, help="a Python with langchain-core")
    given = parser.parse_args()
    texts = distinct_lines(given.data / "sentences.txt")
    with tempfile.TemporaryDirectory() as folder:
        work = given.work or Path(folder)
        result = {
            **measure(texts, work, given.rows, given.rounds, given.langchain_python),
            "lance_version": lance.__version__,
        }
        result["server"] = serve(texts, work, given.rows, given.clients, given.days)
        if given.model:
            result["new_model"] = change_model(texts, work, given.model, given.model_rows, given.clients)
    RESULT.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")
    print(json.dumps(result, indent=1))


# ── the index ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Day:
    """A corpus of a day, and its vectors."""

    records: list[Record]
    vectors: NDArray[np.float32]

    def table(self, chosen: set[str] | None = None) -> pa.Table:
        """The rows of some ids, or all, as Lance takes them."""
        at = [n for n, each in enumerate(self.records) if chosen is None or each["id"] in chosen]
        own = [self.records[n] for n in at]
        width = self.vectors.shape[1]
        flat = pa.array(self.vectors[at].ravel())
        columns = [pa.array([each["id"] for each in own]), pa.array([each["text"] for each in own])]
        return pa.table([*columns, pa.FixedSizeListArray.from_arrays(flat, width)], names=["id", "text", "vector"])


def measure(texts: list[str], work: Path, rows: int, rounds: int, peer_python: Path | None) -> dict[str, Any]:
    """Measure all ways in turn, each on what was there the day before."""
    yesterday, today, changed = a_day(texts, rows)
    extractor, days = Extractor(), list[Day]()
    for name, records in (("yesterday", yesterday), ("today", today)):
        corpus, features = write(work / f"{name}.jsonl", records), work / f"{name}.features"
        if days:  # the rest is copied
            restore(work / "yesterday.features", features)
        extractor.extract(corpus, features, corpus_settings=READING, update=bool(days))
        days.append(Day(records, FeatureSet(features).matrix("last_mean")))
    before, now = days
    edited = {each["id"] for each in changed}
    gone = [each["id"] for each in yesterday if each["id"] not in {one["id"] for one in today}]
    place, dataset = work / "set.features", str(work / "set.lance")
    seconds: dict[str, list[float]] = {"update": [], "build": [], "lance": [], "lance_whole": []}
    seconds |= {"export": [], "export_whole": []}
    for _ in range(rounds):
        restore(work / "yesterday.features", place)
        build_index(place, work / "set.index")
        restore(work / "today.features", place)
        seconds["update"].append(timed(lambda: update_index(work / "set.index")))
        seconds["build"].append(timed(lambda: build_index(place, work / "anew.index")))
        for way, fill in (
            ("lance", lambda: upsert(dataset, now.table(edited), gone)),
            ("lance_whole", lambda: merge(dataset, now.table())),
        ):
            lance.write_dataset(before.table(), dataset, mode="overwrite")
            seconds[way].append(timed(fill))
            assert lance.dataset(dataset).count_rows() == len(today)
        export_to_lance(work / "yesterday.features", dataset, evaluate=False, overwrite=True)
        seconds["export"].append(timed(lambda: export_to_lance(place, dataset, evaluate=False, update=True)))
        assert lance.dataset(dataset).count_rows() == len(today)
        seconds["export_whole"].append(timed(lambda: export_to_lance(place, dataset, evaluate=False, overwrite=True)))
    settings = read_index_settings(work / "set.index")
    assert settings.documents == len(today)
    peer = langchain(peer_python, before, now, work, rounds) if peer_python else {}
    return {
        "rows": len(today),
        "changed_texts": len(changed),
        "gone": len(gone),
        "factory": settings.factory,
        "seconds": {name: [round(each, 3) for each in all_of] for name, all_of in {**seconds, **peer}.items()},
        "update_to_build": round(median(seconds["update"]) / median(seconds["build"]), 2),
    }


def restore(source: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)


def upsert(dataset: str, rows: pa.Table, gone: list[str]) -> None:
    opened = lance.dataset(dataset)
    opened.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)
    opened = lance.dataset(dataset)
    opened.delete(f"id in ({', '.join(repr(each) for each in gone)})")


def merge(dataset: str, rows: pa.Table) -> None:
    opened = lance.dataset(dataset)
    (
        opened.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete()
        .execute(rows)
    )


def langchain(python: Path, before: Day, now: Day, work: Path, rounds: int) -> dict[str, list[float]]:
    """The seconds of LangChain's indexing API."""
    paths = [work / "before.json", work / "now.json", work / "vectors.npy"]
    for path, day in zip(paths, (before, now), strict=False):
        path.write_text(json.dumps(day.records))
    np.save(paths[2], np.concatenate([before.vectors, now.vectors]))
    command = [str(python), "-c", LANGCHAIN, *map(str, paths)]
    printed = [subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout for _ in range(rounds)]
    return {"langchain": [json.loads(each)["seconds"] for each in printed]}


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Clients:
    """Clients that search all the time, and an account of all answers."""

    address: str
    queries: list[dict[str, Any]]
    answers: list[tuple[float, float, str]] = field(default_factory=list)  # began, ended, version
    failed: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def asking(self, number: int) -> Iterator[None]:
        threads = [threading.Thread(target=self._ask, args=(each,)) for each in range(number)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join()

    def _ask(self, number: int) -> None:
        at = number
        while not self.over.is_set():
            at += 1
            body = json.dumps({**self.queries[at % len(self.queries)], "k": 10}).encode()
            request = urllib.request.Request(f"{self.address}search", body, {"Content-Type": "application/json"})
            began = time.perf_counter()
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    assert len(json.load(answer)["hits"]) == 10
                    self.answers.append((began, time.perf_counter(), answer.headers["X-Index-Version"]))
            except (OSError, AssertionError) as error:
                self.failed.append(repr(error))

    def first_of(self, version: str) -> float:
        """When the first answer of a version was there; it is waited for."""
        while True:
            ends = [ended for _, ended, found in list(self.answers) if found == version]
            if ends:
                return min(ends)
            time.sleep(0.01)

    def seconds_to(self, index: Path) -> float:
        """The seconds from now to the first answer of the version of an index that is there now."""
        began, settings = time.perf_counter(), read_index_settings(index)
        return self.first_of(f"{settings.version}.{settings.made}") - began

    def stale(self) -> int:
        """Count the answers of an old version to requests that began after an answer of a newer one."""
        ends: dict[str, float] = {}
        for _, ended, version in self.answers:
            ends[version] = min(ended, ends.get(version, ended))
        newer = {
            version: min((end for other, end in ends.items() if end > first), default=float("inf"))
            for version, first in ends.items()
        }
        return sum(began > newer[version] for began, _, version in self.answers)


def serve(texts: list[str], work: Path, rows: int, clients: int, days: int) -> dict[str, Any]:
    """Serve a corpus that changes day by day."""
    records, _, _ = a_day(texts, rows)
    corpus, features, index = (work / f"served.{ending}" for ending in ("jsonl", "features", "index"))
    write(corpus, records)

    def extract() -> None:
        bertfeat("extract", str(corpus), "-o", str(features), "--id-column", "id", "--update")

    restore(work / "yesterday.features", features)
    bertfeat("index", str(features), "-o", str(index))
    vectors = FeatureSet(features).matrix("last_mean")[:: max(1, rows // 500)]
    switched, mapped = [], 0
    with served(str(index), str(features)) as (address, pid):
        asking = Clients(address, [{"vector": each.tolist()} for each in vectors])
        with asking.asking(clients):
            quiet = ask_for_a_while(asking)
            for day in range(days):
                change(records, texts[-(day + 1) * (rows // 75 + 1) :], day)
                write(corpus, records)
                extract()
                bertfeat("index", "-o", str(index), "--update")
                switched.append(asking.seconds_to(index))
        mapped = mapped_versions(pid, index)
    return {"clients": clients, "days": days, **told(asking, quiet, switched), "old_versions_mapped": mapped}


def change_model(texts: list[str], work: Path, model: str, rows: int, clients: int) -> dict[str, Any]:
    """Serve an index through a link, make one of another model beside it, and set the link to that."""
    corpus = work / "model.jsonl"
    write(corpus, [{"id": str(number), "text": text} for number, text in enumerate(texts[:rows])])

    def make(name: str, *options: str) -> Path:
        features, index = work / f"{name}.features", work / f"{name}.index"
        bertfeat("extract", str(corpus), "-o", str(features), "--id-column", "id", "--update", *options)
        bertfeat("index", str(features), "-o", str(index))
        return index

    link = work / "live.index"
    link.symlink_to(make("old"))
    with served(str(link), "--also-model", model) as (address, _):
        asking = Clients(address, [{"query": text} for text in texts[-200:]])
        with asking.asking(clients):
            quiet = ask_for_a_while(asking)
            began = time.perf_counter()
            new = make("new", "--model", model)
            made = time.perf_counter() - began
            (work / "next.index").symlink_to(new)
            (work / "next.index").replace(link)
            seconds = asking.seconds_to(new)
    return {"rows": rows, "clients": clients, "made": round(made, 1), **told(asking, quiet, [seconds])}


@contextmanager
def served(*arguments: str) -> Iterator[tuple[str, int]]:
    """A server's address and process, once it takes requests."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([BERTFEAT, "serve", *arguments, "--port", str(port), "--quiet"]) as process:
        try:
            address = f"http://127.0.0.1:{port}/"
            wait_until_ready(address)
            yield address, process.pid
        finally:
            process.terminate()


def ask_for_a_while(asking: Clients) -> int:
    """Wait until there are answers enough to tell their 99th percentile; returns their number."""
    time.sleep(QUIET_SECONDS)
    while len(asking.answers) < 100:
        time.sleep(0.1)
    return len(asking.answers)


def told(asking: Clients, quiet: int, switched: list[float]) -> dict[str, Any]:
    """What clients saw of some switches; ``quiet`` answers came before anything changed."""
    waits = [ended - began for began, ended, _ in asking.answers]
    return {
        "requests": len(waits),
        "failed": asking.failed[:5],
        "failures": len(asking.failed),
        "stale": asking.stale(),
        "seconds_to_the_new_version": [round(each, 2) for each in switched],
        "p99_before": round(statistics.quantiles(waits[:quiet], n=100)[98], 4),
        "p99_meanwhile": round(statistics.quantiles(waits[quiet:], n=100)[98], 4),
        "longest": round(max(waits), 3),
    }


def wait_until_ready(address: str) -> None:
    while True:
        try:
            with urllib.request.urlopen(f"{address}ready", timeout=30):
                return
        except urllib.error.URLError:
            time.sleep(0.1)


def change(records: list[Record], fresh: list[str], day: int) -> None:
    """Edit 1 % of the records, take out 0.67 % and put in 1.33 %."""
    draw = np.random.default_rng(day)
    rows = len(records)
    for at in draw.choice(rows, rows // 100, replace=False):
        records[at] = {**records[at], "text": f"{records[at]['text']} Day {day}."}
    for at in sorted(draw.choice(rows, rows // 150, replace=False).tolist(), reverse=True):
        del records[at]
    for number in range(rows // 75):
        records.insert(int(draw.integers(len(records))), {"id": f"{day}.{number}", "text": f"{fresh[number]} ({day})"})


def mapped_versions(pid: int, index: Path) -> int:
    """The number of versions of an index, besides the current one, of which a process still maps files."""
    time.sleep(1)
    current = read_index_settings(index).version
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    names = {line.split(f"{index}/")[1].partition("/")[0] for line in lines if f"{index}/version-" in line}
    return len(names - {current})


if __name__ == "__main__":
    sys.exit(main())
