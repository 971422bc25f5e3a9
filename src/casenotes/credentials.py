"""Secrets that cannot slip out, and where they are looked up by the id that a configuration names.

A `Secret` shows nothing of itself: not when printed, formatted, logged or pickled, nor in an error or a
traceback. Only `reveal` gives it, to the client library that sends it. As such libraries repeat keys in their
errors, `hide` takes every secret that is in use out of a text.
"""

from __future__ import annotations

import hmac
import inspect
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Never, Protocol, runtime_checkable
from urllib.parse import quote, quote_plus
from weakref import WeakValueDictionary

from casenotes.errors import MissingExtra, SettingsError

HIDDEN = "[secret]"
SHORTEST_HIDDEN = 4
"""A shorter secret would be found in every other word; it is hidden from where it stands alone."""

KEYRING_SERVICE = "casenotes"
ENVIRONMENT_PREFIX = "CASENOTES_CREDENTIAL_"
OTHERS = stat.S_IRWXG | stat.S_IRWXO
LONGEST_ID = 200
_in_use: WeakValueDictionary[int, Secret] = WeakValueDictionary()


class Secret:
    """A key or password. `reveal` is the only way to it."""

    __slots__ = ("__get", "__weakref__")

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or not value.strip():
            kind = "blank" if isinstance(value, str) else f"of type {type(value).__name__}"
            raise SettingsError(f"a secret must be a text, but it is {kind}; look at where it is kept")
        kept = value.strip()
        # who looks through the attributes of objects finds a function
        self.__get: Callable[[], str] = lambda: kept
        _in_use[id(self)] = self

    def reveal(self) -> str:
        """The secret itself; for the call that sends it and nothing else."""
        return self.__get()

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        mine, theirs = (text.encode("utf-8", "surrogatepass") for text in (self.reveal(), other.reveal()))
        return hmac.compare_digest(mine, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self.reveal()))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __getstate__(self) -> Never:
        self.__reduce_ex__(0)

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a secret cannot be pickled; pass the id of its credential on instead")


def hide(text: str) -> str:
    """The text without the secrets that are in use, in whatever way they are written into addresses."""
    for value in sorted(_values_in_use(), key=len, reverse=True):
        for written in _spellings(value):
            text = _without(text, written)
    return text


def _is_in_use(text: str) -> bool:
    return text in _values_in_use()


def _values_in_use() -> set[str]:
    """Taken at one stroke, as threads and garbage collection change what is in use at any time."""
    return {secret.reveal() for found in _in_use.valuerefs() if (secret := found()) is not None}


def _spellings(value: str) -> set[str]:
    """A secret as it is, and as it is written in addresses and in quoted texts."""
    addresses = {quote(value, safe="", errors="replace"), quote_plus(value, errors="replace")}
    return {value, *addresses, json.dumps(value)[1:-1], repr(value)[1:-1]}


def _without(text: str, value: str) -> str:
    if len(value) >= SHORTEST_HIDDEN:
        return text.replace(value, HIDDEN)
    return re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", HIDDEN, text)


@runtime_checkable
class CredentialResolver(Protocol):
    """Finds the secret of a credential. The host of a configuration provides one; it may be async."""

    def resolve(self, credential_id: str) -> Any:
        """The secret, or an awaitable of it; None if the id is not known."""
        ...


Credentials = CredentialResolver | Mapping[str, Any] | Callable[[str], Any]
"""What may be passed as `credentials`."""


