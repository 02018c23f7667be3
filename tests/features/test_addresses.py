"""Feature sets at addresses are those of local folders, byte for byte, and few requests open and read them."""

import dataclasses
import json
import pickle
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bertfeat.core.features import (
    EXPORT_FORMATS,
    FeatureSet,
    export_features,
    list_part_files,
    list_parts,
    part as part_module,
    read_header,
    refuse_foreign_parts,
    remove_leftovers,
    remove_manifest,
    write_manifest,
    write_part,
)
from bertfeat.errors import BertfeatError, DamagedError, FeatureSetError, StorageError, UsageError
from bertfeat.io import (
    Address,
    ResultKind,
    claim_folder,
    is_own_part,
    list_files,
    put_file,
    read_file,
    refuse_other_kind,
    remove_stored,
    result_kind,
    write_json,
)
from bertfeat.io.result_folder import release_folder
from tests.support.features_toy import Toy, toy_part, toy_set
from tests.support.s3_server import Faults, S3Server

_NUMBERS = count()


@pytest.fixture
def memory() -> Address:
    """Give an empty folder in memory."""
    return Address.parse(f"memory://features-{next(_NUMBERS)}/some/where")


@pytest.fixture(params=["memory", "s3"])
def address(request: pytest.FixtureRequest) -> Address:
    """Give an empty folder in object storage."""
    if request.param == "memory":
        memory: Address = request.getfixturevalue("memory")
        return memory
    bucket: Address = request.getfixturevalue("bucket")
    return bucket / "features"


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return toy_set(tmp_path / "toy.features")


def contents(folder: Path | Address) -> dict[str, bytes]:
    """Every file of a folder, by its name."""
    return {file.name: read_file(folder / file.name) for file in list_files(folder)}


def tables(features: FeatureSet) -> pa.Table:
    return pa.Table.from_batches(list(features.stream()))


# ── the same as local ones ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
def test_the_same_bytes_are_written(address: Address, local: Path) -> None:
    claim_folder(local, ResultKind.FEATURES)
    claim_folder(address, ResultKind.FEATURES)
    toy_set(address)
    written = contents(address)
    assert sorted(written) == [
        ".bertfeat/failures.jsonl",
        ".bertfeat/kind",
        ".bertfeat/manifest.json",
        *(f"part-{number:05d}.parquet" for number in range(3)),
    ]
    assert written == contents(local)
    assert [path.name for path in list_parts(address)] == [path.name for path in list_parts(local)]
    assert [file.stamp.size for file in list_part_files(address)] == [
        file.stamp.size for file in list_part_files(local)
    ]


@pytest.mark.sampled(1)
def test_everything_reads_as_from_a_local_folder(address: Address, local: Path) -> None:
    ours, theirs = FeatureSet(str(toy_set(address))), FeatureSet(local)
    assert ours.folder == address
    assert (len(ours), ours.columns, ours.kept, ours.names, ours.sources) == (
        len(theirs),
        theirs.columns,
        theirs.kept,
        theirs.names,
        theirs.sources,
    )
    assert (ours.manifest, ours.parts, ours.counts) == (theirs.manifest, theirs.parts, theirs.counts)
    assert tables(ours).equals(tables(theirs))
    assert list(ours.failures()) == list(theirs.failures())
    for column in ("concat4_mean", "sum4_mean"):  # stored, and derived
        assert np.array_equal(ours.matrix(column), theirs.matrix(column))
    assert ours[9].text == theirs[9].text
    assert [document.row for document in ours.by_id("12")] == [11]
    assert np.array_equal(ours.slice(3, 14, "concat4_mean").matrix, theirs.slice(3, 14, "concat4_mean").matrix)
    with pytest.raises(FeatureSetError, match="row 4 is not here: it failed"):
        ours[4]
    assert [header.number for header in ours.check()] == [0, 1, 2]
    assert repr(ours).startswith(f"FeatureSet('{address}': 15 documents")


@pytest.mark.sampled(1)
def test_a_set_goes_through_pickle_to_where_the_address_is_known(address: Address) -> None:
    features = pickle.loads(pickle.dumps(FeatureSet(toy_set(address))))
    assert features.folder == address
    assert len(features) == 15
    remove_manifest(address)
    assert len(pickle.loads(pickle.dumps(FeatureSet(address, allow_unfinished=True)))) == 15


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_exports_are_the_same(memory: Address, local: Path, tmp_path: Path, form: str) -> None:
    column = None if form == "bert-jsonl" else "concat4_mean"
    for name, folder in (("ours", toy_set(memory)), ("theirs", local)):
        (tmp_path / name).mkdir()
        export_features(folder, form, tmp_path / name / "out.x", column=column)
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")
    with pytest.raises(UsageError, match=r"memory://a/out\.csv: exports are written to local files"):
        export_features(local, "csv", "memory://a/out.csv", column="concat4_mean")


