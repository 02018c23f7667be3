"""The page's own routes: its files, what it starts with, the map against scikit-learn's PCA, documents by number."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.manifold import trustworthiness
from starlette.testclient import TestClient

from bertfeat import CorpusSettings, Extractor, Index, build_index
from bertfeat.core.features import FeatureSet
from bertfeat.search import BuildOptions, find_principal_components
from bertfeat.server import ServerSettings, open_service
from bertfeat.server.app import create_app
from bertfeat.server.page_assets import is_page_asset, page_assets
from bertfeat.server.page_map import MapLayout, MapPoints
from tests.support.live_server import answered
from tests.support.tiny_models import Tiny
from tests.support.waiting import wait_for

TEXTS = ["He sat on the bank of the river.", "The bank lends money.", "Water runs under the old mill."]


@pytest.fixture(scope="module")
def place(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("page")
    corpus = place / "c.jsonl"
    rows = [
        {"text": f"{text} {number}", "year": 1900 + number, "lang": "de" if number % 3 else "en"}
        for number, text in enumerate(TEXTS * 10)
    ]
    corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    extractor = Extractor(tiny("bert").folder, pooling="mean,word", layers="last,1", precision="fp32")
    extractor.extract(corpus, place / "c.features", corpus_settings=CorpusSettings(keep=("year", "lang")))
    build_index(place / "c.features", place / "c.index", column="last_mean")
    return place


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[TestClient]:
    service = open_service([place / "c.index", place / "c.features"], ServerSettings())
    with TestClient(create_app(service), "http://localhost") as client:
        yield client


def test_every_address_in_the_page_is_one_of_its_files(client: TestClient) -> None:
    home = client.get("/")
    assert home.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in home.headers["content-security-policy"]
    assert not re.search(r"<style|style=|\son\w+=|https?://", home.text)
    named = set(re.findall(r'(?:src|href)="page/([^"]+)"', home.text))
    scripts = {name for name in page_assets() if name.endswith(".js")}
    for name in scripts:
        text = client.get(f"/page/{name}").text
        named |= set(re.findall(r'from "\./([^"]+)"', text))
        assert len(text.splitlines()) <= 300
    assert named == set(page_assets()) - {"index.html"}
    for name in named:
        answer = client.get(f"/page/{name}")
        assert answer.status_code == 200
        again = client.get(f"/page/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304
        assert again.content == b""


def test_only_its_files_are_open() -> None:
    assert is_page_asset("GET", "/")
    assert is_page_asset("GET", "/page/main.js")
    assert not is_page_asset("POST", "/")
    for path in ("/page/state", "/page/map", "/page/../app.py", "/search"):
        assert not is_page_asset("GET", path)


@pytest.mark.parametrize(
    "path", ["/page/nothing.js", "/page/..%2fapp.py", "/page/%2e%2e/own.py", "/page/page_routes.py"]
)
def test_nothing_else_is_sent(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_state(client: TestClient) -> None:
    wait_for(lambda: client.get("/page/state").json()["index"]["facets"])
    state = client.get("/page/state").json()
    index, (words,) = state["index"], state["features"]
    assert (index["documents"], index["unit"], index["column"]) == (30, "document", "last_mean")
    year, lang = index["facets"]
    assert (year["min"], year["max"], year["values"]) == (1900, 1929, None)
    assert lang["values"] == [{"value": "de", "count": 20}, {"value": "en", "count": 10}]
    assert [each["column"] for each in words["layers"]] == ["layer1_word", "last_word"]


def test_an_index_of_texts_that_were_split(place: Path) -> None:
    texts = ["The bank lends money. The bank was closed.", "Water runs under the old mill."]
    (place / "split.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    extractor = Extractor(FeatureSet(place / "c.features").header.model.name, pooling="mean", precision="fp32")
    settings = CorpusSettings(split="sentences")
    extractor.extract(place / "split.jsonl", place / "split.features", corpus_settings=settings)
    build_index(place / "split.features", place / "split.index")
    with TestClient(create_app(open_service([place / "split.index"], ServerSettings())), "http://localhost") as client:
        index = client.get("/page/state").json()["index"]
        assert (index["per_text"], index["documents"], index["unit"]) == (False, 3, "document")
        body = {"query": "the bank", "k": 5}
        hits = client.post("/search", json=body).json()["hits"]
        best = client.post("/search", json={**body, "one_per_document": True}).json()["hits"]
        assert [hit["values"]["text_id"] for hit in best] == [*dict.fromkeys(hit["values"]["text_id"] for hit in hits)]
        assert best[0]["id"] == hits[0]["id"]


def test_an_index_of_spans(place: Path) -> None:
    features, folder = place / "spans.features", place / "spans.index"
    text = "The bank lends money. Water runs under the old mill."
    (place / "spans.jsonl").write_text(json.dumps({"text": text}) + "\n")
    model = FeatureSet(place / "c.features").header.model.name
    Extractor(model, pooling="token", precision="fp32").extract(place / "spans.jsonl", features)
    build_index(features, folder, options=BuildOptions(spans="sentences"))
    with TestClient(create_app(open_service([folder], ServerSettings())), "http://localhost") as client:
        index = client.get("/page/state").json()["index"]
        told = {name: index[name] for name in ("unit", "marks_words", "column", "documents", "vectors")}
        column = "sentences of last_token"
        assert told == {"unit": "span", "marks_words": False, "column": column, "documents": 1, "vectors": 2}
        hits = client.post("/search", json={"query": "an old mill", "k": 5}).json()["hits"]
        assert {hit["string"] for hit in hits} == {"The bank lends money.", "Water runs under the old mill."}
        assert all(text[hit["start"] : hit["end"]] == hit["string"] for hit in hits)
        shown = client.get("/page/documents?layout=pca&numbers=1").json()["documents"]
        assert [(each["start"], each["end"]) for each in shown] == [(22, len(text))]
        wrong = client.get("/page/documents?layout=pca&rows=0")
        assert (wrong.status_code, "this index has spans" in wrong.text) == (422, True)


def test_map_is_pca(client: TestClient, place: Path) -> None:
    answer = answered(client, "/page/map")
    count = int(answer.headers["x-points"])
    body = answer.content
    x, y = (np.frombuffer(body, "<f4", count, 4 * count * at) for at in (0, 1))
    numbers = np.frombuffer(body, "<u4", count, 8 * count)
    assert numbers.tolist() == list(range(30))
    vectors = Index(place / "c.index").reconstruct(np.arange(30))
    oracle = PCA(2).fit(vectors)
    flat = oracle.transform(vectors)
    for ours, theirs in ((x, flat[:, 0]), (y, flat[:, 1])):
        np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=2e-4)
    shares = [float(share) for share in answer.headers["x-shares"].split(",")]
    np.testing.assert_allclose(shares, oracle.explained_variance_ratio_, atol=1e-3)


def test_clusters_of_the_map(client: TestClient) -> None:
    found = answered(client, "/page/clusters", layout="pca").json()
    codes = np.frombuffer(base64.b64decode(found["codes"]), np.uint8)
    assert found["missing"] is None
    assert [entry["count"] for entry in found["entries"]] == np.bincount(codes).tolist()
    assert sum(entry["count"] for entry in found["entries"]) == 30
    assert all({"name", "x", "y"} == label.keys() for label in found["labels"])
    for route in ("map", "clusters"):
        wrong = client.get(f"/page/{route}?layout=mds")
        assert (wrong.status_code, "laid out by tsne, pca, not by 'mds'" in wrong.text) == (422, True)


@pytest.mark.hostile
def test_layout_by_neighbors(client: TestClient, place: Path) -> None:
    assert [each["name"] for each in client.get("/page/state").json()["index"]["layouts"]] == ["tsne", "pca"]
    answer = answered(client, "/page/map", layout="tsne")
    assert answer.headers["x-shares"] == ""
    flat = np.frombuffer(answer.content, "<f4", 60).reshape(2, 30)
    vectors = Index(place / "c.index").reconstruct(np.arange(30))
    assert trustworthiness(vectors, flat.T, n_neighbors=5) > 0.8  # of places by chance 0.5
    documents = client.get("/page/documents?layout=tsne&numbers=5,1").json()["documents"]
    assert [(each["x"], each["y"]) for each in documents] == [tuple(flat[:, at].tolist()) for at in (5, 1)]
    labels = answered(client, "/page/clusters", layout="tsne").json()["labels"]
    assert all(flat[0].min() <= label["x"] <= flat[0].max() for label in labels)


def test_a_document_that_is_not_on_the_map_stands_amid_its_neighbors() -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(40, 8)).astype(np.float32)
    components = find_principal_components(vectors, 8)
    flat = random.normal(size=(40, 2)).astype(np.float32)
    layout = MapLayout(MapPoints(np.arange(0, 80, 2), components.place(vectors), components), flat, None)
    assert layout.place(14, vectors[7]) == tuple(flat[7].tolist())
    asked = random.normal(size=8).astype(np.float32)
    near = np.argsort(np.linalg.norm(vectors - asked, axis=1))[:5]
    assert layout.place(15, asked) == pytest.approx(np.median(flat[near], axis=0).tolist())


def test_documents(client: TestClient) -> None:
    x = answered(client, "/page/map")
    found = client.get("/page/documents", params={"numbers": "5,1"}).json()["documents"]
    assert [each["number"] for each in found] == [5, 1]
    assert found[0]["text"] == f"{TEXTS[2]} 5"
    assert found[0]["values"] == {"year": 1905, "lang": "de"}
    places = np.frombuffer(x.content, "<f4", 60).reshape(2, 30)
    np.testing.assert_allclose([found[0]["x"], found[0]["y"]], places[:, 5], atol=1e-5)
    by_row = client.get("/page/documents", params={"rows": "7"}).json()["documents"]
    assert [(each["number"], each["row"]) for each in by_row] == [(7, 7)]
    for query in ("numbers=99", "numbers=-1", "numbers=a", "numbers=1&rows=1", "", "numbers=" + ",".join(["1"] * 201)):
        assert client.get(f"/page/documents?{query}").status_code == 422


def test_reading(client: TestClient) -> None:
    route = "/page/reading?features=c.features"
    documents = client.get(f"{route}&start=4&stop=7").json()["documents"]
    assert [(each["row"], each["text"]) for each in documents] == [
        (row, f"{TEXTS[row % 3]} {row}") for row in (4, 5, 6)
    ]
    assert documents[0]["values"] == {"year": 1904, "lang": "de"}
    beyond = client.get(f"{route}&start=29&stop=40").json()["documents"]
    assert [each["row"] for each in beyond] == [29]
    for wrong in (
        "start=-1&stop=3",
        "start=4&stop=4",
        "start=4&stop=99",
        "start=4&stop=a",
        f"start={2**70}&stop={2**70}",
    ):
        assert client.get(f"{route}&{wrong}").status_code == 422, wrong
    assert client.get("/page/reading?features=nothing&start=0&stop=1").status_code == 404
    assert client.get("/page/reading").status_code == 422


# A name or value of data as the key of an object finds what every object inherits: ``constructor``, ``__proto__``.
SOURCES = {
    path.name: path.read_text() for room in ("server", "plots") for path in Path("bertfeat", room).glob("page/*.js")
}
PLACES = {"i", "j", "k", "a", "b", "at", "slot", "cell", "current", "first", "before", "group", "MOST", "this.step"}
OWN_KEYS = {  # keys that the code itself names, and objects whose keys it names
    "dom.js": {"made[name]", "values[name]"},  # the properties of an element; behind Object.hasOwn
    "picked.js": {"each[name]"},  # the columns of a CSV
    "collocates.js": {"one[name]"},
    "lines.js": {"usage[name]"},
    "stage.js": {"][event.deltaMode]"},  # 0, 1 or 2
    "move.js": {"][event.deltaMode]"},
    "draw.js": {"group[theme()]", "scale[theme()]"},  # "light" or "dark"
    "panel.js": {"group[theme()]", "scale[theme()]", 'style[group.mark === "" ? "" : ""]'},
    "scatter.js": {"uniforms = Object.fromEntries("},
}


def dictionary_keys(source: str) -> set[str]:
    """Accesses of objects by keys that are not places or written out, and objects that are filled with keys later."""
    code = re.sub(r"/\*.*?\*/|(?<![:\\])//[^\n]*|/\^.*\$/u", "", source, flags=re.DOTALL)
    code = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code)
    filled = re.findall(r"[\w.]+ [\w.]*\s*=\s*\{\s*\}\s*;|[\w.]+\s*=\s*\{\s*\}\s*;|\w+ = Object\.fromEntries\(", code)
    looked_up = re.findall(r"(\w+|[\])}])(?:\?\.)?\[([^\[\]]+)\]", code)
    return {*filled} | {f"{of}[{key}]" for of, key in looked_up if not _is_place(of, key)}


def _is_place(of: str, key: str) -> bool:
    """Whether ``of[key]`` is a place in an array, or no access at all."""
    is_list = of in ("return", "of", "in", "await", "const", "let") or "," in key or key.startswith("href")
    is_list |= key == '""' or key.startswith("Number(")
    return is_list or key in PLACES or re.fullmatch(r"\d+|.* [-+*%] .*", key) is not None


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_what_data_names_is_kept_in_maps(name: str) -> None:
    found = dictionary_keys(SOURCES[name])
    assert found == OWN_KEYS.get(name, set()), "use a Map for what is keyed by names or values of data"


@pytest.mark.parametrize(
    "source",
    [
        "this.choices = {}; // column -> choice",
        "const chosen = this.choices[facet.name]?.values ?? [];",
        "kept.map((name) => values?.[name])",
        "const to = { ArrowDown: 1 }[event.key];",
        "const counts = Object.fromEntries(pairs);",
        "if (keys[event.key]) keys.get(event.key)();",
    ],
)
def test_the_rule_finds_objects_that_are_dictionaries(source: str) -> None:
    assert dictionary_keys(source)