class MappingCredentials:
    """Secrets by id, from a mapping."""

    def __init__(self, secrets: Mapping[str, str | Secret]) -> None:
        self._secrets = dict(secrets)
        for name, value in self._secrets.items():
            if not isinstance(value, (str, Secret)):
                as_secret(value, f"credential {shown_id(name)}")  # raises

    def resolve(self, credential_id: str) -> Secret | None:
        """The secret of that id."""
        found = self._secrets.get(credential_id)
        return None if found is None else as_secret(found, f"credential {shown_id(credential_id)}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._secrets)} credentials)"


class CallableCredentials:
    """Secrets from a function of the id, which may be async."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        self._find = find

    def resolve(self, credential_id: str) -> Any:
        """What the function gives for that id."""
        return self._find(credential_id)


class FileCredentials(MappingCredentials):
    """Secrets from a file that nobody else may read: TOML lines `id = "secret"`, or a JSON object."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(_secrets_in_file(Path(path)))


class KeyringCredentials:
    """Secrets from the keyring of the operating system, stored there under a service name and the id."""

    def __init__(self, service: str = KEYRING_SERVICE) -> None:
        try:
            import keyring
        except ImportError:
            raise MissingExtra(
                "the keyring needs an extra; install it with: pip install 'casenotes[keyring]'"
            ) from None
        self._keyring = keyring
        self._service = service

    def resolve(self, credential_id: str) -> Secret | None:
        """The secret of that id."""
        try:
            found = self._keyring.get_password(self._service, credential_id)
        except self._keyring.errors.KeyringError as error:
            raise SettingsError(
                f"the keyring cannot be read ({type(error).__name__}); unlock it, or install a backend for it"
            ) from None
        return Secret(found) if found else None


class EnvironmentCredentials:
    """Secrets from variables: `openai-main` is `CASENOTES_CREDENTIAL_OPENAI_MAIN`. Not for JSON."""

    def __init__(self, prefix: str = ENVIRONMENT_PREFIX, variables: Mapping[str, str] = os.environ) -> None:
        self._prefix = prefix
        self._variables = variables

    def resolve(self, credential_id: str) -> Secret | None:
        """The secret of that id."""
        name = self._prefix + re.sub(r"\W", "_", credential_id).upper()
        value = self._variables.get(name, "")
        return Secret(value) if value.strip() else None

    def __repr__(self) -> str:
        return f"EnvironmentCredentials({self._prefix!r})"


def as_secret(value: object, whose: str) -> Secret:
    """What a resolver gave, as a secret."""
    try:
        return value if isinstance(value, Secret) else Secret(value)  # type: ignore[arg-type]
    except SettingsError as error:
        raise SettingsError(f"{whose}: {error}") from None


def as_resolver(given: object) -> CredentialResolver | None:
    """What was passed as `credentials`: a resolver, a mapping of secrets by id, or a function of the id."""
    if given is None or isinstance(given, CredentialResolver):
        return given
    if isinstance(given, Mapping):
        return MappingCredentials(given)
    if callable(given) and not isinstance(given, type):
        return CallableCredentials(given)
    raise SettingsError(
        f"credentials is a {type(given).__name__}; pass a mapping of ids to secrets, a function, or an object "
        "with `resolve(credential_id)` such as casenotes.credentials.FileCredentials"
    )


async def secret_of(credential_id: str, field: str, resolver: CredentialResolver | None) -> Secret:
    """The secret of an id that a setting names; raises with the setting's name if there is none."""
    if resolver is None:
        raise SettingsError(
            f"{field} is {shown_id(credential_id)}, but there are no credentials; pass credentials=, such as "
            "casenotes.credentials.FileCredentials(path)"
        )
    found, failed = None, ""
    try:
        found = resolver.resolve(credential_id)
        found = await found if inspect.isawaitable(found) else found
    except SettingsError:
        raise
    except LookupError:
        found = None
    except Exception as error:  # a resolver of the host's may fail with anything, and may tell anything
        failed = type(error).__name__
    if failed:  # raised here, so that no error of ours leads to theirs
        raise SettingsError(
            f"{field} is {shown_id(credential_id)}, and looking it up failed ({failed}); mend the resolver "
            "that was passed as credentials="
        )
    if found is None:
        raise SettingsError(
            f"{field} is {shown_id(credential_id)}, which is not among the credentials; add it there, or name "
            "another one"
        )
    return as_secret(found, f"{field} is {shown_id(credential_id)}")


def looks_like_a_secret(credential_id: str) -> bool:
    """Whether somebody has put the key itself where its id belongs."""
    from casenotes.masking import mask  # its patterns take a while, and ids are rare

    return len(credential_id) > LONGEST_ID or mask(credential_id) != credential_id or _is_in_use(credential_id)


def shown_id(credential_id: str) -> str:
    """The id of a credential as errors name it."""
    return HIDDEN if looks_like_a_secret(credential_id) else repr(credential_id)


def _secrets_in_file(path: Path) -> dict[str, str]:
    """What the file says; the permissions that count are those of the file that was opened."""
    where = repr(str(path))
    try:
        with path.open("rb") as file:
            _check_private(os.fstat(file.fileno()), where)
            data = file.read()
    except OSError as error:
        raise SettingsError(f"the credentials file {where} cannot be read: {error.strerror}") from None
    values = _parsed(path, data)
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise SettingsError(f'the credentials file {where} must hold texts by id, such as openai-main = "…"')
    return values


def _check_private(facts: os.stat_result, where: str) -> None:
    if os.name == "posix" and stat.S_IMODE(facts.st_mode) & OTHERS:
        raise SettingsError(
            f"the credentials file {where} has mode {stat.S_IMODE(facts.st_mode):04o}, so others may read it; "
            "run chmod 600 on it"
        )


def _parsed(path: Path, data: bytes) -> Any:
    import tomllib

    try:
        return json.loads(data) if path.suffix == ".json" else tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # its text may quote the file
        line = getattr(error, "lineno", None)
        at = f" (line {line})" if line else ""
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise SettingsError(f"the credentials file {str(path)!r} is no {kind}{at}; mend it") from None
