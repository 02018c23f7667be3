import dataclasses
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from bertfeat.core.features import (
    FeatureSettings,
    check_part,
    content_table,
    part as part_module,
    read_header,
    schema as schema_module,
    sealed_file as seal_module,
    write_part,
)
from bertfeat.core.features.part import decode_header, encode_header
from bertfeat.core.features.sealed_file import SEAL_KEY, write_seal
from bertfeat.errors import DamagedError, FeatureSetError, StorageError, UsageError
from tests.support.features_toy import KEPT, Toy, toy_part

VARIANTS: dict[str, dict[str, Any]] = {
    "documents": {"poolings": ["mean", "cls", "max"], "layers": "last,concat4"},
    "tokens": {"poolings": ["token"], "layers": "-1,-2"},
    "words": {"poolings": ["word"], "dtype": "float32", "tags": True},
    "no-text": {"text": False},
    "pairs": {"pairs": True},
    "empty": {"rows": 0},
    "all-failed": {"rows": 3, "failures": [0, 1], "blank": [2]},
}


@pytest.fixture(params=list(VARIANTS.values()), ids=list(VARIANTS))
def toy(request: pytest.FixtureRequest) -> Toy:
    return toy_part(**request.param)


def test_a_part_gives_back_what_was_written(tmp_path: Path, toy: Toy) -> None:
    path = _write(tmp_path, toy.header, toy.table)
    assert path.name == "part-00000.parquet"
    assert os.listdir(tmp_path) == [path.name]
    table = pq.read_table(path, page_checksum_verification=True)
    assert table.column("row").to_pylist() == [doc.row for doc in toy.documents]
    assert table.column("id").to_pylist() == [doc.id for doc in toy.documents]
    for at, kept in enumerate(KEPT):
        assert table.column(kept.name).to_pylist() == [doc.kept[at] for doc in toy.documents]
    for column in toy.header.columns:
        operation = "concat" if column.recipe.name == "concat4" else "sum"
        for cell, doc in zip(table.column(column.name), toy.documents, strict=True):
            expected = doc.feature(operation, column.recipe.layers, column.pooling).astype(column.dtype)
            if column.pooling.per_document:
                np.testing.assert_array_equal(cell.as_py(), expected)
            else:
                np.testing.assert_array_equal(
                    np.frombuffer(cell.as_py(), column.dtype).reshape(-1, column.width), expected
                )


def test_a_part_describes_itself(tmp_path: Path, toy: Toy) -> None:
    path = _write(tmp_path, toy.header, toy.table)
    header = check_part(path)
    if toy.content.texts is None:
        assert all(not failure.value for failure in header.failures)
    else:
        assert header == toy.header
    assert read_header(path) == header


def test_tokens_and_words_lie_where_they_say(tmp_path: Path) -> None:
    toy = toy_part(pairs=True, tags=True)
    table = pq.read_table(_write(tmp_path, toy.header, toy.table))
    assert [field.name for field in table.schema if pa.types.is_list(field.type)] == [
        *("tokens", "token_ids", "token_start", "token_end", "token_segment"),
        *("words", "word_start", "word_end", "word_segment", "aligned", "tags"),
    ]
    for record in table.to_pylist():
        places = zip(record["words"], record["word_start"], record["word_end"], strict=True)
        assert all(record["text"][start:end].strip() == word for word, start, end in places)
        assert record["aligned"] == [word != "🙂" for word in record["words"]]
        assert len(record["tags"]) == len(record["words"]) == len(record["tokens"]) - 2


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    first, second = (_write(folder, *_written(toy_part())) for folder in (tmp_path, tmp_path / "again"))
    assert first.read_bytes() == second.read_bytes()


def test_row_groups_stay_small_and_know_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_module, "ROW_GROUP_BYTES", 2000)
    toy = toy_part(rows=40)
    metadata = pq.read_metadata(_write(tmp_path, *_written(toy)))
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    assert len(groups) > 5
    assert sum(group.num_rows for group in groups) == 40
    bounds = [(group.column(0).statistics.min, group.column(0).statistics.max) for group in groups]
    assert [first for first, _ in bounds[1:]] == [last + 1 for _, last in bounds[:-1]]
    # vectors are neither compressed nor given statistics
    vectors = [column for column in _chunks(groups[0]) if "concat4" in column.path_in_schema]
    assert {(column.compression, column.is_stats_set) for column in vectors} == {("UNCOMPRESSED", False)}


