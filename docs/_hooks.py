"""What ``make docs`` adds to docs/: the pages of the repository's other folders, and pages of the public names."""

import ast
import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent

# Pages that stand outside docs/, and their place in the site.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/architectures.md": "architectures.md",
    "examples/README.md": "examples.md",
}

# A page of the public names for each of these, and its title.
PUBLIC = {
    "bertfeat": "bertfeat: features of texts and corpora",
    "bertfeat.core.corpus": "bertfeat.core.corpus: what is read",
    "bertfeat.core.features": "bertfeat.core.features: feature sets",
    "bertfeat.search": "bertfeat.search: indexes",
    "bertfeat.usages": "bertfeat.usages: a word in its contexts",
    "bertfeat.where": "bertfeat.where: conditions on columns",
    "bertfeat.learning": "bertfeat.learning: tags, labels, numbers, answers, and Table 7",
    "bertfeat.study": "bertfeat.study: what each layer knows, and what layers say of each other",
    "bertfeat.plots": "bertfeat.plots: pictures",
    "bertfeat.adapters": "bertfeat.adapters: other libraries",
    "bertfeat.errors": "bertfeat.errors: what can go wrong",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    for module, title in PUBLIC.items():
        page = f"api/{module.rpartition('.')[2]}.md"
        files.append(File.generated(config, page, content=f"# {title}\n\n{api_page(module)}"))
    return files


def api_page(module: str) -> str:
    """Write the page of a module: its docstring, and each public name."""
    if module == "bertfeat.adapters":
        modules = sorted(path.stem for path in (ROOT / "bertfeat" / "adapters").glob("[a-z]*.py"))
        names = [name for part in modules for name in public_names(f"{module}.{part}")]
    else:
        names = public_names(module)
    head = f"::: {module}\n    options:\n      members: false\n      show_root_heading: false\n"
    return head + "".join(f"\n::: {name}\n" for name in names)


def public_names(module: str) -> list[str]:
    """List what a module exports or, where it exports nothing by name, the classes and functions that it defines.

    Functions are only among them where ``@checked`` stands on them: the others are for bertfeat's own rooms.
    """
    base = ROOT.joinpath(*module.split("."))
    candidates = (base / "__init__.pyi", base / "__init__.py", base.with_suffix(".py"))
    tree = ast.parse(next(path for path in candidates if path.is_file()).read_text("utf-8"))
    names = [alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = list(ast.literal_eval(node.value))
    if not any(names):
        names = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    own = {
        node.name
        for path in (base.rglob("*.py") if base.is_dir() else [base.with_suffix(".py")])
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and "checked" not in map(ast.unparse, node.decorator_list)
    }
    public = [name for name in names if name and name not in own and not name.startswith("_") and not name.isupper()]
    return [f"{module}.{name}" for name in public]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links as GitHub reads them into links within the site; a link to a file that is no page becomes text."""
    here = page.file.src_uri
    source = next((outside for outside, place in OUTSIDE.items() if place == here), f"docs/{here}")

    def link(match: re.Match[str]) -> str:
        bang, text, target, fragment = match.groups()
        path = normpath(join(dirname(source), target)) if target else source
        place = OUTSIDE.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not place:
            return text
        return f"{bang}[{text}]({relpath(place, dirname(here) or '.') if target else ''}{fragment or ''})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?![a-z]+:)([^)#\s]*)(#[^)\s]*)?\)", link, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show the roles of docstrings, ``:class:`~a.b.C```, as plain code."""
    return re.sub(r":(?:attr|class|data|exc|func|meth|mod):(<code>)~?", r"\1", html)
