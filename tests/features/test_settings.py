"""The settings of a feature set: their JSON form, and what makes features incomparable."""

import dataclasses
import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bertfeat.core.features import FORMAT_VERSION, FeatureSet, FeatureSettings
from bertfeat.core.features.part import PartHeader, decode_header, encode_header
from bertfeat.core.recipe import Pooling
from bertfeat.errors import DamagedError
from bertfeat.io import JsonError, canonical_json, decode_json, from_plain
from tests.support.features_toy import toy_part

GOLDEN = Path(__file__).parents[1] / "golden" / f"v{FORMAT_VERSION}"

# what a run writes, byte for byte, and its fingerprint
WRITTEN = (
    '{"batch_tokens":8192,"context":null,"document_context":false,"dtype":"float32","keep":["year:int64"],'
    '"layers":["concat4_mean=concat:3+4+5+6"],"long":"window","max_length":512,"model":"f0f0","numerics":2,'
    '"only":[],'
    '"part_rows":16384,"plan":1,"precision":"fp32","prompt":"","quantization":null,"special_tokens":true,'
    '"split":null,"subword":null,"text":true,"words":"spaces"}'
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


def test_the_json_form_stays_what_it_is() -> None:
    """Feature sets are resumed by its fingerprint."""
    assert json.dumps(SETTINGS.plain, sort_keys=True, separators=(",", ":")) == WRITTEN
    assert SETTINGS.fingerprint == hashlib.sha256(WRITTEN.encode()).hexdigest()
    assert decode_json(WRITTEN, FeatureSettings) == SETTINGS


def test_another_plan_is_a_difference_but_changes_no_vector() -> None:
    newer = dataclasses.replace(SETTINGS, plan=2)
    assert newer != SETTINGS
    assert newer.fingerprint != SETTINGS.fingerprint
    assert [str(each) for each in newer.differences(SETTINGS)] == ["plan 2 and 1"]
    assert newer.incomparable_with(SETTINGS) == SETTINGS.incomparable_with(newer) == []


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(JsonError, match=r"Expected 'bool', got 'int' - at '\$.special_tokens'"):
        decode_json('{"special_tokens": 1}', FeatureSettings)
    header = json.loads(encode_header(toy_part().header))
    header["settings"]["text"] = "yes"
    with pytest.raises(JsonError, match=r"Expected 'bool', got 'str' - at '\$.settings.text'"):
        decode_json(json.dumps(header), PartHeader)
    header["settings"] = []
    with pytest.raises(JsonError, match=r"got 'array' - at '\$.settings'"):
        decode_json(json.dumps(header), PartHeader)


def test_a_header_carries_them() -> None:
    header = toy_part(settings={"prompt": "query: "}).header
    assert json.loads(encode_header(header))["settings"] == header.settings.plain
    assert decode_header(encode_header(header), "here").settings == header.settings


@pytest.mark.parametrize("change", [{"later": 1}, {"prompt": "other"}])
def test_settings_that_are_not_those_of_the_fingerprint(change: dict[str, object]) -> None:
    """A key that this bertfeat does not know is left out, so another fingerprint is the only sign of it."""
    header = json.loads(encode_header(toy_part().header))
    header["settings"].update(change)
    if "later" in change:
        header["fingerprint"] = hashlib.sha256(canonical_json(header["settings"])).hexdigest()
    with pytest.raises(DamagedError, match=r"contradicts itself .the settings are not those of its fingerprint"):
        decode_header(json.dumps(header).encode(), "here")


def test_differences_are_named_with_both_values() -> None:
    other = dataclasses.replace(SETTINGS, long="truncate", keep=())
    found = SETTINGS.differences(other)
    assert [(each.name, each.ours, each.theirs) for each in found] == [
        ("long", "window", "truncate"),
        ("keep", ["year:int64"], []),
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
        ("special_tokens", False, {Pooling.MEAN, Pooling.MAX, Pooling.TOKEN, Pooling.SENTENCE}),
        ("subword", "mean", {Pooling.WORD}),
        ("precision", "bf16", set()),
        ("dtype", "float16", set()),
        ("numerics", 1, set()),
        ("batch_tokens", 64, set()),
        ("part_rows", 64, set()),
        ("plan", 2, set()),
        ("words", "korean kiwipiepy-0.24.1 kiwipiepy_model-0.24.0", set()),
        ("keep", ["year:string"], set()),
        ("text", False, set()),
    ],
)
def test_what_makes_features_incomparable(name: str, value: object, poolings: set[Pooling]) -> None:
    other = from_plain({**SETTINGS.plain, name: value}, FeatureSettings)
    for pooling in Pooling:
        names = [each.name for each in SETTINGS.incomparable_with(other, pooling)]
        assert names == ([name] if pooling in poolings else [])
    assert bool(SETTINGS.incomparable_with(other)) is bool(poolings)


def test_what_makes_features_incomparable_is_told() -> None:
    assert str(FeatureSettings(document_context=True).incomparable_with(FeatureSettings())[0]) == (
        "document_context on and off"
    )


def test_golden_headers_keep_their_bytes() -> None:
    paths = sorted((GOLDEN / "features").glob("part-*.parquet"))
    assert len(paths) == 3
    for path in paths:
        written = pq.read_metadata(path).metadata[b"bertfeat"]
        assert encode_header(decode_header(written, path)) == written


def test_golden_settings_are_read() -> None:
    features = FeatureSet(GOLDEN / "features")
    assert features.header.settings.layers == ("concat4,last",)
    assert features.header.settings.fingerprint == features.header.fingerprint
    assert features.manifest is not None
    assert features.manifest.settings == features.header.settings
