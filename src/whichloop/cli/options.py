"""How a command gets its flags: from the fields of pydantic models, whose docstrings are the help texts.

A command is a function. `with_options` turns each of its parameters that is an `OptionGroup` into one flag per field of the group,
and its parameter `flags` into one flag per field of a configuration. Typer reads the result as it reads any function.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo, OptionInfo

from whichloop import cli
from whichloop.runs.built_in import field_docs
from whichloop.runs.config import FILE_ONLY, FLAGS, CompareConfig, IfAbsent, SettingError, flag_of

Texts = Annotated[list[str], Field(default=[])]
"""Values of a flag that may be repeated."""
PROGRAM = "--program"
METAVARS: Mapping[Any, str] = {str: "TEXT", list[str]: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}
"""Type → what the help shows in the place of a flag's value."""


# --- values that a shell completes ---


def _completing(names: Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    """Return what completes a name, which Typer calls with its beginning."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


COMPLETED: Mapping[str, Callable[[str], list[str]]] = {
    "--loop": _completing(lambda: cli.loop_names()),
    "--suite": _completing(lambda: cli.builtin_names("suite")),
    "--profile": _completing(lambda: cli.built_in_profiles()),
}
"""Flag → names that complete what was typed."""


# --- option groups ---


class OptionGroup(BaseModel):
    """Flags that belong together. A command that takes such a parameter gets a flag for each field, named like the field."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class JsonOption(OptionGroup):
    as_json: Annotated[bool, typer.Option("--json")] = False
    """Print one JSON object."""


class OutputOptions(JsonOption):
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False
    """Show no progress."""


class VerboseOption(OptionGroup):
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False
    """Print all tables and notes behind the answer."""


class ResultsOptions(OutputOptions, VerboseOption):
    """How a command prints the results of the run that it carries out."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False
    """Print the answer and warnings alone: no progress, and not where the run and its page are."""


class RunsOption(OptionGroup):
    runs: Annotated[Path | None, IfAbsent("runs")] = None
    """Folder that holds the run directories."""


class RunChoice(RunsOption):
    run: Annotated[Path, typer.Argument()]
    """Run directory, its name in the runs folder, or `latest`; `latest/test` is the test of an optimization."""

    @property
    def folder(self) -> Path:
        """The run's directory. Raises RunError if there is none."""
        return cli.run_folder(self.run, self.runs)


LATEST = Path("latest")
"""The run that a command reads where none is named."""


class ReadRunChoice(RunChoice):
    """The run of a command that changes nothing in it, so that the latest may be meant."""

    run: Annotated[Path, typer.Argument(), IfAbsent("latest")] = LATEST
    """Run directory, its name in the runs folder, or `latest`; `latest/test` is the test of an optimization."""


class AllowOption(OptionGroup):
    allow: Texts
    """Your own code that the run may use, package.module:Name or a program's command; repeat the option for more names."""


class RerunPermissions(AllowOption):
    """What a file with a run's settings, which may come from anywhere, does not decide: the user has to type it again."""

    base_url: str | None = None
    """Address of the server that the run asks; has to be typed again."""
    cassette: Path | None = None
    """Folder of the recording that the run uses; has to be typed again."""


class PermissionOptions(RerunPermissions):
    tracking_uri: str | None = None
    """Address of the MLflow tracking server or store of the run; has to be typed again."""

    def permissions(self, address: str | None) -> cli.Permissions:
        """Return what the run may do; `address`: the Ray cluster that was typed."""
        return cli.Permissions(self.allow, self.base_url, self.cassette, address, self.tracking_uri)


# --- flags of a configuration ---


class ProgramFlag(BaseModel):
    """The short way to name loops that are programs of the user's own."""

    programs: tuple[str, ...] = ()
    """Program of your own to run as a loop: a command line, `my.module:function` or `FILE.py:function`; repeat it for more."""


@dataclass(frozen=True, slots=True)
class ConfigFlags:
    """The flags that a configuration's fields give. Fields are named as in a file: `tasks`, `provider.prices`."""

    model: type[BaseModel] = CompareConfig
    only: Collection[str] = ()
    """Fields and sections that have a flag; if empty, all."""
    without: Collection[str] = FILE_ONLY
    """Fields and sections that have none."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Fields whose flags have other names in this command."""
    helps: Mapping[str, str] = field(default_factory=dict)
    """Help texts, default included, of fields that mean something more special in this command."""
    default: str = ""
    """What the help shows as the default of every flag, in place of the field's own."""

    def each(self) -> Iterator[ConfigFlag]:
        """Yield the flags in the order of the fields."""
        for path, info, doc in _places(self.model):
            place = ".".join(path)
            is_in = not self.only or place in self.only or path[0] in self.only
            if is_in and place not in self.without and path[0] not in self.without:
                text = self.helps.get(place) or help_text(info, doc, self.default)
                yield ConfigFlag(path, flag_of(path, {**FLAGS, **self.names}), info, text)
                if self.model is CompareConfig and path == ("loops",):
                    info = ProgramFlag.model_fields["programs"]
                    yield ConfigFlag(("programs",), PROGRAM, info, help_text(info, field_docs(ProgramFlag)["programs"]))


@dataclass(frozen=True, slots=True)
class ConfigFlag:
    """One flag, and the field that it sets."""

    path: tuple[str, ...]
    name: str
    field: FieldInfo
    help: str

    @property
    def parameter(self) -> Parameter:
        """The flag as a parameter that Typer understands; what is not typed is None."""
        kind = _plain_type(self.field.annotation)
        name = f"{self.name}/--no-{self.name[2:]}" if kind is bool and self.field.default else self.name
        names = COMPLETED.get(self.name)
        option = typer.Option(name, help=self.help, show_default=False, metavar=_metavar(kind), autocompletion=names)
        return Parameter("_".join(self.path), Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


def _places(model: type[BaseModel], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo, str]]:
    """Yield the path of each field, the field, and its docstring."""
    docs = field_docs(model)
    for name, info in model.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from _places(section, (*before, name))
        else:
            yield (*before, name), info, docs[name]


def _plain_type(annotation: Any) -> Any:
    """Return the type that Typer reads a value as; the configuration checks what is allowed, and says so in its own words."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _plain_type(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return _plain_type(next(kind for kind in typing.get_args(annotation) if kind is not types.NoneType))
    if origin is tuple:
        return list[str]
    return str if origin is typing.Literal else annotation


def _metavar(kind: Any) -> str | None:
    """Return what the help shows in the place of a flag's value: what may be typed, where it is one of a few words."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    return METAVARS.get(kind)


def help_text(info: FieldInfo, doc: str, default: str = "") -> str:
    """Return a field's docstring, followed by its default."""
    default_text = (
        default or next((each.text for each in info.metadata if isinstance(each, IfAbsent)), "") or _default_in_help(info.default)
    )
    return f"{doc}{f' [default: {default_text}]' if default_text else ''}"


def _default_in_help(default: Any) -> str:
    match default:
        case bool():
            return "yes" if default else ""
        case float():
            return f"{default:g}"
        case Enum():
            return str(default.value)
        case tuple():
            return ", ".join(default)
        case int() | str() | Path():
            return str(default)
    return ""


# --- commands ---


def with_options(*configs: ConfigFlags) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of its option groups and, in its parameter `flags`, those of the configurations.

    `flags` holds what was typed, in the shape that `load_config` takes: {"tasks": 5, "provider": {"attempts": 2}}.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        wanted = inspect.signature(command, eval_str=True).parameters
        groups = {name: each.annotation for name, each in wanted.items() if _is_group(each.annotation)}
        flags = {flag.parameter.name: flag for config in configs for flag in config.each()}
        parameters: list[Parameter] = []
        for name, each in wanted.items():
            if name in groups:
                parameters += _parameters(groups[name])
            elif name == "flags":
                parameters += [flag.parameter for flag in flags.values()]
            else:
                parameters.append(each.replace(kind=Parameter.KEYWORD_ONLY))

        @functools.wraps(command)
        def run(**typed: Any) -> None:
            groups_given: dict[str, Any] = {
                name: group(**{part: value for part in group.model_fields if (value := typed.pop(part)) is not None})
                for name, group in groups.items()
            }
            if "flags" in wanted:
                groups_given["flags"] = _with_programs(_nested((flag.path, typed.pop(name)) for name, flag in flags.items()))
            command(**typed, **groups_given)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _parameters(group: type[OptionGroup]) -> Iterator[Parameter]:
    """Yield a group's fields as parameters that Typer understands."""
    docs = field_docs(group)
    for name, info in group.model_fields.items():
        declared = next((each for each in info.metadata if isinstance(each, OptionInfo | ArgumentInfo)), None)
        is_switch = info.annotation is bool and not info.default  # Typer would add a flag --no-…
        if declared:
            option = copy(declared)
        elif is_switch:
            option = typer.Option(f"--{name.replace('_', '-')}")
        else:
            option = typer.Option()
        option.help, option.show_default = help_text(info, docs[name]), False
        is_argument = isinstance(option, ArgumentInfo)
        option.metavar = option.metavar or (name.upper() if is_argument else _metavar(_plain_type(info.annotation)))
        default = Parameter.empty if info.is_required() else info.get_default(call_default_factory=True)
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[info.annotation, option])


def _with_programs(flags: dict[str, Any]) -> dict[str, Any]:
    """Return what was typed with programs among the loops, behind those that are named as loops. Raises ValueError."""
    programs = flags.pop("programs", ())
    try:
        loops = tuple(map(cli.program_spec, programs))
    except ValueError as error:
        raise SettingError("loops", str(error), PROGRAM) from None
    return {**flags, "loops": (*flags.get("loops", ()), *loops)} if loops else flags


def _nested(values: Any) -> dict[str, Any]:
    """Return the values that were typed, those of a section in a dictionary of its own."""
    nested: dict[str, Any] = {}
    for path, value in values:
        if value is not None and value != []:
            *sections, name = path
            inner = functools.reduce(lambda outer, section: outer.setdefault(section, {}), sections, nested)
            inner[name] = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
    return nested
