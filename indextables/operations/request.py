"""The base class of requests. A request holds the options of one verb and validates them when it is created.

Each field is an option. The terminal, the jobs and Airflow derive their arguments, forms and checks from the fields; a test compares the
Python methods and the SQL clauses with them. The requests are in `verbs.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Flag, auto
from functools import cache
from typing import Any, ClassVar

from indextables import limits
from indextables.config import DURATION_PATTERN, SIZE_PATTERN, default_of, parse_duration, parse_size
from indextables.errors import InvalidArgument
from indextables.operations.executor import THREADS_ONLY, Workload


class Interface(Flag):
    PYTHON = auto()
    TERMINAL = auto()
    JOB = auto()
    SQL = auto()
    AIRFLOW = auto()


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of an option: how its values are parsed, checked and shown."""

    metavar: str  # placeholder in help texts
    check: Callable[[str, Any], object] = lambda name, value: None  # InvalidArgument names the option and the value
    from_text: Callable[[str], Any] = str  # parses a command-line argument
    choices: tuple[str, ...] | None = None
    form: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})  # JSON schema for Airflow's trigger form


def _check_size(name: str, value: Any) -> None:
    if parse_size(value) < limits.TARGET_SIZE_FLOOR:
        raise InvalidArgument(f"{name} {value!r} is below the minimum of {limits.TARGET_SIZE_FLOOR // limits.MIB}M")


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} {value!r} is neither true nor false")


def _check_names(name: str, value: Any) -> None:
    if isinstance(value, str):
        raise InvalidArgument(f"{name} {value!r} is not a list of column names")


def _check_not_empty(name: str, value: Any) -> None:
    if value == "":
        raise InvalidArgument(f"{name} is empty")


def integer(minimum: int, maximum: int | None = 2**31 - 1) -> ValueType:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise InvalidArgument(f"{name} {value!r} is not a whole number of at least {minimum}")
        if maximum is not None and value > maximum:
            raise InvalidArgument(f"{name} {value!r} is more than {maximum}")

    bounds = {"minimum": minimum} if maximum is None else {"minimum": minimum, "maximum": maximum}
    return ValueType("N", check, int, form={"type": "integer", **bounds})


def choice(*words: str) -> ValueType:
    def check(name: str, value: Any) -> None:
        if value not in words:
            raise InvalidArgument(f"{name} {value!r} is not one of {', '.join(words)}")

    return ValueType("WORD", check, choices=words, form={"type": "string", "enum": list(words)})


def split_names(text: str) -> list[str]:
    """Splits `a,b` into column names."""
    return [name.strip() for name in text.split(",") if name.strip()]


SIZE = ValueType("SIZE", _check_size, form={"type": "string", "pattern": SIZE_PATTERN})
DURATION = ValueType("DURATION", lambda _, value: parse_duration(value), form={"type": "string", "pattern": DURATION_PATTERN})
FLAG = ValueType("", _check_flag, form={"type": "boolean"})
# Predicates, queries and columns depend on the table's schema, so the verb checks them.
PREDICATE = ValueType("PREDICATE", form={"type": "string", "maxLength": limits.PREDICATE_CHARACTERS})
QUERY = ValueType("QUERY")
COLUMN = ValueType("COLUMN")
COLUMNS = ValueType("A,B", _check_names, from_text=split_names)
TEXT = ValueType("NAME", _check_not_empty)
PATH = ValueType("FILE", _check_not_empty, form={"type": "string", "maxLength": limits.PATH_CHARACTERS})
FOLDER = ValueType("FOLDER")


@dataclass(frozen=True, slots=True)
class Option:
    type: ValueType
    help: str
    only: Interface | None = None  # None: every interface that offers the verb
    required: bool = False  # on command lines
    is_positional: bool = False  # in the terminal
    repeats: bool = False  # on command lines: may be given several times
    names: Mapping[Interface, str] = field(default_factory=dict)  # interfaces that use another name
    name: str = ""  # of the field, the Python argument and the key in tables.yaml
    default: Any = None

    def name_in(self, interface: Interface) -> str:
        return self.names.get(interface, self.name)

    def flag(self, interface: Interface) -> str:
        """The command-line flag."""
        return "--" + self.name_in(interface).replace("_", "-")


def option(kind: ValueType, text: str, default: Any = None, *, default_from: str | None = None, **more: Any) -> Any:
    """A field of a request with its help text. `default_from` names the configuration key that applies if the option is not given."""
    if default_from is not None:
        text = f"{text} Default: {default_from} ({default_of(default_from)})."
    elif default not in (None, False):
        text = f"{text} Default: {default}."
    return field(default=default, metadata={"option": Option(kind, text, **more)})


@dataclass(frozen=True, slots=True)
class Request:
    """A valid request: sizes and durations parse, and numbers are in range. Checks that need the table are left to the verb.

    None means that an option is not given; the request then holds the option's default, if it has one.
    """

    interfaces: ClassVar[Interface] = Interface.PYTHON | Interface.TERMINAL
    workload: ClassVar[Workload] = THREADS_ONLY  # how the work is distributed, the same for every interface

    def __post_init__(self) -> None:
        for one in self.all_options():
            value = getattr(self, one.name)
            if value is None:
                object.__setattr__(self, one.name, one.default)
            else:
                one.type.check(one.name, value)

    @classmethod
    def verb_name(cls) -> str:
        """The name in reports and jobs, such as `merge_splits`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring, for help texts."""
        return (cls.__doc__ or "").split("\n", 1)[0].rstrip(".")

    @classmethod
    @cache
    def all_options(cls) -> tuple[Option, ...]:
        return tuple(replace(one.metadata["option"], name=one.name, default=one.default) for one in fields(cls))

    @classmethod
    def options(cls, interface: Interface) -> Sequence[Option]:
        """The options offered by an interface, in the order of the fields."""
        return [one for one in cls.all_options() if interface in (one.only or cls.interfaces)]

    @classmethod
    def option(cls, name: str) -> Option:
        return next(one for one in cls.all_options() if one.name == name)
