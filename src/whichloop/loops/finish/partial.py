"""Partial[T]: what is known of an answer while its JSON is still being written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import from_json

T = TypeVar("T", bound=BaseModel)

_STRING = re.compile(r'"(?:[^"\\]|\\.)*("|\\?\Z)', re.DOTALL)
"""A string, with what ends it: a quote, or the end of the text."""
_OF_NUMBERS = "0123456789.eE+-"
_NUMBER = re.compile(r"-?[0-9]|-\Z")
"""Where a number begins."""


def partial_json(text: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Read an object whose text may break off anywhere: with the string that is being written, and without it.

    A number counts only once it cannot go on. Return None if the text is not an object.
    """
    if all(end == '"' for end in _STRING.findall(text)):  # not inside of a string
        ending = _NUMBER.search(text, len(text.rstrip(_OF_NUMBERS)))
        text = text if ending is None else text[: ending.start()]
    try:
        so_far, complete = (from_json(text, allow_partial=mode, allow_inf_nan=False) for mode in ("trailing-strings", True))
    except ValueError:
        return None
    return (so_far, complete) if isinstance(so_far, dict) and isinstance(complete, dict) else None


class Partial(Generic[T]):
    """`Partial[T]` is T with every field Optional, at every depth; a field that has not come yet is None."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __class_getitem__(cls, model: Any) -> Any:
        """Return the class for a pydantic model. Raises TypeError for anything else."""
        if isinstance(model, TypeVar):
            return super().__class_getitem__(model)  # type: ignore[misc]  # Generic has it at run time
        return cls.of(model)

    @staticmethod
    def of(model: type[BaseModel]) -> type[PartialModel]:
        """Return the partial class of a model. Raises TypeError for anything but a pydantic model."""
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise TypeError(f"Partial[T]: T must be a pydantic model, got {model!r}")
        return _partial_of(model)

    @staticmethod
    def read(model: type[BaseModel], so_far: Mapping[str, Any], complete: Mapping[str, Any]) -> PartialModel:
        """Return what is known of a model, from an object with the string that is being written and the same without it."""
        return Partial.of(model)._read(so_far, complete)


class PartialModel(BaseModel):
    """Base of all `Partial[T]`. Only what fits the field's type is taken: nothing here raises for what is still missing."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    # Underscores: a user's field cannot have such a name.
    _adapters: ClassVar[Mapping[str, TypeAdapter[Any]]] = {}
    """Adapters by the argument's name, which is the field's alias if it has one."""
    _names: ClassVar[Mapping[str, str]] = {}
    """Argument → field."""

    @classmethod
    def _read(cls, so_far: Mapping[str, Any], complete: Mapping[str, Any]) -> PartialModel:
        values = {}
        for key, name in cls._names.items():
            for source in (so_far, complete):
                is_known, value = _fitting(cls._adapters[key], source[key], source is complete) if key in source else (False, None)
                if is_known:
                    values[name] = value
                    break
        return cls.model_construct(**values)


def _fitting(adapter: TypeAdapter[Any], value: Any, is_complete: bool) -> tuple[bool, Any]:
    """Return whether a value fits the field's type, and the value in that type.

    A value that may still grow must keep its form: half a date is not a date, half a text is a text.
    """
    try:
        typed = adapter.validate_python(value)
        fits = is_complete or adapter.dump_python(typed, by_alias=True, exclude_unset=True, warnings=False) == value
    except Exception:  # a type of the user's may raise anything
        return False, None
    return fits, typed if fits else None


@lru_cache(maxsize=256)
def _partial_of(model: type[BaseModel]) -> type[PartialModel]:
    return _partial_class(model, (model,))


def _partial_class(model: type[BaseModel], inside: tuple[type[BaseModel], ...]) -> type[PartialModel]:
    fields: dict[str, Any] = {}
    adapters: dict[str, TypeAdapter[Any]] = {}
    names: dict[str, str] = {}
    for name, field in model.model_fields.items():
        annotation = _optional_inside(field.annotation, inside)
        key = _argument_name(name, field.validation_alias)
        fields[name] = (annotation | None, Field(None, alias=key))
        adapters[key] = _adapter(annotation)
        names[key] = name
    partial_class = create_model(f"Partial[{model.__name__}]", __base__=PartialModel, **fields)
    partial_class._adapters, partial_class._names = adapters, names
    return partial_class


def _argument_name(name: str, alias: Any) -> str:
    """Return the name that the model's JSON schema has."""
    first = alias.choices[0] if isinstance(alias, AliasChoices) else alias
    return first if isinstance(first, str) else name


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # models and dataclasses bring a configuration of their own and take no other
        return TypeAdapter(annotation)


def _optional_inside(annotation: Any, inside: tuple[type[BaseModel], ...]) -> Any:
    """Return an annotation with the models in it made partial; a model that holds itself becomes a plain dict there."""
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        return dict[str, Any] if annotation in inside else _partial_class(annotation, (*inside, annotation))
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _optional_inside(arguments[0], inside)
    if origin in (Union, UnionType):
        return Union[tuple(_optional_inside(item, inside) for item in arguments)]  # noqa: UP007
    if origin in (list, tuple, dict, set, frozenset):
        return origin[tuple(_optional_inside(item, inside) for item in arguments)]
    return annotation
