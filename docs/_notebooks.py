"""Run the notebooks of examples/notebooks/ and save them with what they show: ``make notebooks``.

Messages and progress bars are left out.
"""

import shutil
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
shutil.rmtree(FOLDER / "build", ignore_errors=True)  # what an earlier run made
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}

for path in sorted(FOLDER.glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    nbformat.write(notebook, path)
    print(path.name, f"{path.stat().st_size:,} bytes")
