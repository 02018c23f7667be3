"""``bertfeat verify``: is a feature set what it says?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .frame import Command, option
from .options import listed_option, reading_options, talk_options
from .talk import Talk, counted, plain, table

if TYPE_CHECKING:
    from bertfeat.corpus import CorpusSettings
    from bertfeat.extraction import VerifyReport

NOT_SOUND = 1


@click.command(cls=Command, name="verify")
@click.argument("folder", metavar="FEATURES", type=click.Path(path_type=Path))
@option(
    "--sample", default=100, type=click.IntRange(min=0), metavar="N", help="Documents computed again; default: 100."
)
@option("--bound", type=click.FloatRange(-1, 1), metavar="C", help="Least cosine; default: by the set's precision.")
@listed_option(
    "--corpus", metavar="FILE[,FILE]", help="Where the texts are, if not in the set; read as extract read them."
)
@option("--model", metavar="NAME|DIR", further=True, help="Where the set's model is now, if not where it was.")
@option("--device", metavar="DEVICE", further=True, help="cpu, cuda, cuda:1; default: a GPU if there is one.")
@reading_options
@talk_options
def command(
    folder: Path,
    sample: int,
    bound: float | None,
    corpus: tuple[str, ...],
    model: str | None,
    device: str | None,
    reading: "CorpusSettings",
    talk: Talk,
) -> None:
    """Check a feature set: every byte, the account of its rows, and a sample of its numbers.

    The sample is computed again in fp32 from the texts. The exit code is 1 where something does not hold.

    \b
    bertfeat verify corpus.features
    bertfeat verify corpus.features --sample 1000 --bound 0.999
    bertfeat verify textless.features --corpus corpus.txt
    """
    from bertfeat.corpus import open_corpus
    from bertfeat.extraction import verify_features

    texts = open_corpus(corpus, reading) if corpus else None
    report = verify_features(folder, corpus=texts, sample=sample, bound=bound, model=model, device=device)
    if sample and report.documents and not report.sampled:
        talk.warn("the set does not hold its texts, so no number was computed again; give them with --corpus")
    talk.result({"holds": report.holds, **plain(report)}, _lines(folder, report))
    if not report.holds and corpus:
        talk.warn(f"that is also what another corpus looks like: is {corpus[0]} the one the features were made from?")
    if not report.holds:
        raise click.exceptions.Exit(NOT_SOUND)


def _lines(folder: Path, report: "VerifyReport") -> list[str]:
    sound = f"{counted(report.parts, 'part')} and {counted(report.documents, 'document')}: checksums and account hold"
    lines = table([("feature set", folder), ("sound", sound), ("sample", counted(report.sampled, "document"))])
    if report.deviations:
        wide = max(len(deviation.column) for deviation in report.deviations)
        lines += [f"{'column':<{wide}}  least cosine  mean cosine  max abs  mean abs"]
    for found in report.deviations:
        cosines = f"{found.min_cosine:12.8f}  {found.mean_cosine:11.8f}"
        lines.append(f"{found.column:<{wide}}  {cosines}  {found.max_absolute:7.1e}  {found.mean_absolute:8.1e}")
    if not report.holds:
        lines.append(f"DOES NOT HOLD: a cosine is below {report.bound}")
    return lines
