"""What an S3 server may do wrong, how many requests things cost, and what is said of what cannot be helped."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertfeat.errors import StorageError, UsageError
from bertfeat.io import (
    Address,
    create_file,
    file_stamp,
    list_files,
    open_file,
    put_file,
    read_file,
    remove_stored,
    replace_file,
)
from bertfeat.search import BuildOptions, build_index
from tests.support.index_toy import clustered, vector_set
from tests.support.s3_server import Faults, S3Server
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
CONTENT = bytes(range(256)) * 8192  # 2 MiB
EVERYTHING: dict[str, Callable[[Address], object]] = {
    "open": open_file,
    "read": read_file,
    "list": lambda place: list_files(place.parent),
    "put": lambda place: put_file(place, b"x"),
    "create": lambda place: put_file(place, b"x", if_absent=True),
    "remove": remove_stored,
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "0.3")


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("columns", "requests"), [(3, 1), (2000, 2)])
def test_a_footer_of_parquet_costs_few_requests(bucket: Address, s3: S3Server, columns: int, requests: int) -> None:
    table = pa.table({f"a column with a long name {number}": [number] for number in range(columns)})
    with create_file(bucket / "part.parquet") as new:
        pq.write_table(table, new.path)
    s3.forget()
    with open_file(bucket / "part.parquet") as file:
        assert pq.ParquetFile(file).schema_arrow.names == table.schema.names
    assert s3.count() == s3.count("range") == requests


@pytest.mark.slow
def test_everything_is_told_by_few_requests(bucket: Address, s3: S3Server) -> None:
    for number in range(1005):
        put_file(bucket / f"part-{number:05}", b"x")
    s3.forget()
    assert len(list_files(bucket)) == 1005
    assert s3.count() == s3.count("list") == 2
    s3.forget()
    put_file(bucket / "new", b"x")
    put_file(bucket / "other", b"x", if_absent=True)
    remove_stored(bucket / "new")
    assert [request.kind for request in s3.requests] == ["put", "create", "delete"]


def test_reading_on_takes_larger_and_larger_pieces(bucket: Address, s3: S3Server) -> None:
    put_file(bucket / "corpus", CONTENT * 10)
    s3.forget()
    with open_file(bucket / "corpus") as file:
        assert sum(len(block) for block in iter(lambda: file.read(1000), b"")) == len(CONTENT) * 10
    assert s3.count("range") <= 6


# ── what passes ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fault", ["throttled", "dropped_before", "dropped_after", "failed_after", "cut", "torn"])
def test_faults_that_pass_change_nothing(bucket: Address, s3: S3Server, fault: str) -> None:
    def once() -> Faults:
        return Faults(**{fault: 1.0}, most=1)  # type: ignore[arg-type]

    place = bucket / "file"
    with s3.harmed(once()):
        first = put_file(place, CONTENT, if_absent=True)
    assert first
    with s3.harmed(once()):
        assert read_file(place) == CONTENT
    with s3.harmed(once()), open_file(place) as file:
        assert file.read() == CONTENT
    with s3.harmed(once()):
        assert [file.name for file in list_files(bucket)] == ["file"]
    with s3.harmed(once()):
        second = replace_file(place, b"second", first)
    assert second
    with s3.harmed(once()):
        assert file_stamp(place) == second
    with s3.harmed(once()):
        assert put_file(place, b"third!", if_absent=True) is None
    with s3.harmed(once()):
        assert replace_file(place, b"third!", first) is None
    assert read_file(place) == b"second"
    with s3.harmed(once()):
        remove_stored(place)
    assert list_files(bucket) == []
    assert {request.fault for request in s3.requests} >= {fault}


@pytest.mark.slow
def test_a_share_of_faults_of_all_kinds_is_survived(bucket: Address, s3: S3Server) -> None:
    shares = Faults(seed=3, throttled=0.1, dropped_before=0.1, dropped_after=0.1, failed_after=0.1, cut=0.05)
    with s3.harmed(shares):
        for number in range(12):
            assert put_file(bucket / f"{number}", f"{number}".encode(), if_absent=True)
            assert put_file(bucket / f"{number}", b"other", if_absent=True) is None
        assert [read_file(bucket / f"{number}") for number in range(12)] == [b"%d" % number for number in range(12)]
        assert len(list_files(bucket)) == 12
    assert sum(bool(request.fault) for request in s3.requests) > 10


def test_a_large_upload_whose_answer_was_lost_counts_as_written(bucket: Address, s3: S3Server) -> None:
    with s3.harmed(Faults(dropped_after=1.0, most=1)), create_file(bucket / "part", if_absent=True) as new:
        new.path.write_bytes(CONTENT)
    assert new.stamp == file_stamp(bucket / "part")
    assert [request.kind for request in s3.requests][:3] == ["create", "create", "head"]  # its tag tells its content


def test_an_object_that_is_removed_while_it_is_read_is_missing(bucket: Address, s3: S3Server) -> None:
    put_file(bucket / "file", CONTENT)
    s3.forget()

    def remove_when_read() -> None:
        while not s3.requests:
            time.sleep(0.001)
        remove_stored(bucket / "file")

    with s3.harmed(Faults(cut=1.0, kinds=frozenset(["get"]), most=1)):
        threading.Thread(target=remove_when_read).start()
        with pytest.raises(FileNotFoundError):
            read_file(bucket / "file")
    assert [request.kind for request in s3.requests][:2] == ["get", "delete"]


def test_a_silent_connection_is_given_up(bucket: Address, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.io.storage.opening._QUIET_SECONDS", 0.3)
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "29")  # a store of its own
    with s3.harmed(Faults(stalled=1.0, most=1)):
        assert put_file(bucket / "file", b"x", if_absent=True)
    with s3.harmed(Faults(stalled=1.0, most=1)):
        assert read_file(bucket / "file") == b"x"


def test_a_storage_that_comes_back_is_waited_for(
    bucket: Address, s3: S3Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertfeat.io.storage.opening._RETRIED_SECONDS", 0.2)
    monkeypatch.setattr("bertfeat.io.storage.request._SILENT", 0.1)
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "28")
    s3.harm(Faults(down=True))

    def warnings() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.levelno == logging.WARNING]

    def come_back() -> None:
        wait_for(warnings, 20)
        s3.harm(Faults())

    threading.Thread(target=come_back).start()
    assert put_file(bucket / "file", b"x", if_absent=True)
    (told,) = warnings()
    assert "does not answer (the connection ended early); trying for another 2" in told.getMessage()


# ── what does not ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", EVERYTHING)
def test_refused_credentials_are_told_in_a_line(bucket: Address, s3: S3Server, what: str) -> None:
    with s3.harmed(Faults(refused=True)), pytest.raises(StorageError) as told:
        EVERYTHING[what](bucket / "x")
    assert "(403 Forbidden, InvalidAccessKeyId); check AWS_ACCESS_KEY_ID" in str(told.value)
    assert "\n" not in str(told.value)
    assert s3.count() == 1


@pytest.mark.parametrize("what", EVERYTHING)
def test_a_bucket_that_there_is_not_is_told(s3: S3Server, what: str) -> None:
    with pytest.raises(StorageError, match="there is no such bucket; create it, or correct its name"):
        EVERYTHING[what](Address.parse("s3://nobody-made-it/folder/x"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        (Faults(throttled=1.0), "503 Service Unavailable, SlowDown"),
        (Faults(down=True), "the connection ended early"),
        (Faults(stalled=1.0), "no answer in time"),
    ],
    ids=["throttled", "down", "stalled"],
)
@pytest.mark.usefixtures("impatient")
def test_a_storage_that_stays_away_is_told(bucket: Address, s3: S3Server, faults: Faults, reason: str) -> None:
    with s3.harmed(faults), pytest.raises(StorageError) as told:
        put_file(bucket / "x", b"x", if_absent=True)
    assert str(told.value) == (
        f"{bucket}/x: the storage does not answer as it should: {reason}; "
        "see that it can be reached, then run it again (BERTFEAT_STORAGE_TIMEOUT: seconds that it is tried)"
    )


@pytest.mark.usefixtures("impatient", "s3")
def test_a_storage_that_cannot_be_reached_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StorageError, match=r"s3://bucket/x: .* Connection refused; see that it can be reached"):
        read_file(Address.parse("s3://bucket/x"))


@pytest.mark.usefixtures("s3")
def test_without_credentials_it_is_told_where_they_belong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", "0.3")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://169.254.0.1:9")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    place = Address.parse("s3://bucket/x")
    with pytest.raises(StorageError, match=r"no credentials for it; set AWS_ACCESS_KEY_ID and .* AWS_PROFILE$"):
        read_file(place)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id=a\naws_secret_access_key=b\n")
    monkeypatch.setattr("bertfeat.io.storage.opening.find_spec", lambda name: None)
    monkeypatch.setenv("AWS_PROFILE", "default")
    with pytest.raises(StorageError, match=r"or pip install boto3, which reads the profiles of ~/\.aws"):
        read_file(place)


def test_a_profile_is_read_by_boto3(bucket: Address, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / "credentials").write_text("[mine]\naws_access_key_id=a\naws_secret_access_key=b\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert put_file(bucket / "x", b"x")
    monkeypatch.setenv("AWS_PROFILE", "yours")
    with pytest.raises(StorageError, match=r"the profile of AWS cannot be used: .*yours.*; correct AWS_PROFILE"):
        put_file(bucket / "x", b"x")


def test_an_account_of_azure_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StorageError, match="no credentials for it; set AZURE_STORAGE_ACCOUNT_NAME and"):
        file_stamp(Address.parse("az://container/x"))


@pytest.mark.parametrize("seconds", ["", "0", "-1", "soon", "nan", "inf"])
def test_a_time_that_is_none_is_refused(bucket: Address, monkeypatch: pytest.MonkeyPatch, seconds: str) -> None:
    monkeypatch.setenv("BERTFEAT_STORAGE_TIMEOUT", seconds)
    if not seconds:
        assert file_stamp(bucket / "x") is None
        return
    with pytest.raises(UsageError, match=f"BERTFEAT_STORAGE_TIMEOUT={seconds}: is no positive number of seconds"):
        file_stamp(bucket / "x")


def test_without_obstore_it_is_told_what_to_install() -> None:
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "from bertfeat.io import Address, file_stamp\n"
        "file_stamp(Address.parse('s3://bucket/x'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stderr.endswith(
        "s3://bucket: object storage needs obstore, which is not installed; pip install 'bertfeat[cloud]'\n"
    )


def test_an_object_too_large_for_one_request_goes_in_pieces_unless_it_must_be_the_first(
    bucket: Address, s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("bertfeat.io.storage.bucket.MOST_OBJECT", 1000)
    with pytest.raises(StorageError, match=r"more than the .* that one request may bring; write smaller parts"):
        put_file(bucket / "x", bytes(1001), if_absent=True)
    assert s3.count() == 0
    monkeypatch.setattr("bertfeat.io.storage.bucket._PIECE", 5 << 20)  # the least that S3 takes
    content = np.random.default_rng(0).bytes((12 << 20) + 7)
    (tmp_path / "x").write_bytes(content)
    put_file(bucket / "x", tmp_path / "x")
    assert read_file(bucket / "x") == content
    assert s3.count("put") == 0


_WAITING = """
import signal, sys
from bertfeat.io import Address, read_file
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
print("reading", flush=True)
read_file(Address.parse(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_wait_is_interrupted_at_once(bucket: Address, s3: S3Server) -> None:
    """A request that blocked in native code would hold Ctrl-C back until its last attempt."""
    put_file(bucket / "x", b"x")
    with s3.harmed(Faults(stalled=1.0)):
        command = [sys.executable, "-c", _WAITING, str(bucket / "x")]
        environment = {**os.environ, **s3.environment}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment
        ) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"reading\n"
            time.sleep(1)
            assert run.poll() is None
            run.send_signal(signal.SIGINT)
            start = time.monotonic()
            assert b"KeyboardInterrupt" in run.communicate()[1]
            assert time.monotonic() - start < 10


_FORKED = """
import os, sys
from bertfeat.errors import StorageError
from bertfeat.io import Address, read_file
place = Address.parse(sys.argv[1])
read_file(place)
if os.fork() == 0:
    try:
        read_file(place)
    except StorageError as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.wait()
"""


def test_a_forked_process_is_told_to_be_spawned(bucket: Address, s3: S3Server) -> None:
    put_file(bucket / "x", b"x")
    command = [sys.executable, "-W", "ignore", "-c", _FORKED, str(bucket / "x")]
    environment = {**os.environ, **s3.environment}
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60)
    assert "start processes with multiprocessing's 'spawn'" in done.stdout


