"""Registries: what is found by name, and what is refused."""

import pytest

from tests.installed import install
from unmissed.errors import InputError, UnmissedError
from unmissed.registry import Registry


def test_objects_of_this_package_come_first_and_installed_ones_last(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "unmissed.test_things", "far", "far_thing", "Own = 7\n")
    things = Registry("unmissed.test_things", "thing", {"pi": "math:pi"})
    things.register("near", 3)
    assert things.names() == ["pi", "near", "far"]
    assert list(things)[1:] == [3, 7]
    assert things.find("far") == 7


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"unknown thing 'pii'; known: pi, e; did you mean 'pi'\?"):
        Registry("unmissed.test_things", "thing", {"pi": "math:pi", "e": "math:e"}).find("pii")


def test_a_name_is_registered_once():
    things = Registry("unmissed.test_things", "thing", {"pi": "math:pi"})
    things.register("near", 3)
    things.register("near", 3)
    for name in ("near", "pi"):
        with pytest.raises(InputError, match=f"the thing '{name}' is already registered"):
            things.register(name, 4)


@pytest.mark.parametrize("path", ["no_such_module:x", "math:no_such_name"])
def test_what_cannot_be_imported_is_one_line(path):
    with pytest.raises(UnmissedError, match=f"the thing 'x' cannot be imported from {path}"):
        Registry("unmissed.test_things", "thing", {"x": path}).find("x")