def test_a_file_written_over_an_old_one_replaces_it(tmp_path: Path) -> None:
    write_part(tmp_path, *_written(toy_part(rows=2)))
    assert check_part(_write(tmp_path, *_written(toy_part(rows=5)))).last_row == 5


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    path = _write(tmp_path, *_written(toy_part(rows=30, failures=[3])))
    good = path.read_bytes()
    random = np.random.default_rng(7)
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    ends = {0, 1, 3, 4, footer - 1, footer, len(good) - 1, len(good) - 4, len(good) - 8}
    for key in (b"bertfeat", b"format_version"):  # without them a part looks like another's, or a newer one's
        ends |= {at + place for at in _places(good, key) for place in range(-12, len(key) + 4)}
    for at in sorted({*ends, *random.integers(0, len(good), 300).tolist(), *random.integers(footer, len(good), 100)}):
        bad = bytearray(good)
        bad[at] ^= 1 << random.integers(8)
        path.write_bytes(bad)
        with pytest.raises(DamagedError, match=path.name):
            check_part(path)
        if at >= footer:  # even without reading the pages
            with pytest.raises(DamagedError, match=path.name):
                read_header(path)
    path.write_bytes(good)
    check_part(path)


@pytest.mark.parametrize("size", [0, 3, 100, -1, -9, -2000])
def test_a_truncated_part_is_damaged(tmp_path: Path, size: int) -> None:
    path = _write(tmp_path, *_written(toy_part()))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DamagedError, match=r"part-00000\.parquet"):
        check_part(path)


def test_something_appended_is_damage(tmp_path: Path) -> None:
    path = _write(tmp_path, *_written(toy_part()))
    path.write_bytes(path.read_bytes() + b"PAR1")
    with pytest.raises(DamagedError, match=r"part-00000\.parquet"):
        check_part(path)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(FeatureSetError, match="not written by bertfeat"):
        read_header(path)
    path.write_text("not Parquet at all")
    with pytest.raises(DamagedError, match="no Parquet file"):
        check_part(path)
    with pytest.raises(FeatureSetError, match="cannot be read"):
        read_header(tmp_path / "part-00001.parquet")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    toy = toy_part()
    newer = dataclasses.replace(toy.header, format_version=2)
    path = _write(tmp_path, newer, toy.table)
    with pytest.raises(FeatureSetError, match=r"format 2 by a newer bertfeat.*upgrade"):
        read_header(path)
    # a newer format may seal its files in another way
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"bertfeat": '{"format_version": 9}'}), path)
    with pytest.raises(FeatureSetError, match="format 9 by a newer bertfeat"):
        check_part(path)


@pytest.mark.parametrize("version", [0, -1, "1", True])
def test_what_is_no_format_is_refused(tmp_path: Path, version: Any) -> None:
    toy = toy_part()
    path = _write(tmp_path, dataclasses.replace(toy.header, format_version=version), toy.table)
    with pytest.raises(DamagedError, match=f"the header cannot be read .format_version is {version!r}, .*extract the"):
        read_header(path)


def test_the_seal_of_many_row_groups_is_that_of_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.core.features.part.ROW_GROUP_BYTES", 64)
    path = _write(tmp_path, *_written(toy_part()))
    assert pq.read_metadata(path).num_row_groups > 2
    raw = path.read_bytes()
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    sealed = pq.read_metadata(path).metadata[SEAL_KEY]
    assert sealed[:32] == xxhash.xxh3_128_hexdigest(raw[:start]).encode()
    assert sealed[32:] == hashlib.sha256(raw[start:].replace(sealed[32:], b"0" * 64)).hexdigest().encode()


def test_the_pages_are_read_again_only_if_their_digest_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, again = seal_module._pages_digest, 0

    def counted(*given: Any) -> bytes:
        nonlocal again
        again += 1
        return digest(*given)

    monkeypatch.setattr(seal_module, "_pages_digest", counted)
    toy = toy_part()
    sealed = _write(tmp_path, *_written(toy)).read_bytes()
    assert again == 0
    write = part_module._write_pages
    monkeypatch.setattr(part_module, "_write_pages", lambda *given: (write(*given)[0] - 1, b"0" * 32))
    assert _write(tmp_path, *_written(toy)).read_bytes() == sealed
    assert again == 1


