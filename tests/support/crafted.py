"""Ways to spoil a model's folder."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Change = Callable[[Path], object]
Tensors = dict[str, torch.Tensor]


def write(folder: Path, file: str, content: Any) -> None:
    """Write bytes or a string as they are, anything else as JSON."""
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))


def changed(folder: Path, file: str, change: Callable[[dict[str, Any]], object]) -> Path:
    """Change the JSON of a file in place."""
    content = json.loads((folder / file).read_text())
    change(content)
    write(folder, file, content)
    return folder


def put(file: str, content: Any) -> Change:
    return lambda folder: write(folder, file, content)


def grown(file: str, size: int) -> Change:
    """Lengthen a file by a hole, which takes no room on the disk."""
    return lambda folder: os.truncate(folder / file, size)


def config(**values: Any) -> Change:
    return lambda folder: changed(folder, "config.json", lambda found: found.update(values))


def config_text(key: str, text: str) -> Change:
    """Give a key of config.json a value that no JSON writer would write."""

    def change(folder: Path) -> None:
        changed(folder, "config.json", lambda found: found.update({key: "@@"}))
        write(folder, "config.json", (folder / "config.json").read_text().replace('"@@"', text))

    return change


def without(key: str) -> Change:
    return lambda folder: changed(folder, "config.json", lambda found: found.pop(key))


def tokenizer_config(**values: Any) -> Change:
    return lambda folder: changed(folder, "tokenizer_config.json", lambda found: found.update(values))


def tokenizer(**values: Any) -> Change:
    return lambda folder: changed(folder, "tokenizer.json", lambda found: found.update(values))


def vocabulary(values: Any) -> Change:
    return lambda folder: changed(folder, "tokenizer.json", lambda found: found["model"].update(vocab=values))


def tensors(change: Callable[[str, torch.Tensor], torch.Tensor | None]) -> Change:
    """Change the weights, tensor by tensor; None leaves one out."""

    def apply(folder: Path) -> None:
        file = folder / "model.safetensors"
        made = {name: change(name, tensor) for name, tensor in load_file(file).items()}
        save_file({n: t.contiguous() for n, t in made.items() if t is not None}, file, {"format": "pt"})

    return apply


def tensors_called(lead: str) -> Change:
    """Give every tensor a name that begins so."""

    def apply(folder: Path) -> None:
        file = folder / "model.safetensors"
        save_file({lead + name: tensor for name, tensor in load_file(file).items()}, file, {"format": "pt"})

    return apply


def header(change: Callable[[dict[str, Any]], object]) -> Change:
    """Change the header of the weights file; what follows stays as it is."""

    def apply(folder: Path) -> None:
        raw = (folder / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        content = json.loads(raw[8 : 8 + length])
        change(content)
        made = json.dumps(content).encode()
        write(folder, "model.safetensors", struct.pack("<Q", len(made)) + made + raw[8 + length :])

    return apply


def first_tensor(**values: Any) -> Change:
    def change(content: dict[str, Any]) -> None:
        content[next(name for name in content if name != "__metadata__")].update(values)

    return header(change)


def kept(amount: int) -> Change:
    return lambda folder: write(folder, "model.safetensors", (folder / "model.safetensors").read_bytes()[:amount])


def sharded(content: Callable[[list[str]], Any]) -> Change:
    """Move the weights into a shard, and write the index that names it."""

    def apply(folder: Path) -> None:
        shutil.move(folder / "model.safetensors", folder / "shard.safetensors")
        write(folder, "model.safetensors.index.json", content(sorted(load_file(folder / "shard.safetensors"))))

    return apply


def shard_named(file: Any) -> Change:
    return sharded(lambda names: {"weight_map": dict.fromkeys(names, file)})


def pooled(path: Any, settings: Any = None) -> Change:
    """Make it a sentence-transformers model whose pooling lies there."""

    def apply(folder: Path) -> None:
        write(folder, "modules.json", [{"path": "", "type": "x.Transformer"}, {"path": path, "type": "x.Pooling"}])
        if settings is not None:
            write(folder, f"{path}/config.json", settings)

    return apply


def pipe(file: str) -> Change:
    def apply(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        (folder / file).parent.mkdir(exist_ok=True)
        os.mkfifo(folder / file)

    return apply


def both(one: Change, other: Change) -> Change:
    return lambda folder: (one(folder), other(folder))


def device(file: str) -> Change:
    def apply(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        (folder / file).symlink_to("/dev/zero")

    return apply


def directory(file: str) -> Change:
    def apply(folder: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        (folder / file).mkdir()

    return apply


def added_token(content: str, number: int) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": number, "content": content, **flags}


def template(*before: str, cls: int = 2, segment: int = 0) -> dict[str, Any]:
    """A post-processor that sets these special tokens before a text."""
    text: list[dict[str, Any]] = [{"Sequence": {"id": "A", "type_id": segment}}]
    lead: list[dict[str, Any]] = [{"SpecialToken": {"id": name, "type_id": 0}} for name in before]
    pair = [*lead, *text, {"Sequence": {"id": "B", "type_id": segment}}]
    known = {"[CLS]": {"id": "[CLS]", "ids": [cls], "tokens": ["[CLS]"]}}
    return {"type": "TemplateProcessing", "single": lead + text, "pair": pair, "special_tokens": known}


DEEP = "[" * 100_000 + "]" * 100_000
NO_SEQUENCE: dict[str, Any] = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}
JSON_FILES = ("config.json", "modules.json", "config_sentence_transformers.json", "tokenizer_config.json")
NOT_JSON = {
    "cut": '{"a": [1, ',
    "null": "null",
    "number": "5",
    "deep": DEEP,
    "bytes": b"\xff\xfe\x00",
    "empty": "",
    "nan": '{"a": NaN}',
    "digits": '{"a": ' + "9" * 5000 + "}",
}
