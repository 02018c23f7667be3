from .estimate import HeadTableEstimate as HeadTableEstimate, estimate_head_table7 as estimate_head_table7
from .report import HeadRow as HeadRow, HeadTable as HeadTable, format_head_table as format_head_table
from .rows import TableRow as TableRow, parse_rows as parse_rows
from .runs import HeadRun as HeadRun
from .training import HeadTableReport as HeadTableReport, train_head_table7 as train_head_table7
from .verification import Table7VerifyReport as Table7VerifyReport, verify_head_table7 as verify_head_table7