# ── settings, and the end of the process ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        *(
            ("AWS_ENDPOINT_URL", value, "no address of a server")
            for value in ("foo", "http://", "localhost:9000", "x y")
        ),
        ("AWS_ENDPOINT_URL_S3", "http://host:port", "no address of a server"),
        *(("AWS_SECRET_ACCESS_KEY", value, "no request can carry") for value in ("a\nb", "a\n", "schlüssel")),
        ("AWS_ACCESS_KEY_ID", "a\tb", "no request can carry"),
        ("AWS_SESSION_TOKEN", "a\rb", "no request can carry"),
        ("AWS_REGION", "a\nb", "no request can carry"),
    ],
)
def test_settings_over_which_obstore_panics(
    bucket: Address,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    told: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    for do in EVERYTHING.values():
        with pytest.raises(UsageError, match=rf"^{name}.*{told}") as error:
            do(bucket / "x")
        assert "SECRET" not in name or value not in str(error.value)
    assert capfd.readouterr().err == ""


_WORK = """
import sys
from bertfeat.io import Address, list_files, open_file, put_file, read_file
place = Address.parse(sys.argv[1])
put_file(place, bytes(70_000))
with open_file(place) as file:
    file.read(10)
list_files(place.parent)
read_file(place)
"""
_SLOW_ANSWERS = """
import time
from asyncio import base_events
call = base_events.BaseEventLoop.call_soon_threadsafe
def call_slowly(*arguments, **more):
    try:
        return call(*arguments, **more)
    finally:
        time.sleep(0.2)
base_events.BaseEventLoop.call_soon_threadsafe = call_slowly
"""


def test_no_thread_of_rust_is_inside_python_when_the_process_ends(bucket: Address, s3: S3Server) -> None:
    """If an answer came by asyncio, the thread that brings it would be unwound, and the process would abort (134)."""
    environment = {**os.environ, **s3.environment}
    for name in "ab":
        told = subprocess.run(
            [sys.executable, "-c", _SLOW_ANSWERS + _WORK, str(bucket / name)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
        )
        assert (told.returncode, told.stderr) == (0, b"")


@pytest.mark.hostile
def test_a_hundred_processes_under_load_end_well(bucket: Address, s3: S3Server) -> None:
    commands = ([sys.executable, "-c", _WORK, str(bucket / f"{number}")] for number in range(100))
    assert outputs_under_load(commands, s3) == [b""] * 100


@pytest.mark.hostile
def test_commands_under_load_end_well(bucket: Address, s3: S3Server, tmp_path: Path) -> None:
    vectors = clustered(50)
    features, index = vector_set(tmp_path / "corpus.features", vectors), tmp_path / "corpus.index"
    build_index(features, index, options=BuildOptions(evaluate=False))
    for folder in (features, index):
        for file in list_files(folder):
            put_file(bucket / folder.name / file.name, read_file(folder / file.name))
    np.save(tmp_path / "query.npy", vectors[7:8])
    query = ("--vectors", str(tmp_path / "query.npy"), "-k", "1")

    def kind(told: Any) -> tuple[Any, ...]:
        return told["kind"], told["documents"]

    def hits(told: Any) -> tuple[Any, ...]:
        return tuple(hit["id"] for hit in told["hits"])

    verbs: list[tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], tuple[Any, ...]]] = [
        (("info", str(bucket / "corpus.features")), kind, ("features", 50)),
        (("info", str(bucket / "corpus.index")), kind, ("index", 50)),
        (("search", str(bucket / "corpus.index"), *query), hits, ("8",)),
        (("search", str(bucket / "corpus.index"), *query, "--exact"), hits, ("8",)),
    ]
    command = [sys.executable, "-c", "from bertfeat.cli import run; run()"]
    chosen = [verbs[number % len(verbs)] for number in range(60)]
    found = outputs_under_load(([*command, *arguments, "--json"] for arguments, _, _ in chosen), s3)
    for (arguments, told, expected), output in zip(chosen, found, strict=True):
        assert told(json.loads(output)) == expected, arguments


def outputs_under_load(commands: Iterable[list[str]], s3: S3Server) -> list[bytes]:
    """Run commands, six at a time; each ends well and says no word of trouble. What each has printed."""
    environment, outputs = {**os.environ, **s3.environment}, list[bytes]()
    running: list[subprocess.Popen[bytes]] = []

    def end_first() -> None:
        process = running.pop(0)
        output, trouble = process.communicate()
        assert (trouble, process.returncode) == (b"", 0)
        outputs.append(output)

    for command in commands:
        running.append(
            subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
        if len(running) == 6:
            end_first()
    while running:
        end_first()
    return outputs
