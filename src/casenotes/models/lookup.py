"""Names of models, and what looking one up in Pydantic AI can fail with, as errors that name the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from casenotes.credentials import Secret, hide
from casenotes.errors import CasenotesError, MissingExtra, SettingsError


def with_colon(name: str) -> str:
    """`provider/model` as `provider:model`; later slashes belong to the model."""
    return name if ":" in name else name.replace("/", ":", 1)


def provider_factory(key: Secret | None) -> Callable[[str], Any]:
    """How Pydantic AI makes the client of a provider: with that key, or with one from the environment."""
    from pydantic_ai.providers import infer_provider, infer_provider_class

    if key is None:
        return infer_provider

    def with_key(provider: str) -> Any:
        if provider.startswith("gateway/"):
            raise SettingsError(f"provider {provider!r} is a gateway, which takes its key from the environment")
        made = infer_provider_class(provider)
        try:
            return made(api_key=key.reveal())  # type: ignore[call-arg]
        except TypeError:
            raise SettingsError(f"provider {provider!r} is not asked with a single key; use another") from None

    return with_key


@contextmanager
def looking_up(what: str, name: str) -> Iterator[None]:
    """For a block that imports Pydantic AI and asks it for `provider:model`."""
    provider = name.partition(":")[0]
    if "//" in name or name.count("@") > 1:  # a mistyped address, perhaps with a password
        start = re.split("@|//", name, maxsplit=1)[0]
        raise SettingsError(f"{what} {start!r}… has no usable address; write openai:name@http://host:port/v1")
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pydantic_ai":
            raise _needs_more(what, name, provider, error) from None
        raise MissingExtra(
            f"{what} {name!r} needs Pydantic AI: pip install 'casenotes[models]' 'pydantic-ai-slim[{provider}]'"
        ) from None
    except ImportError as error:
        raise _needs_more(what, name, provider, error) from None
    except CasenotesError:
        raise
    except Exception as error:  # unknown provider, or no key: every client library has errors of its own
        reason = hide(str(error).partition(" To try Pydantic AI")[0])
        raise SettingsError(f"{what} {name!r} cannot be used: {reason}") from None


def _needs_more(what: str, name: str, provider: str, error: ImportError) -> MissingExtra:
    return MissingExtra(f"{what} {name!r} needs more: pip install 'pydantic-ai-slim[{provider}]' ({error})")