def test_an_unfinished_set_is_read_when_it_is_asked_for(address: Address) -> None:
    toy_set(address, finished=False)
    with pytest.raises(FeatureSetError, match=f"not finished.*bertfeat extract corpus.txt -o {address} …"):
        FeatureSet(address)
    remove_stored(address / "part-00001.parquet")
    features = FeatureSet(address, allow_unfinished=True)
    assert [document.row for document in features] == [0, 1, 2, 3, 5, *range(11, 18)]
    for name in ("nowhere", "part-00000.parquet"):  # nothing, and a file
        with pytest.raises(FeatureSetError, match="holds no feature set"):
            FeatureSet(address / name, allow_unfinished=True)


@pytest.mark.slow
def test_many_parts_keep_their_order(memory: Address, tmp_path: Path) -> None:
    toys = [toy_part(number, 2 * number, 2, poolings=["mean"]) for number in range(100)]
    toy_set(tmp_path / "local", *toys)
    toy_set(memory, *toys, finished=False)
    assert [entry.number for entry in FeatureSet(memory, allow_unfinished=True).entries] == list(range(100))
    write_manifest(memory, times={"seconds": 1.5}, versions={"bertfeat": "0.1.0"})
    assert contents(memory) == contents(tmp_path / "local")


# ── what is wrong with them ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
def test_damage_is_found_at_addresses_too(address: Address) -> None:
    toy_set(address)
    name = "part-00001.parquet"
    good = read_file(address / name)
    for at in (2, len(good) // 2, len(good) - 30):
        put_file(address / name, good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(DamagedError, match=name):
            list(FeatureSet(address).check())
    for wrong in (good[:-9], b"", b"PAR1"):
        put_file(address / name, wrong)
        with pytest.raises(DamagedError, match=f"{name}: missing or changed in size"):
            FeatureSet(address)
        with pytest.raises(DamagedError, match=f"{name}: "):
            read_header(address / name)
    remove_stored(address / name)
    with pytest.raises(DamagedError, match=f"{name}: missing or changed in size"):
        FeatureSet(address)
    with pytest.raises(FeatureSetError, match=f"{name}: cannot be read: "):
        read_header(address / name)
    with pytest.raises(DamagedError, match=f"{name}: this part is missing"):
        write_manifest(address)


def test_a_manifest_and_failures_that_are_not_those_of_the_parts(memory: Address) -> None:
    toy_set(memory)
    failures = read_file(memory / ".bertfeat/failures.jsonl")
    for wrong in (failures + b"\n", failures[:-2], b""):
        put_file(memory / ".bertfeat/failures.jsonl", wrong)
        with pytest.raises(DamagedError, match="not the list of failures"):
            list(FeatureSet(memory).check())
    remove_stored(memory / ".bertfeat/failures.jsonl")
    with pytest.raises(DamagedError, match="not the list of failures"):
        list(FeatureSet(memory).check())
    write_manifest(memory)
    list(FeatureSet(memory).check())
    put_file(memory / ".bertfeat/manifest.json", b"{}")
    with pytest.raises(DamagedError, match=f"{memory}/.bertfeat/manifest.json: cannot be read"):
        FeatureSet(memory)


@pytest.mark.slow
def test_storage_that_does_not_answer_is_never_taken_for_damage(
    bucket: Address, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_module, "ROW_GROUP_BYTES", 1)
    toy_set(bucket / "f", toy_part(rows=3000, poolings=["mean"]))  # more than comes with the footer
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "0.2")
    features = FeatureSet(bucket / "f")
    uses = (
        lambda: FeatureSet(bucket / "f"),
        lambda: features[7],
        lambda: list(features.check()),
        lambda: write_manifest(bucket / "f"),
        lambda: result_kind(bucket / "f"),
        lambda: is_own_part(bucket / "f/part-00000.parquet"),
    )
    with s3.harmed(Faults(down=True)):
        for use in uses:
            with pytest.raises(StorageError):
                use()
    assert features[7].row == 7


# ── parts that are there already ────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["local", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | Address:
    if request.param == "local":
        return tmp_path
    found: Address = request.getfixturevalue({"memory": "memory", "s3": "bucket"}[request.param])
    return found


def test_of_several_writers_of_a_part_the_first_one_wins(place: Path | Address) -> None:
    toy = toy_part()
    assert write_part(place, toy.header, toy.table, if_absent=True)
    before = contents(place)
    write_part(place, toy.header, toy.table, if_absent=True)  # the same
    other = dataclasses.replace(toy.header, digest="another one")
    with pytest.raises(FeatureSetError, match=r"part-00000\.parquet: another run wrote this part meanwhile"):
        write_part(place, other, toy.table, if_absent=True)
    assert contents(place) == before
    assert write_part(place, other, toy.table)
    assert read_header(place / "part-00000.parquet").digest == "another one"
    put_file(place / "part-00000.parquet", b"no Parquet at all")
    with pytest.raises(DamagedError, match=r"part-00000\.parquet"):
        write_part(place, toy.header, toy.table, if_absent=True)


# ── what a folder holds ─────────────────────────────────────────────────────────────────────────────────────


def test_a_claimed_folder_says_what_it_is(address: Address) -> None:
    assert result_kind(address) is None
    claim_folder(address, ResultKind.FEATURES)
    claim_folder(address, ResultKind.FEATURES)
    assert result_kind(address) is ResultKind.FEATURES
    with pytest.raises(StorageError, match="holds a feature set"):
        refuse_other_kind(address, ResultKind.HEAD)
    put_file(address / "part-00000.parquet", b"mine")
    release_folder(address)
    assert sorted(contents(address)) == [".bertfeat/kind", "part-00000.parquet"]
    remove_stored(address / "part-00000.parquet")
    release_folder(address)
    assert contents(address) == {}


def test_a_folder_without_a_marker_is_known_by_its_content(memory: Address) -> None:
    put_file(memory / "part-00000.parquet", b"no Parquet")
    assert result_kind(memory) is None
    with pytest.raises(FeatureSetError, match="was not written by bertfeat extract"):
        refuse_foreign_parts(memory)
    toy_set(memory)
    assert result_kind(memory) is ResultKind.FEATURES
    refuse_foreign_parts(memory)
    remove_leftovers(memory)
    put_file(memory / "other/.bertfeat/index.json", b"{}")
    assert result_kind(memory / "other") is ResultKind.INDEX


# ── digests of the input ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
def test_digests_of_input_that_are_not_those_of_the_parts(place: Path | Address) -> None:
    toy_set(place)
    manifest = json.loads(read_file(place / ".bertfeat/manifest.json"))
    assert [part["digest"] for part in manifest["parts"]] == [f"digest of part {number}" for number in range(3)]
    manifest["parts"][1]["digest"] = "of another input"
    write_json(place / ".bertfeat/manifest.json", {name: manifest[name] for name in manifest if name != "digest"})
    with pytest.raises(DamagedError, match="they differ in parts"):
        list(FeatureSet(place).check())


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def fifty(bucket: Address, s3: S3Server) -> Address:
    """Give a set of 50 parts; what it cost is not counted."""
    toys: list[Toy] = [toy_part(number, 3 * number, 3) for number in range(50)]
    claim_folder(bucket / "fifty", ResultKind.FEATURES)
    toy_set(bucket / "fifty", *toys)
    s3.forget()
    return bucket / "fifty"


def test_opening_a_set_of_many_parts_costs_three_requests(fifty: Address, s3: S3Server) -> None:
    features = FeatureSet(fifty)
    assert [request.kind for request in s3.requests] == ["get", "list", "range"]  # manifest, parts, a footer
    s3.forget()
    assert result_kind(fifty) is ResultKind.FEATURES
    refuse_foreign_parts(fifty)
    assert [request.kind for request in s3.requests] == ["get", "get"]
    s3.forget()
    assert len(features.parts) == 50
    assert s3.count() == s3.count("range") == 49


@pytest.mark.slow
def test_finishing_a_set_costs_a_request_a_part(fifty: Address, s3: S3Server) -> None:
    write_manifest(fifty)
    assert (s3.count("list"), s3.count("range"), s3.count("put")) == (1, 50, 1)
    s3.forget()
    assert len(FeatureSet(fifty).entries) == 50
    remove_manifest(fifty)
    s3.forget()
    assert len(FeatureSet(fifty, allow_unfinished=True)) == 150
    assert (s3.count("list"), s3.count("range"), s3.count("get")) == (1, 51, 3)  # no manifest, here or of a successor


def test_a_row_group_costs_few_requests(bucket: Address, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_module, "ROW_GROUP_BYTES", 1 << 18)
    toy = toy_part(rows=4000)
    features = FeatureSet(toy_set(bucket / "f", toy))
    groups = features._parts.open(features.entries[0]).footer.metadata.num_row_groups
    assert groups > 5
    s3.forget()
    assert sum(map(len, features.stream())) == 4000  # neighboring columns in one request
    assert s3.count("get", "list", "head") == 0
    assert s3.count("range") <= groups + 2
    s3.forget()
    assert features[2000].row == 2000
    assert s3.count() <= 2
    whole = sum(file.stamp.size for file in list_part_files(bucket / "f"))
    s3.forget()
    list(features.check())
    assert s3.count() <= 5 + whole // (16 << 20) + groups + 10


def test_bertfeat_errors_name_the_address(memory: Address) -> None:
    with pytest.raises(BertfeatError, match=f"^{memory}: this folder holds no feature set"):
        FeatureSet(memory)
    with pytest.raises(UsageError, match="not storage that bertfeat knows"):
        FeatureSet("ftp://somewhere/features")
