"""The registry of executors, by the scheme of their address; it is light, because the help of commands lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from unmissed.errors import InputError, did_you_mean
from unmissed.registry import Registry

if TYPE_CHECKING:
    from unmissed.execution.work import Executor


class Option(NamedTuple):
    """An option of an executor on the command line: the kind of its value, and its help."""

    metavar: str
    help: str


class ListedExecutor(NamedTuple):
    """An executor of this package: its factory, the form of its address, and its options by name."""

    import_path: str
    address: str
    options: Mapping[str, Option] = {}


_DASK = "unmissed.execution.dask:open_dask"
_TLS = {
    "tls_ca_file": Option("FILE", "TLS: the CA's certificates, PEM."),
    "tls_cert": Option("FILE", "TLS: the certificate of this client, PEM."),
    "tls_key": Option("FILE", "TLS: the private key of this client, PEM."),
}
LISTED = {
    "threads": ListedExecutor("unmissed.execution.threads:open_threads", "threads:N"),
    "processes": ListedExecutor("unmissed.execution.processes:open_processes", "processes:N"),
    "local": ListedExecutor(
        _DASK,
        "local:N (Dask)",
        {"dashboard": Option("ADDRESS", "With local:N, serve Dask's dashboard at this address."), **_TLS},
    ),
    "tcp": ListedExecutor(_DASK, "tcp://HOST:PORT (Dask)", _TLS),
    "tls": ListedExecutor(_DASK, "tls://HOST:PORT (Dask)", _TLS),
}

EXECUTORS: Registry[Callable[..., Any]] = Registry(
    "unmissed.executors", "executor", {scheme: one.import_path for scheme, one in LISTED.items()}
)
"""Factories by scheme: `factory(address, **options)` returns an executor, which may be a context manager.

An installed package adds its own by an entry point in the group `unmissed.executors`.
"""

ADDRESSES = ", ".join(one.address for one in LISTED.values())
OPTIONS = {name: option for one in LISTED.values() for name, option in one.options.items()}


def open_executor(address: str, **options: str) -> AbstractContextManager[Executor]:
    """Return the executor of an address as a context manager, which closes it.

    Parameters
    ----------
    address : `scheme:...`; the scheme names the executor, such as "processes:4" or "tcp://host:8786"
    options : options that the executor declares, such as `tls_cert`
    """
    scheme = address.partition(":")[0]
    if scheme not in LISTED and scheme not in (known := EXECUTORS.names()):
        more = "".join(f", {name}:..." for name in known if name not in LISTED)
        raise InputError(f"unknown executor {address!r}; expected {ADDRESSES}{more}{did_you_mean(scheme, known)}")
    known_options = LISTED[scheme].options if scheme in LISTED else options
    for name in options:
        if name not in known_options:
            raise InputError(f"--{name.replace('_', '-')} is no option of {address}")
    made = EXECUTORS.find(scheme)(address, **options)
    return made if hasattr(made, "__exit__") else nullcontext(made)
