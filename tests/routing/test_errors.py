"""The errors are what the tree in their module's docstring draws, and each one can be raised."""

import re
from collections.abc import Callable, Iterator
from string import Formatter

import pytest

from routing import errors
from routing.errors import AgentFailed, ConfigError, DeliveryFailed, StartError, StoreError, TrunklineError

Class = type[TrunklineError]

#: Errors that are made from something else than the facts of their message.
MADE: dict[Class, Callable[[], TrunklineError]] = {
    ConfigError: lambda: ConfigError(["[http] listen is missing.", "{braces} stay."]),
    AgentFailed: lambda: AgentFailed("{why}", detail="a secret"),
    DeliveryFailed: lambda: DeliveryFailed("{why}", retryable=True, retry_after=1.5, ambiguous=True),
}


def below(base: Class) -> Iterator[Class]:
    """The class and all below it, as they stand in the module."""
    yield base
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from below(child)


CLASSES = tuple(below(TrunklineError))
LEAVES = tuple(cls for cls in CLASSES if not cls.__subclasses__())


def depth(cls: Class) -> int:
    return cls.__mro__.index(TrunklineError)


def drawn() -> Iterator[tuple[int, str]]:
    """The tree in the docstring as (depth, name), from top to bottom."""
    for line in (errors.__doc__ or "").splitlines()[2:]:
        found = re.fullmatch(r"((?:[│ ]   )*(?:[├└]── )?)(\w+)( {2,}\S.*)?", line)
        assert found, line
        yield len(found[1]) // 4, found[2]


def facts(cls: Class) -> dict[str, object]:
    """A value for every field of the message; a number where it is formatted as one."""
    fields = Formatter().parse(cls.message)
    return {name: 1.5 if spec else "something" for _, name, spec, _ in fields if name}


def make(cls: Class) -> TrunklineError:
    return MADE[cls]() if cls in MADE else cls(**facts(cls))


def test_the_docstring_draws_exactly_the_classes_that_exist() -> None:
    assert list(drawn()) == [(depth(cls), cls.__name__) for cls in CLASSES]


def test_the_classes_are_all_errors_of_the_module() -> None:
    classes = {value for value in vars(errors).values() if isinstance(value, type)}
    assert {cls for cls in classes if issubclass(cls, Exception)} == set(CLASSES)


@pytest.mark.req("S001-08")
@pytest.mark.parametrize("cls", CLASSES)
def test_message_renders_with_its_own_facts(cls: Class) -> None:
    error = make(cls)
    assert str(error).strip()
    assert error.facts.keys() == facts(cls).keys()
    assert all(str(value) in str(error) for value in error.facts.values())


@pytest.mark.req("S001-08")
@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls not in MADE and facts(cls)])
def test_message_needs_its_facts(cls: Class) -> None:
    with pytest.raises((KeyError, TypeError)):
        cls()


@pytest.mark.req("S001-08")
def test_codes_are_distinct() -> None:
    own = [cls.code for cls in CLASSES if "code" in vars(cls)]
    assert len(own) == len(set(own))


def test_only_the_group_of_start_errors_has_no_code_of_its_own() -> None:
    assert [cls for cls in CLASSES if "code" not in vars(cls)] == [StartError]


@pytest.mark.req("S001-08")
@pytest.mark.parametrize("cls", CLASSES)
def test_code_is_a_plain_word(cls: Class) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", cls.code)


@pytest.mark.parametrize("cls", LEAVES)
def test_every_error_that_is_raised_says_something_of_its_own(cls: Class) -> None:
    assert {"code", "message"} <= vars(cls).keys()
    assert [other for other in LEAVES if other.message == cls.message] == [cls]


@pytest.mark.req("S001-08")
@pytest.mark.parametrize("cls", [*below(StoreError)])
def test_store_errors_are_caught_together(cls: Class) -> None:
    with pytest.raises(StoreError):
        raise make(cls)


@pytest.mark.parametrize("cls", [cls for cls in below(StartError) if cls is not StartError])
def test_an_error_at_start_has_an_exit_code_of_sysexits(cls: type[StartError]) -> None:
    assert "exit_code" in vars(cls)
    assert 64 <= cls.exit_code <= 78


def test_problems_of_the_configuration_are_lines() -> None:
    error = ConfigError(["[http] listen is missing.", "{braces} stay."])
    assert str(error) == "[http] listen is missing.\n{braces} stay."
    assert error.problems == ["[http] listen is missing.", "{braces} stay."]


def test_details_of_an_agent_are_not_shown() -> None:
    error = AgentFailed("the model is busy", detail="a secret")
    assert (error.why, error.detail) == ("the model is busy", "a secret")
    assert "a secret" not in str(error)


def test_a_failed_delivery_is_certain_unless_told_otherwise() -> None:
    error = DeliveryFailed("no network", retryable=False)
    assert (error.why, error.retryable, error.retry_after, error.ambiguous) == (
        "no network",
        False,
        None,
        False,
    )
