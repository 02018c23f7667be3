"""The command as a user starts it: with folders alone, and an index of words."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from bertfeat import Extractor, build_index
from tests.support.runs import lines, text_file
from tests.support.tiny_models import Tiny

RUN = [sys.executable, "-c", "from bertfeat.cli import run; run()"]


@pytest.mark.slow
def test_an_index_of_words_is_served_without_further_options(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", lines(12))
    Extractor(tiny("bert").folder, pooling="word", precision="fp32").extract(corpus, tmp_path / "c.features")
    build_index(tmp_path / "c.features", tmp_path / "c.index")
    command = [*RUN, "serve", str(tmp_path / "c.index"), str(tmp_path / "c.features"), "--port", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            told = process.stderr.readline()
            found = re.search(r"http://\S+", told)
            assert found is not None, told + process.stderr.read()
            body = json.dumps({"query": "river", "k": 3}).encode()
            headers = {"Content-Type": "application/json"}
            while True:
                try:
                    with urllib.request.urlopen(f"{found[0]}health", timeout=30):
                        break
                except urllib.error.HTTPError as error:  # not warm yet
                    error.close()
                    if error.code != 503:
                        raise
            with urllib.request.urlopen(
                urllib.request.Request(f"{found[0]}search", body, headers), timeout=30
            ) as answer:
                assert len(json.load(answer)["hits"]) == 3
        finally:
            process.terminate()
            process.stderr.read()
            process.wait()


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    without = "import sys; sys.modules['fastapi'] = None; from bertfeat.cli import run; run()"
    done = subprocess.run([sys.executable, "-c", without, "serve"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "error: serving needs fastapi; pip install 'bertfeat[serve]'\n"
