"""``bertfeat index`` and ``plot``: thin, so only what the commands add is tested here."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.corpus import KeptColumn
from tests.search.test_index import Stand
from tests.support.index_toy import RECORD, clustered, vector_set


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return vector_set(Path("toy.features"), clustered(100), kept={KeptColumn("year", "int64"): list(range(100))})


@pytest.fixture
def index(features: Path) -> Path:
    assert run("index", features).exit_code == 0
    np.save("queries.npy", clustered(100)[:3])
    return Path("toy.index")


def run(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def test_an_index_is_built_and_told(features: Path) -> None:
    result = run("index", features)
    assert result.exit_code == 0
    assert "100 of 16 values, last_mean, cosine" in result.stdout
    assert "few enough to compare them all" in result.stdout
    assert "1.000 at 10" in result.stdout
    assert Path("toy.index/version-1/index.faiss").exists()


def test_an_index_of_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("The river rose. Nobody saw it. The bank, which had stood there for years, was gone.\n")
    assert run("extract", "a.txt", "--pooling", "token").exit_code == 0
    result = run("index", "a.features", "--spans", "sentences")
    assert "3 of 384 values, sentences of last_token, cosine" in result.stdout
    assert "sentences of last_token" in run("info", "a.index").stdout
    (line,) = run("search", "a.index", "a flood", "-k", "1").stdout.splitlines()
    assert (
        line.split("  ")[-1] == "*The river rose.* Nobody saw it. The bank, which had stood there for years, was gone."
    )
    wrong = run("index", "a.features", "--spans", "words:2:2")
    assert (wrong.exit_code, "--spans words:2:2: a span needs a word at least" in wrong.stderr) == (2, True)
    told = json.loads(run("index", "a.features", "--spans", "words:4:1", "--json").stdout)
    assert (told["spans"], told["count"], told["documents"]) == ("words:4:1", 5, 1)


def test_an_index_of_encodings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("The river rose.\nNobody saw it.\nThe bank was gone.\n")
    assert run("extract", "a.txt", "--pooling", "token").exit_code == 0
    result = run("index", "a.features", "--encode", "fde:512")
    assert "3 of 512 values, fde:512 of last_token, cosine" in result.stdout
    assert "fde:512 of last_token" in run("info", "a.index").stdout
    assert "The river rose." in run("search", "a.index", "a flood", "--rerank", "maxsim", "-k", "1").stdout
    told = json.loads(run("index", "a.features", "--encode", "fde:256", "--json").stdout)
    assert told["encoding"] == {"partitions": 2, "values": 128}
    for wrong, problem in {
        "fde:500": "--encode fde:500: each partition of these tokens has 128 values",
        "fde:16384": "tokens cannot be divided into 128 partitions",
        "pca": "--encode pca: this encoding is unknown",
    }.items():
        refused = run("index", "a.features", "--encode", wrong)
        assert (refused.exit_code, problem in refused.stderr) == (2, True)


def test_the_same_as_json(features: Path) -> None:
    told = json.loads(run("index", features, "--type", "ivf", "--json").stdout)
    assert (told["folder"], told["count"], told["factory"]) == ("toy.index", 100, "IVF2,Flat")
    assert told["effort"]["name"] == "nprobe"
    assert told["evaluation"]["recall"]["10"] >= 0.9


def test_zero_vectors_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    vector_set(Path("toy.features"), np.zeros((5, 8), np.float32))
    assert "5 zero vectors have no direction" in run("index", "toy.features").stderr


@pytest.mark.parametrize(
    ("memory", "size"),
    [("4G", 4 * 10**9), ("1.5 GB", 15 * 10**8), ("512MiB", 512 * 2**20), ("100k", 10**5), ("7", 7)],
)
def test_sizes(memory: str, size: int) -> None:
    from bertfeat.cli.option_types import ByteSize

    assert ByteSize().convert(memory, None, None) == size


def test_documents_come_and_go(index: Path, tmp_path: Path) -> None:
    vector_set(Path("more.features"), clustered(10, seed=1), ids=[f"new {row}" for row in range(9)] + ["5"])
    result = run("index", "more.features", "-o", index, "--update")
    assert result.exit_code == 0
    assert "added    10 documents" in result.stdout
    Path("ids.txt").write_text("new 3\n7\n\nnobody\n")
    result = run("index", "-o", index, "--remove", "ids.txt", "--json")
    assert json.loads(result.stdout)["vectors"] == 107
    assert "1 id not in the index: nobody" in result.stderr


def test_they_come_and_go_in_one_version(index: Path) -> None:
    vector_set(Path("more.features"), clustered(2, seed=9), ids=["7", "new"])
    Path("ids.txt").write_text("1\n2\nnobody\n")
    result = run("index", "more.features", "-o", index, "--update", "--remove", "ids.txt", "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["added"], told["removed"], told["unknown"], told["vectors"]) == (2, 3, ["nobody"], 99)
    assert (index / "version-2").exists()
    assert json.loads(run("verify", index, "--json").stdout)["vectors"] == 99


@pytest.mark.parametrize(("given", "left"), [("--remove FILE", 99), ("--update", 100)])
def test_a_change_of_no_index(index: Path, given: str, left: int) -> None:
    """The command that is printed does it."""
    index.rename("corpus.index")
    Path("FILE").write_text("1\n")
    result = run("index", *given.split())
    assert (result.exit_code, len(list(Path("corpus.index").glob("version-*")))) == (2, 1)
    _, command = result.stderr.split("name the index with -o: bertfeat ")
    assert run(*command.split("\n")[0].split(), "--json").exit_code == 0
    assert json.loads(run("verify", "corpus.index", "--json").stdout)["vectors"] == left


def test_a_document_that_two_sets_have_is_told(index: Path) -> None:
    vector_set(Path("more.features"), clustered(2, seed=9), ids=["7", "new"])
    result = run("index", "toy.features", "more.features", "-o", "both.index", "--json")
    assert json.loads(result.stdout)["documents"] == 101
    assert "warning: toy.features: left out 1 document whose ids a later set has, too" in result.stderr


def test_tombstones_are_said(features: Path) -> None:
    run("index", features, "--type", "hnsw")
    result = run("index", "-o", "toy.index", "--remove", "-", stdin="3\n4\n")
    assert "HNSW32 cannot remove: 2 vectors stay in it as tombstones" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["index"], id="nothing"),
        pytest.param(["index", "a.features", "b.features"], id="no name"),
        pytest.param(["index", "a.features", "--remove", "-"], id="remove from features"),
        pytest.param(["index", "toy.features", "--memory", "much"], id="memory"),
        pytest.param(["index", "toy.features", "--target-recall", "2"], id="recall"),
        pytest.param(["index", "toy.features", "--type", "fast"], id="type"),
    ],
)
def test_wrong_uses(index: Path, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_what_an_update_cannot_change_is_refused(index: Path) -> None:
    """Each of the options of a build, by the name that stands on the command line."""
    given = {
        "--type": "ivf", "--metric": "l2", "--memory": "1G", "--target-recall": "0.5", "--query-prompt": "q: ",
        "--transform": "whiten", "--device": "cpu", "--column": "last_mean", "--encode": "fde", "--spans": "sentences",
        "--no-evaluate": None, "--evaluate": None, "--no-text": None,
    }  # fmt: skip
    before = Path("toy.index", RECORD).read_bytes()
    for name, value in given.items():
        option = [name] if value is None else [name, value]
        for update in (["toy.features", "--update"], ["--remove", "-"]):
            result = run("index", *update, "-o", index, *option, stdin="1\n")
            assert result.exit_code == 2
            assert f"{name} with {update[-1] if update[-1] != '-' else '--remove'}: an update keeps" in result.stderr
    result = run("index", "toy.features", "-o", index, "--update", "--type", "ivf", "--no-text")
    assert "--type, --no-text with --update" in result.stderr
    assert Path("toy.index", RECORD).read_bytes() == before


def test_what_is_set_in_the_environment_is_for_builds(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTFEAT_INDEX_TYPE", "ivf")
    assert run("index", "-o", index, "--remove", "-", stdin="1\n").exit_code == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_ids_as_editors_write_them(encoding: str, end: str, features: Path) -> None:
    vector_set(Path("odd.features"), clustered(3), ids=["ä", "b c", "d\u2028e"], parts=1)
    run("index", "odd.features", "-o", "toy.index")
    Path("ids.txt").write_bytes(end.join(["ä", "", "d\u2028e"]).encode(encoding))
    result = run("index", "-o", "toy.index", "--remove", "ids.txt", "--json")
    assert result.stderr == ""
    told = json.loads(result.stdout)
    assert (told["removed"], told["unknown"], told["vectors"]) == (2, [], 1)


def test_ids_that_are_no_text(index: Path) -> None:
    Path("ids.txt").write_bytes(b"4\ncaf\xe9\n")
    result = run("index", "-o", index, "--remove", "ids.txt")
    assert result.exit_code == 1
    assert "ids.txt, line 2: 'caf\\xe9' is no utf-8 text" in result.stderr
    assert run("index", "-o", index, "--remove", "-", "--json", stdin="4\n").exit_code == 0


def test_recall_is_measured_again_or_said_to_be_old(index: Path) -> None:
    vector_set(Path("more.features"), clustered(10, seed=1), ids=[str(row) for row in range(10)])
    assert run("index", "toy.features", "-o", "codes.index", "--type", "sq8").exit_code == 0
    for name, told in ((index, False), ("codes.index", True)):
        result = run("index", "more.features", "-o", name, "--update")
        assert ", for stored vectors disturbed as questions are" in result.stdout
        for shown in (result.stdout, run("info", name).stdout):
            assert ("questions are, measured when it had 100 vectors" in shown) == told


def test_recall_over_transformed_vectors_is_said(features: Path) -> None:
    result = run("index", features, "--type", "PCAW8,L2norm,Flat")
    assert "1.000 at 10, for stored vectors disturbed as questions are, of the transformed vectors" in result.stdout
    assert "less than the wanted" not in result.stderr


def test_a_transform_is_said(features: Path) -> None:
    told = json.loads(run("index", features, "--transform", "whiten:3", "--json").stdout)
    assert told["transform"] == {"kind": "whiten", "width": 3}
    assert "transform  whiten, to 3 values" in run("info", "toy.index").stdout
    shown = run("index", features, "--transform", "half-whiten")
    assert "transform  half-whiten, to 16 values" in shown.stdout
    assert "of the transformed vectors" in shown.stdout
    assert "\ntransform" not in run("index", features, "--transform", "none").stdout
    assert "\ntransform" not in run("info", "toy.index").stdout


def test_too_few_vectors_for_a_transform_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    vector_set(Path("few.features"), clustered(40))
    warned = run("index", "few.features", "--transform", "whiten").stderr
    assert "warning: whiten:16: 40 vectors are few" in warned
    assert "whiten:4, or take half-whiten" in warned
    for transform in ("whiten:10", "half-whiten"):
        assert "few" not in run("index", "few.features", "--transform", transform).stderr
    wrong = run("index", "few.features", "--transform", "whiten:17")
    assert (wrong.exit_code, "40 vectors of 16 values vary in 16 directions" in wrong.stderr) == (2, True)
    assert run("index", "few.features", "--transform", "sphere").exit_code == 2


def test_an_index_whose_documents_were_all_removed(index: Path) -> None:
    run("index", "-o", index, "--remove", "-", stdin="".join(f"{row + 1}\n" for row in range(100)))
    again = run("index", "-o", index, "--remove", "-", stdin="1\n")
    assert again.exit_code == 0
    assert "1 id not in the index: 1" in again.stderr
    result = run("search", index, "--vectors", "queries.npy")
    assert result.exit_code == 0
    assert "nothing found" in result.stdout


@pytest.mark.parametrize(
    ("output", "message"),
    [
        pytest.param("/", "is no file of an index; name another folder", id="root"),
        pytest.param(".", "is no file of an index; name another folder", id="here"),
        pytest.param("toy.features", "holds a feature set, no index", id="features"),
        pytest.param("queries.npy", "a file is there, and an index is a folder", id="file"),
        pytest.param("queries.npy/in.it", "a file is there|Not a directory", id="in a file"),
        pytest.param("other", "note.txt is no file of an index", id="other things"),
        pytest.param("x" * 300, "File name too long", id="long"),
    ],
)
def test_outputs_that_cannot_be(output: str, message: str, index: Path) -> None:
    Path("other").mkdir()
    Path("other/note.txt").write_text("")
    result = run("index", "toy.features", "-o", output)
    assert result.exit_code in (1, 2)
    assert re.search(message, result.stderr)
    assert "Traceback" not in result.output


@pytest.mark.parametrize("memory", ["nan", "inf", "0", "-1", "1e3", "9" * 500, "4 4G"])
def test_memory_that_is_none(memory: str, features: Path) -> None:
    result = run("index", features, "--memory", memory)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_map(features: Path) -> None:
    result = run("plot", "map", features, "--color", "year")
    assert result.exit_code == 0
    assert "100 of 100" in result.stdout
    assert Path("toy.map.png").exists()


def test_queries_to_tune_on(features: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand(clustered(100, seed=2))
    monkeypatch.setattr("bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: stand)
    Path("questions.txt").write_bytes(b"\xef\xbb\xbf0\n\n17\n17\r\n99\n")
    Path("sixteen.txt").write_bytes("0\n17\n17\n99\n".encode("utf-16"))
    Path("queries.jsonl").write_text('{"_id": 1, "text": "0", "more": []}\n\n{"_id": "b", "text": "17"}\n')
    for name, judged in (("questions.txt", 2), ("sixteen.txt", 2), ("queries.jsonl", 1)):
        result = run("index", features, "--type", "ivf", "--queries", name)
        assert result.exit_code == 0, result.stderr
        assert f"for your queries ({judged} held out)" in result.stdout
        assert "for your queries" in run("info", "toy.index").stdout
    told = json.loads(run("index", features, "--queries", "-", "--json", stdin="3\n4\n").stdout)
    assert (told["evaluation"]["of"], told["evaluation"]["queries"]) == ("given", 1)


def test_a_recall_that_is_too_little_is_told_of_the_queries_that_it_is_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vectors = np.random.default_rng(3).normal(size=(300, 16)).astype(np.float32)
    features = vector_set(Path("toy.features"), vectors)
    wanted = ("index", features, "--type", "IVF2,PQ1x4np", "--target-recall", "0.99")
    disturbed = run(*wanted).stderr
    assert re.search(
        r"warning: recall at 10 is 0\.\d{3} for stored vectors disturbed as questions are, less than the wanted 0\.99; "
        r"quantization loses more of these than of questions: --queries FILE tells what is found for questions\n",
        disturbed,
    )
    assert "cannot reach" not in disturbed
    monkeypatch.setattr("bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: Stand(vectors))
    Path("questions.txt").write_text("".join(f"{row}\n" for row in range(40)))
    given = run(*wanted, "--queries", "questions.txt").stderr
    assert "for your queries, less than the wanted 0.99: this type cannot reach it; choose flat, hnsw or ivf" in given


@pytest.mark.parametrize(
    ("options", "content", "code", "problem"),
    [
        (["--queries", "q.txt"], b"\n \n", 2, "there are no queries to tune on"),
        (["--queries", "q.txt"], b"ok\n\xff\xfe\n", 1, "q.txt, line 2"),
        (["--queries", "q.jsonl"], b'{"text": 3}\n', 1, "q.jsonl, line 1: expected an object with a text"),
        (["--queries", "q.jsonl"], b'{"text": " "}\n', 2, "query 0 is empty"),
        (["--queries", "q.txt", "--no-evaluate"], b"a\n", 2, "without evaluation nothing is tuned"),
        (["--queries", "q.txt", "--update"], b"a\n", 2, "--queries with --update"),
        (["--model", "there"], b"", 2, "--model is for embedding --queries"),
    ],
)
def test_queries_that_cannot_be(features: Path, options: list[str], content: bytes, code: int, problem: str) -> None:
    for name in ("q.txt", "q.jsonl"):
        Path(name).write_bytes(content)
    result = run("index", features, *options)
    assert (result.exit_code, problem in result.stderr) == (code, True), result.stderr
    assert not Path("toy.index").exists()
