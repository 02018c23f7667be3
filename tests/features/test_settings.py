"""The settings of a feature set: their JSON form, old files, and what makes features incomparable."""

import dataclasses
import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bertfeat.features import FeatureSet, FeatureSettings
from bertfeat.features.header import PartHeader, decode_header, encode_header
from bertfeat.io import JsonError, decode_json, encode_json
from bertfeat.recipe import Pooling
from tests.support.features_toy import toy_part

# what a run of format 2 wrote, byte for byte, and its fingerprint
WRITTEN = (
    '{"batch_tokens":8192,"document_context":false,"dtype":"float32","keep":["year:int64"],'
    '"layers":["concat4_mean=concat:3+4+5+6"],"long":"window","max_length":512,"model":"f0f0","numerics":2,'
    '"part_rows":16384,"precision":"fp32","prompt":"","special_tokens":true,"subword":null,"text":true}'
)
SETTINGS = FeatureSettings(
    model="f0f0",
    layers=("concat4_mean=concat:3+4+5+6",),
    precision="fp32",
    max_length=512,
    prompt="",
    keep=("year:int64",),
    batch_tokens=8192,
    part_rows=16384,
    numerics=2,
)


def test_the_json_form_is_that_of_earlier_runs() -> None:
    assert json.dumps(SETTINGS.encode(), sort_keys=True, separators=(",", ":")) == WRITTEN
    assert SETTINGS.fingerprint == hashlib.sha256(WRITTEN.encode()).hexdigest()
    assert FeatureSettings.decode(json.loads(WRITTEN)) == SETTINGS


def test_the_plan_is_recorded_where_it_is_not_the_first() -> None:
    assert SETTINGS.plan is None
    newer = dataclasses.replace(SETTINGS, plan=2)
    assert newer.encode() == {**SETTINGS.encode(), "plan": 2}
    assert FeatureSettings.decode(newer.encode()) == newer != SETTINGS
    assert [str(each) for each in newer.differences(SETTINGS)] == ["plan 2 and none"]
    assert newer.incomparable_with(SETTINGS) == SETTINGS.incomparable_with(newer) == []
    null = FeatureSettings.decode({"model": "f0f0", "plan": None})
    assert null.encode() == {"model": "f0f0", "plan": None}


def test_missing_keys_have_defaults_and_unknown_ones_are_kept() -> None:
    mapping = {"later": [1, {"a": None}], "prompt": "query: ", "model": "f0f0"}
    settings = FeatureSettings.decode(mapping)
    assert settings.encode() == mapping
    assert (settings.prompt, settings.long, settings.special_tokens) == ("query: ", "window", True)
    assert settings != FeatureSettings.decode({name: mapping[name] for name in ("prompt", "model")})
    assert FeatureSettings.decode({}).encode() == {}


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(JsonError, match=r"Expected 'bool', got 'int' - at '\$.special_tokens'"):
        FeatureSettings.decode({"special_tokens": 1})
    header = json.loads(encode_header(toy_part().header))
    header["settings"]["text"] = "yes"
    with pytest.raises(JsonError, match="settings: Expected 'bool', got 'str'"):
        decode_json(json.dumps(header), PartHeader)
    header["settings"] = []
    with pytest.raises(JsonError, match=r"got 'array' - at '\$.settings'"):
        decode_json(json.dumps(header), PartHeader)


def test_headers_and_other_dataclasses_carry_them_in_their_json_form() -> None:
    header = toy_part(settings={"later": 1}).header
    assert json.loads(encode_json(header))["settings"] == header.settings.encode()
    assert decode_header(encode_header(header), "here").settings == header.settings


def test_differences_are_named_with_both_values() -> None:
    other = FeatureSettings.decode({**SETTINGS.encode(), "long": "truncate", "later": 1})
    found = SETTINGS.differences(other)
    assert [(each.name, each.ours, each.theirs) for each in found] == [
        ("long", "window", "truncate"),
        ("later", None, 1),
    ]
    assert SETTINGS.differences(SETTINGS) == []


@pytest.mark.parametrize(
    ("name", "value", "poolings"),
    [
        ("model", "0f0f", set(Pooling)),
        ("prompt", "query: ", set(Pooling)),
        ("document_context", True, set(Pooling)),
        ("long", "truncate", set(Pooling)),
        ("max_length", 64, set(Pooling)),
        ("special_tokens", False, {Pooling.MEAN, Pooling.MAX, Pooling.TOKEN}),
        ("subword", "mean", {Pooling.WORD}),
        ("precision", "bf16", set()),
        ("dtype", "float16", set()),
        ("numerics", 1, set()),
        ("batch_tokens", 64, set()),
        ("part_rows", 64, set()),
        ("plan", 2, set()),
        ("keep", ["year:string"], set()),
        ("text", False, set()),
    ],
)
def test_what_makes_features_incomparable(name: str, value: object, poolings: set[Pooling]) -> None:
    other = FeatureSettings.decode({**SETTINGS.encode(), name: value})
    for pooling in Pooling:
        names = [each.name for each in SETTINGS.incomparable_with(other, pooling)]
        assert names == ([name] if pooling in poolings else [])
    assert bool(SETTINGS.incomparable_with(other)) is bool(poolings)


def test_what_one_file_lacks_is_not_compared() -> None:
    old = FeatureSettings.decode({"model": "f0f0", "long": "truncate"})
    (difference,) = old.incomparable_with(SETTINGS)
    assert str(difference) == "long 'truncate' and 'window'"
    assert str(FeatureSettings(document_context=True).incomparable_with(FeatureSettings())[0]) == (
        "document_context on and off"
    )


@pytest.mark.parametrize("version", [1, 2])
def test_headers_of_older_versions_keep_their_bytes(version: int) -> None:
    for path in sorted((Path(__file__).parents[1] / "golden" / f"v{version}" / "features").glob("part-*.parquet")):
        written = pq.read_metadata(path).metadata[b"bertfeat"]
        assert encode_header(decode_header(written, path)) == written


@pytest.mark.parametrize("version", [1, 2])
def test_golden_settings_are_read(version: int) -> None:
    features = FeatureSet(Path(__file__).parents[1] / "golden" / f"v{version}" / "features")
    assert features.header.settings.layers == ("concat4,last",)
    assert features.header.settings.fingerprint == features.header.fingerprint
    assert features.manifest is not None
    assert features.manifest.settings == features.header.settings
