"""Are our concat4 word features Flair's? Flair runs in a virtual environment of its own, which --flair-python names.

    python3 -m venv flair && flair/bin/pip install torch==2.13.0
    flair/bin/pip install flair 'transformers<5' safetensors
    python benchmarks/exact_flair.py --data SENTENCES.txt --flair-python flair/bin/python

Prints the largest absolute difference over the first 200 sentences; the bound is 1e-4.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from _machine import machine

FLAIR = """
import json, sys
import numpy as np, flair, torch
from flair.data import Sentence
from flair.embeddings import TransformerWordEmbeddings
flair.device = torch.device("cpu")
folder, source, target = sys.argv[1:]
embeddings = TransformerWordEmbeddings(
    folder, layers="-1,-2,-3,-4", layer_mean=False, subtoken_pooling="first", fine_tune=False)
vectors = []
for words in json.load(open(source)):
    sentence = Sentence(words)
    embeddings.embed(sentence)
    vectors.append(torch.stack([token.embedding for token in sentence]).cpu().numpy())
np.save(target, np.concatenate(vectors))
print(flair.__version__)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a text file, a sentence a line")
    parser.add_argument("--flair-python", required=True, help="python of the environment that has Flair")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "exact_flair.json")
    arguments = parser.parse_args()
    result = compare(arguments.data, arguments.flair_python, arguments.sentences)
    print(json.dumps(result, indent=1))
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(0 if result["max_absolute_difference"] <= result["bound"] else 1)


def compare(data: Path, flair_python: str, number: int) -> dict[str, object]:
    from bertfeat import CorpusSettings, Extractor
    from bertfeat.core.models import find_model
    from bertfeat.core.words import split_words

    lines = [line.strip() for line in data.read_text("utf-8").splitlines() if line.strip()]
    lines = [line for line in lines if len(line.split()) >= 4][:number]
    words = []
    for line in lines:
        spans = split_words(line)
        words.append([line[s:e] for s, e in zip(spans.start.tolist(), spans.end.tolist(), strict=True)])
    extractor = Extractor(layers="concat4", pooling="word", precision="fp32", dtype="float32")
    ours = extractor.features(words, corpus_settings=CorpusSettings(pretokenized=True))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "words.json", Path(folder) / "flair.npy"
        source.write_text(json.dumps(words))
        command = [flair_python, "-c", FLAIR, str(find_model().folder), str(source), str(target)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        theirs = np.load(target)
    matrix = np.concatenate([document.matrix("concat4_word") for document in ours])
    hidden = matrix.shape[1] // 4
    descending = np.concatenate([matrix[:, at * hidden : (at + 1) * hidden] for at in (3, 2, 1, 0)], axis=1)
    return {
        "question": "the largest difference between our concat4 word features and Flair's",
        "sentences": len(words),
        "words": len(matrix),
        "max_absolute_difference": float(np.abs(descending - theirs).max()),
        "bound": 1e-4,
        "machine": machine(),
        "flair": done.stdout.split()[-1],
    }


if __name__ == "__main__":
    main()
