"""How storage is connected: the options of `open`, of `open_async` and of the file system."""

from __future__ import annotations

from foreread import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Options = dict[str, Any]

#: Each option and the other names it has, which are s3fs's.
NAMES = {
    "endpoint": ("endpoint_url",),
    "region": ("region_name",),
    "profile": (),
    "anonymous": ("anon",),
    "key": ("username",),
    "secret": ("password",),
    "token": (),
    "share": (),
}

#: What s3fs's `client_kwargs` may have.
CLIENT = {
    "endpoint_url": "endpoint",
    "region_name": "region",
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
}

_MEANING = {alias: name for name, aliases in NAMES.items() for alias in (name, *aliases)}


def parse(options: Options, besides: tuple[str, ...] = ()) -> Options:
    """The options in their own names, without those that are None.

    `memory` sets the budget of the process, as `foreread.configure` does. `share` is whether other
    processes of this user read through the same engine; they do unless it is False.

    Raises `TypeError` for an unknown option, naming the known ones (and `besides`, which the
    caller has taken itself), and for one that is given twice.
    """
    parsed: Options = {}
    for name, value in options.items():
        if name == "memory":
            if value is not None:
                _native.set_memory(_native.size(value))
        elif name == "client_kwargs":
            for inner, setting in (value or {}).items():
                if inner not in CLIENT:
                    raise TypeError(
                        f"unknown option {inner!r} in client_kwargs; known are {', '.join(CLIENT)}"
                    )
                _put(parsed, CLIENT[inner], setting)
        elif name in _MEANING:
            _put(parsed, _MEANING[name], value)
        else:
            known = [*_MEANING, "client_kwargs", "memory", *besides]
            raise TypeError(f"unknown option {name!r}; known are {', '.join(known)}")
    for name, default in (("anonymous", False), ("share", True)):
        if parsed.get(name) is default:
            del parsed[name]
    return parsed


def _put(parsed: Options, name: str, value: object) -> None:
    if value is None:
        return
    if name in parsed and parsed[name] != value:
        raise TypeError(f"the option {name!r} is given twice, as {parsed[name]!r} and {value!r}")
    parsed[name] = value


def of_s3fs(parsed: Options) -> Options:
    """The same options as s3fs takes them."""
    client = {"endpoint_url": parsed.get("endpoint"), "region_name": parsed.get("region")}
    client = {name: value for name, value in client.items() if value is not None}
    plain = ("profile", "key", "secret", "token")
    options = {name: parsed[name] for name in plain if name in parsed}
    if parsed.get("anonymous"):
        options["anon"] = True
    if client:
        options["client_kwargs"] = client
    return options
