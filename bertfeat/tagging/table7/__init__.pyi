from .estimate import Table7Estimate as Table7Estimate, estimate_table7 as estimate_table7
from .finetune import FineTuningReport as FineTuningReport, fine_tune_model as fine_tune_model
from .report import (
    RowResult as RowResult,
    Table7 as Table7,
    format_markdown as format_markdown,
    format_scores as format_scores,
    markdown_line as markdown_line,
)
from .rows import (
    FINE_TUNED_ROW as FINE_TUNED_ROW,
    FINE_TUNING as FINE_TUNING,
    PAPER_ROWS as PAPER_ROWS,
    TableRow as TableRow,
    parse_rows as parse_rows,
)
from .runs import TableRun as TableRun
from .training import Table7Report as Table7Report, train_table7 as train_table7
from .verification import Table7VerifyReport as Table7VerifyReport, verify_table7 as verify_table7