def test_a_part_under_another_ones_name_is_damage(tmp_path: Path) -> None:
    path = _write(tmp_path, *_written(toy_part())).rename(tmp_path / "part-00007.parquet")
    with pytest.raises(DamagedError, match="says it is part 0"):
        check_part(path)


def test_a_sealed_header_of_wrong_form_is_damage(tmp_path: Path) -> None:
    path = _write(tmp_path, *_written(toy_part()))
    path.write_bytes(path.read_bytes().replace(b'"sketch"', b'"sketsh"'))
    write_seal(path, (0, b""))
    with pytest.raises(DamagedError, match="header cannot be read"):
        check_part(path)


# ── what cannot be written ──────────────────────────────────────────────────────────────────────────────────


def test_rows_must_add_up(tmp_path: Path) -> None:
    toy = toy_part()
    with pytest.raises(DamagedError, match="should give 5 documents, but there are 6"):
        write_part(tmp_path, dataclasses.replace(toy.header, blank=1), toy.table)
    with pytest.raises(DamagedError):
        write_part(tmp_path, dataclasses.replace(toy.header, first_row=1, last_row=7), toy.table)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot write to .*gone.*No such file.*create it"):
        write_part(tmp_path / "gone", *_written(toy_part()))


_FULL = """
import resource, signal, sys
from pathlib import Path
from bertfeat.errors import StorageError
from bertfeat.core.features import write_part
from tests.support.features_toy import toy_part
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
toy = toy_part(rows=60)
try:
    write_part(Path(sys.argv[1]), toy.header, toy.table)
except StorageError as error:
    sys.exit(str(error))
"""


def test_a_full_disk_leaves_the_old_part(tmp_path: Path) -> None:
    path = _write(tmp_path, *_written(toy_part(rows=2)))
    run = subprocess.run(
        [sys.executable, "-c", _FULL, tmp_path], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert run.returncode == 1
    assert f"cannot write to {tmp_path}: File too large" in run.stderr
    assert "Traceback" not in run.stderr
    assert os.listdir(tmp_path) == [path.name]
    check_part(path)


def test_a_cell_of_two_gibibytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_module, "CELL_LIMIT", 100)
    with pytest.raises(FeatureSetError, match="concat4_token; cut it into several"):
        write_part(tmp_path, *_written(toy_part()))


@pytest.mark.parametrize("name", ["id", "text", "aligned", "concat4_mean"])
def test_a_kept_column_may_not_take_our_names(name: str) -> None:
    toy = toy_part()
    kept = {dataclasses.replace(KEPT[1], name=name): toy.content.ids}
    with pytest.raises(UsageError, match=f"'{name}' cannot be kept"):
        content_table(dataclasses.replace(toy.content, kept=kept), toy.header.columns)


def test_a_kept_value_of_another_type_is_refused() -> None:
    toy = toy_part()
    with pytest.raises(FeatureSetError, match="'year' holds a value that is no int64"):
        content_table(dataclasses.replace(toy.content, kept={KEPT[0]: list("abcdef")}), toy.header.columns)


# ── the header ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_header_survives_json() -> None:
    header = toy_part(failures=[2]).header
    assert decode_header(encode_header(header), "here") == header


def test_the_fingerprint_knows_settings_from_their_spelling() -> None:
    mappings: tuple[dict[str, Any], ...] = ({"prompt": "a", "long": "window"}, {"long": "window", "prompt": "a"})
    one, other = (FeatureSettings(**mapping) for mapping in mappings)
    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != FeatureSettings(prompt="b", long="window").fingerprint


def _written(toy: Toy) -> tuple[Any, Any]:
    return toy.header, toy.table


def _chunks(group: Any) -> list[Any]:
    return [group.column(at) for at in range(group.num_columns)]


def _places(data: bytes, wanted: bytes) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(wanted), data)]


def _write(folder: Path, header: Any, content: Any) -> Path:
    """Write a part, and give its path."""
    assert write_part(folder, header, content)
    return folder / f"part-{header.number:05d}.parquet"
