"""Proteins: residues and their means as transformers' ESM gives them, for a tiny random one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertfeat.core.corpus import Document, open_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet

RESIDUES = "L A G V S E R T I D P K Q N F Y M H W C X B U Z O . -"
VOCABULARY = f"<cls> <pad> <eos> <unk> {RESIDUES} <null_1> <mask>".split()
PROTEINS = ["MVLSPADKTNVKAAWGKVGAHAGEYGAEALERMFLS", "M", "MX-UZO.BJ", "ACDEFGHIKLMNPQRSTVWY" * 5]
POSITIONS = 66  # two of them before the first token


@pytest.fixture(scope="module")
def esm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a tiny ESM-2: rotary positions, embeddings scaled for tokens that were masked in training."""
    from transformers import EsmConfig, EsmModel, EsmTokenizer

    folder = tmp_path_factory.mktemp("esm")
    torch.manual_seed(0)
    config = EsmConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        position_embedding_type="rotary",
        token_dropout=True,
        mask_token_id=VOCABULARY.index("<mask>"),
        pad_token_id=VOCABULARY.index("<pad>"),
    )
    EsmModel(config, add_pooling_layer=False).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    EsmTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def by_transformers(folder: Path, protein: str) -> Any:
    """Every layer of a protein with <cls> and <eos>. Shape: ``[L+1, T, H]``."""
    from transformers import EsmModel, EsmTokenizer

    model = EsmModel.from_pretrained(folder, add_pooling_layer=False).eval()
    with torch.no_grad():
        inputs = EsmTokenizer.from_pretrained(folder)(protein, return_tensors="pt")
        return torch.stack(model(**inputs, output_hidden_states=True).hidden_states)[:, 0].numpy()


def test_residues_and_means_are_those_of_transformers(esm: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.fasta"
    short = PROTEINS[:3]
    file.write_text("".join(f">p{at}\n{protein[:20]}\n{protein[20:]}\n" for at, protein in enumerate(short)))
    extractor = Extractor(
        esm, layers="all", pooling="mean,word,token", precision="fp32", dtype="float32", special_tokens=False
    )
    extractor.extract(file, tmp_path / "a.features")
    names = ["embeddings", "layer1", "layer2", "layer3"]
    for protein, found in zip(short, FeatureSet(tmp_path / "a.features"), strict=True):
        assert found.words is not None
        assert "".join(found.words.strings or ()) == protein
        for name, wanted in zip(names, by_transformers(esm, protein)[:, 1:-1], strict=True):
            for pooling in ("word", "token"):
                np.testing.assert_allclose(found.matrix(f"{name}_{pooling}"), wanted, atol=3e-5)
            np.testing.assert_allclose(found.vector(f"{name}_mean"), wanted.mean(0), atol=3e-5)


def test_a_long_protein_is_read_in_windows(esm: Path) -> None:
    extractor = Extractor(esm, pooling="word", precision="fp32", dtype="float32")
    assert extractor.model.max_tokens == POSITIONS - 2
    (found,) = extractor.features([Document(0, "a", " ".join(PROTEINS[3]), words=tuple(PROTEINS[3]))])
    room = POSITIONS - 4  # between <cls> and <eos>
    first = by_transformers(esm, PROTEINS[3][:room])[-1][1:-1]
    last = by_transformers(esm, PROTEINS[3][-room:])[-1][1:-1]
    boundary = (len(PROTEINS[3]) + 1) // 2
    matrix = found.matrix("last_word")
    np.testing.assert_allclose(matrix[:boundary], first[:boundary], atol=3e-5)
    np.testing.assert_allclose(matrix[boundary:], last[boundary - len(PROTEINS[3]) :], atol=3e-5)


def test_the_fast_tokenizer_gives_the_ids_of_the_slow_one(esm: Path) -> None:
    from transformers import EsmTokenizer

    slow, fast = EsmTokenizer.from_pretrained(esm), Extractor(esm).tokenizer
    for protein in [*PROTEINS[:2], PROTEINS[3], "MV LS", "M<mask>V", "<cls>M", "<null_1>"]:
        (pieces,) = fast.pieces([protein], offsets=True)
        assert pieces.ids.tolist() == slow(protein, add_special_tokens=False)["input_ids"]
    assert (fast.single.ids, fast.pair.ids) == ((0, 2), (0, 2, 2))
    assert fast.unknown_id == VOCABULARY.index("<unk>")


def test_neighbors_of_a_protein_change_little(esm: Path, tmp_path: Path) -> None:
    (tmp_path / "a.fa").write_text("".join(f">p{at}\n{protein}\n" for at, protein in enumerate(PROTEINS * 4)))
    rows = [row for row in open_corpus(tmp_path / "a.fa").rows() if isinstance(row, Document)]
    extractor = Extractor(esm, pooling="mean", precision="fp32")
    for alone, together in zip(PROTEINS, extractor.features(rows), strict=False):
        (single,) = extractor.features([Document(0, "a", " ".join(alone), words=tuple(alone))])
        np.testing.assert_allclose(single.vector(), together.vector(), atol=3e-6)


def test_nucleotides_among_proteins_are_told(esm: Path, tmp_path: Path) -> None:
    (tmp_path / "a.fasta").write_text(f">p\n{PROTEINS[0]}\n>gene\n{'ACGT' * 5}\n>peptide\nACGT\n")
    report = Extractor(esm).extract(tmp_path / "a.fasta", tmp_path / "a.features")
    (warning,) = report.warnings
    assert warning.startswith("1 of 3 sequences, the first of them 'gene', have only the letters of nucleotides")


def test_parts_of_one_row_hold_the_proteins_and_failures_of_one_part(esm: Path, tmp_path: Path) -> None:
    extractor = Extractor(esm, precision="fp32", dtype="float32")
    text = "; a comment\n>p1\nMV\n\nLS\n>empty\n>p2 d\r\nM V*\n;c\nK**\n>bad\nM1\n>p1\nKK\n>gaps\n---\n>p3\nMVLS"
    (tmp_path / "a.fasta").write_text(text, newline="")
    one = extractor.extract(tmp_path / "a.fasta", tmp_path / "one.features")
    many = extractor.extract(tmp_path / "a.fasta", tmp_path / "many.features", part_rows=1)
    assert [one.failed, many.failed] == [3, 3]
    sets = [FeatureSet(tmp_path / f"{name}.features") for name in ("one", "many")]
    assert [[row.id for row in each] for each in sets] == [["p1", "p2", "p1", "p3"]] * 2
    for whole, part in zip(*sets, strict=True):
        np.testing.assert_allclose(whole.vector(), part.vector(), atol=3e-5)
