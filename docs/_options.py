"""Write docs/options.md, the reference of options, from the commands themselves: ``python docs/_options.py``."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from bertfeat.cli import main
from bertfeat.cli.app import ENVIRONMENT_PREFIX
from bertfeat.learning import HeadKind
from bertfeat.options import Setting, described_settings

PAGE = Path(__file__).with_name("options.md")
COMMON = ("--json", "--quiet")

HEAD = f"""\
# Options

<!-- Written by `python docs/_options.py`; tests/test_options_page.py compares it with the commands. -->

Every option of every command. An option of the shell `--batch-size N` is `batch_size=N` in Python, and
`{ENVIRONMENT_PREFIX}_<COMMAND>_BATCH_SIZE` in the environment, such as `{ENVIRONMENT_PREFIX}_TAG_TRAIN_BATCH_SIZE`; the
command line goes before the environment. Every command also has `--json`, which prints the result as JSON, an object a
line, `--quiet`, which leaves out progress and notes, and `--help`.

Options that several commands share, or that are the fields of a settings class in Python, stand in [groups](#groups).

"""


def options_page() -> str:
    """The page."""
    commands = dict(_leaves(main, ()))
    groups: dict[type, dict[str, click.Option]] = {}
    for command in commands.values():
        for option in _options(command):
            if owner := _owner(option):
                groups.setdefault(owner, {}).setdefault(option.setting[1], option)
    lines = [HEAD, "## Commands\n\n"]
    for title, alike in _families(commands).items():
        help_text = [*alike.values()][-1].help or ""
        lines.append(f"### bertfeat {title}\n\n{inspect.cleandoc(help_text).splitlines()[0]}\n\n")
        lines += _table(["option", "default", "meaning"], _own_cells(alike))
        for owner, options in groups.items():
            having = {field: [kind for kind in alike if _has(alike[kind], owner, field)] for field in options}
            if any(having.values()):
                lines.append(f"- [{owner.__name__}](#{owner.__name__.lower()}){_part_of(options, having, alike)}\n")
        lines.append("\n")
    lines.append("## Groups\n\n")
    for owner in groups:
        sentence = inspect.cleandoc(owner.__doc__ or "").partition("\n\n")[0].replace("\n", " ").replace("``", "`")
        lines.append(f"### {owner.__name__}\n\n{sentence}")
        lines.append(f" In Python: `{_import_name(owner)}`.\n\n" if _import_name(owner) else "\n\n")
        bases = [base for base in owner.__mro__[1:] if base in groups]
        inherited = {setting.name for base in bases for setting in described_settings(base)}
        own = [setting for setting in described_settings(owner) if setting.name not in inherited]
        known = {name: each for group in groups if issubclass(group, owner) for name, each in groups[group].items()}
        rows = ([*_setting_cells(setting, known.get(setting.name))] for setting in own)
        lines += _table(["option", "Python", "default", "meaning"], rows)
        lines += [f"And those of [{base.__name__}](#{base.__name__.lower()}).\n\n" for base in bases]
    return "".join(lines).rstrip() + "\n"


def _part_of(
    options: Mapping[str, click.Option], having: Mapping[str, Sequence[str]], alike: Mapping[str, click.Command]
) -> str:
    """The part of a group that commands have, in words: the options that they have, or lack, if these are fewer."""
    there = {field: kinds for field, kinds in having.items() if kinds}
    lacking = {field: [kind for kind in alike if kind not in kinds] for field, kinds in having.items()}
    lacking = {field: kinds for field, kinds in lacking.items() if kinds}
    if not lacking:
        return ""
    word, few = ("only", there) if len(there) < len(lacking) else ("without", lacking)
    return f", {word} " + ", ".join(f"`{_spelling(options[field])}`{_of(kinds, alike)}" for field, kinds in few.items())


def _leaves(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _leaves(command, (*path, name))
        elif command is not None:
            yield " ".join((*path, name)), command


def _families(commands: Mapping[str, click.Command]) -> Mapping[str, Mapping[str, click.Command]]:
    """The commands by title; the same verb of several kinds of heads, which differ little, has one: by kind, then."""
    kinds = [kind.value for kind in HeadKind]
    families: dict[str, dict[str, click.Command]] = {}
    for name, command in commands.items():
        kind, _, verb = name.partition(" ")
        families.setdefault(f"{'|'.join(kinds)} {verb}" if kind in kinds else name, {})[kind] = command
    return families


def _own_cells(alike: Mapping[str, click.Command]) -> Iterator[list[str]]:
    """The options of commands that are in no group, each once; where only some commands have it, with their names."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for kind, command in alike.items():
        for option in _options(command):
            if _owner(option) is None:
                rows.setdefault(tuple(_cells(option)), []).append(kind)
    for (spelled, default, meaning), having in rows.items():
        yield [f"{spelled}{_of(having, alike)}", default, meaning]


def _of(kinds: Sequence[str], alike: Mapping[str, click.Command]) -> str:
    """The names of some commands, in parentheses; nothing for all of them."""
    return f" ({', '.join(kinds)})" if len(kinds) < len(alike) else ""


def _has(command: click.Command, owner: type, field: str) -> bool:
    return any(getattr(option, "setting", None) == (owner, field) for option in _options(command))


def _options(command: click.Command) -> list[click.Option]:
    options = [each for each in command.params if isinstance(each, click.Option)]
    return [option for option in options if _spelling(option) not in COMMON]


def _owner(option: click.Option) -> type | None:
    setting: tuple[type, str] | None = getattr(option, "setting", None)
    return setting[0] if setting else None


def _spelling(option: click.Option) -> str:
    return max(option.opts, key=len)


def _import_name(owner: type) -> str:
    """The name by which a settings class is imported; "" of groups that are arguments of a function in Python."""
    import bertfeat

    if not hasattr(owner.__init__, "__wrapped__"):  # by @checked, which stands on all that users make
        return ""
    room = "" if owner.__name__ in bertfeat.__all__ else f".{owner.__module__.split('.')[1]}"
    return f"bertfeat{room}.{owner.__name__}"


def _cells(option: click.Option) -> Iterator[str]:
    """The option with its value, its default, and what it means."""
    context = click.Context(click.Command("x"))
    extra = option.get_help_extra(context)
    names = ", ".join([*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    yield f"`{names}{value}`"
    yield "required" if "required" in extra else str(extra.get("default", ""))
    bounds = f" ({extra['range']})" if "range" in extra else ""
    help_text = (option.help or "").removesuffix(".")
    yield f"{help_text}{bounds}."


def _setting_cells(setting: Setting, option: click.Option | None) -> Iterator[str]:
    described = setting.option
    if option is not None:
        spelled, default, meaning = _cells(option)
        default = described.default or default
    else:
        bounds = described.describe_bounds(for_help=True)
        spelled, default = "Python only", described.default or str(setting.default)
        meaning = described.help.removesuffix(".") + (f" ({bounds})." if bounds else ".")
    yield from (spelled, f"`{setting.name}`", default, meaning)


def _table(heads: Sequence[str], rows: Iterator[list[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    if not cells:
        return []
    lines = [heads, ["---"] * len(heads), *cells]
    return [*(f"| {' | '.join(line)} |\n" for line in lines), "\n"]


if __name__ == "__main__":
    PAGE.write_text(options_page(), "utf-8")
