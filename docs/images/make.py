"""Make the pictures of README.md with the tool itself, from examples/: python docs/images/make.py.

map.svg and layers.svg are ``bertfeat plot``'s, precision.svg is ``bertfeat compare``'s; usages.svg is what
``bertfeat usages`` prints on a terminal.
"""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).resolve().parent
CORPUS = IMAGES.parent.parent / "examples" / "corpus.txt"
COLUMNS = 96

# Lines of corpus.txt that are of one topic, counted from 1.
TOPICS = {
    "rivers": (24, 36),
    "money": (51, 61),
    "cooking": (126, 139),
    "stars": (140, 151),
    "medicine": (163, 173),
    "law": (174, 184),
    "programming": (185, 197),
}


def bertfeat(folder: Path, *arguments: str) -> str:
    """Run a command in a folder, on a terminal; give what it prints there."""
    environment = os.environ | {"COLUMNS": str(COLUMNS), "HF_HUB_OFFLINE": "1", "TERM": "xterm-256color"}
    command = [str(Path(sys.executable).parent / "bertfeat"), *arguments]
    terminal, stdout = pty.openpty()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.DEVNULL) as process:
        os.close(stdout)
        printed = b""
        try:
            while block := os.read(terminal, 65536):
                printed += block
        except OSError:  # the terminal is closed: the command has ended
            pass
        os.close(terminal)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
    return printed.decode().replace("\r\n", "\n")


def screen(command: str, printed: str) -> str:
    """Draw a command and what it printed as SVG, without the font that rich would fetch."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}"))
    console.print(Text.from_ansi(printed), end="")
    form = re.sub(r"\s*@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code", "ui-monospace, Menlo, DejaVu Sans Mono")
    return console.export_svg(title="", code_format=form, unique_id="usages")


def write_topics(path: Path) -> None:
    """Write the lines of one topic each as JSONL, with the topic."""
    lines = CORPUS.read_text("utf-8").splitlines()
    records = [
        {"text": text, "topic": topic} for topic, (first, last) in TOPICS.items() for text in lines[first - 1 : last]
    ]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


def main() -> None:
    """Extract examples/ in a temporary folder, and draw."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus.txt").write_bytes(CORPUS.read_bytes())
        bertfeat(folder, "extract", "corpus.txt", "--layers", "concat4", "--pooling", "word")
        like = ("usages", "corpus.features", "bank", "--like", "He sat on the bank of the river.", "-k", "9")
        command = " ".join(f'"{word}"' if " " in word else word for word in ("bertfeat", *like))
        (IMAGES / "usages.svg").write_text(screen(command, bertfeat(folder, *like)), "utf-8")

        for precision in ("fp32", "bf16"):
            way = ("-o", f"{precision}.features", "--layers", "all", "--pooling", "mean", "--precision", precision)
            bertfeat(folder, "extract", "corpus.txt", *way)
        bertfeat(folder, "compare", "fp32.features", "bf16.features", "--plot", str(IMAGES / "precision.svg"))

        write_topics(folder / "topics.jsonl")
        bertfeat(folder, "extract", "topics.jsonl", "--keep", "topic", "--layers", "all", "--pooling", "mean")
        drawn = ("--column", "last_mean", "--color", "topic", "--width", "6.5", "--height", "4")
        bertfeat(folder, "plot", "map", "topics.features", *drawn, "-o", str(IMAGES / "map.svg"))
        probes = bertfeat(folder, "probe", "topics.features", "--label", "topic", "--json")
        (folder / "topics.json").write_text(probes, "utf-8")
        size = ("--width", "6.5", "--height", "3.5")
        bertfeat(folder, "plot", "layers", "topics.json", *size, "-o", str(IMAGES / "layers.svg"))


if __name__ == "__main__":
    main()
