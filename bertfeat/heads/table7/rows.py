"""The rows of Table 7: those of the paper, and others."""

from collections.abc import Iterable
from dataclasses import dataclass

from bertfeat.training import parse_input

FINE_TUNING = "fine-tuning"
PAPER_SOURCE = "Devlin et al. 2019, Table 7: BERT base (cased), development set of CoNLL-2003, mean of 5 runs"


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the table: a way to make features of layers, or fine-tuning."""

    name: str  # as on the command line: a layer specification, or "fine-tuning"
    title: str
    paper: float | None = None  # F1 in the paper, 0 to 100

    @property
    def folder(self) -> str:
        """The name of the folder that its runs are kept in."""
        return self.name.replace("=", "_").replace("..", "to").replace("+", "_")


PAPER_ROWS = (
    TableRow("embeddings", "Embeddings", 91.0),
    TableRow("second-to-last", "Second-to-Last Hidden", 95.6),
    TableRow("last", "Last Hidden", 94.9),
    TableRow("mix4", "Weighted Sum Last Four Hidden", 95.9),
    TableRow("concat4", "Concat Last Four Hidden", 96.1),
    TableRow("mix-all", "Weighted Sum All Layers", 95.5),
)
FINE_TUNED_ROW = TableRow(FINE_TUNING, "Fine-tuned", 96.4)
"""The paper's row of BERT base; BERT large came to 96.6."""


def parse_rows(rows: Iterable[str | TableRow], num_layers: int) -> tuple[TableRow, ...]:
    """The rows that are meant: ``paper`` for the paper's six, ``all`` for every single layer, or specifications.

    Raises:
        RecipeError: a name that is neither.
    """
    known = {row.name: row for row in PAPER_ROWS}
    parsed: dict[str, TableRow] = {}
    for name in rows:
        if isinstance(name, TableRow):
            parsed[name.name] = name
            continue
        if name == "paper":
            parsed |= known
        elif name == "all":
            parsed |= {str(layer): TableRow(str(layer), f"Layer {layer}") for layer in range(num_layers + 1)}
        else:
            parse_input(name, num_layers)
            parsed[name] = known.get(name) or TableRow(name, name)
    return tuple(parsed.values())
