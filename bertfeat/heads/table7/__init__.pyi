from .estimate import HeadTableEstimate as HeadTableEstimate, estimate_head_table7 as estimate_head_table7
from .report import HeadRow as HeadRow, HeadTable as HeadTable, format_head_table as format_head_table
from .runs import HeadRun as HeadRun, is_head_table as is_head_table
from .training import HeadTableReport as HeadTableReport, train_head_table7 as train_head_table7
from .verification import verify_head_table7 as verify_head_table7
