"""docs/options.md says what the commands say."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_is_what_the_commands_say() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "_options.py"))["options_page"]()
    assert (ROOT / "docs" / "options.md").read_text("utf-8") == page, "python docs/_options.py writes it"
