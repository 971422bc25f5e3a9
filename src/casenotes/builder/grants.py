"""Which credentials a host has given out in this conversation, each for one purpose, and what was skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from casenotes.config.json_names import EPISODIC, OBSERVATIONAL
from casenotes.config.settings import HOSTED_EMBEDDER, LOCAL

EMBEDDINGS = f"{EPISODIC}.credential"
STORAGE = "storage"
WORKERS = (
    f"{OBSERVATIONAL}.observerModel",
    f"{OBSERVATIONAL}.reflectorModel",
    f"{EPISODIC}.extractorModel",
    f"{EPISODIC}.reflectorModel",
)
PURPOSES = (EMBEDDINGS, *WORKERS, STORAGE)
"""A purpose is the field that a credential is asked for."""

EMBEDDING_PROVIDER = HOSTED_EMBEDDER.partition(":")[0]
DATABASE_PROVIDER = "postgresql"
ALIASES: Mapping[str, str] = {
    "googlepalm": "google",
    "googleai": "google",
    "googlegemini": "google",
    "gemini": "google",
    "google-gla": "google",
    "googlevertex": "google-cloud",
    "google-vertex": "google-cloud",
    "mistralcloud": "mistral",
    "azureopenai": "azure",
    "aws": "bedrock",
    "grok": "xai",
    "x-ai": "xai",
    "moonshot": "moonshotai",
    "vercelaigateway": "vercel",
    "togetherai": "together",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "postgres": "postgresql",
}
"""Providers by other names of theirs: in types of credentials and in names of models."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A credential that the host returned for a field: its provider, and its model if one was asked for."""

    credential: str
    purpose: str
    provider: str
    model: str | None = None


@dataclass(slots=True)
class Grants:
    """All answers of the host in one conversation."""

    given: list[Grant] = field(default_factory=list)
    skipped: set[str] = field(default_factory=set)

    def allow(self, purpose: str, value: Any) -> bool:
        """Whether the credential of a value was returned for that purpose, and for its model's provider."""
        model = value.get("model") if isinstance(value, Mapping) else None
        return any(
            grant.credential == credential_in(value) and grant.purpose == purpose and _fits(grant, model)
            for grant in self.given
        )

    def has_pair(self, purpose: str, value: Mapping[str, Any]) -> bool:
        """Whether the host returned this very model with this credential."""
        return any(
            (grant.purpose, grant.credential) == (purpose, value.get("credential"))
            and grant.model is not None
            and same_model(grant.model, str(value.get("model")))
            for grant in self.given
        )

    def add(self, grant: Grant) -> None:
        """The host has returned a credential."""
        self.given.append(grant)
        self.skipped.discard(grant.purpose)

    def skip(self, purpose: str) -> None:
        """The user does not want to give one; what was returned for it before counts no more."""
        self.given[:] = [grant for grant in self.given if grant.purpose != purpose]
        self.skipped.add(purpose)

    def clear(self) -> None:
        """Another conversation has begun."""
        self.given.clear()
        self.skipped.clear()

    def purposes_of(self, credential: Any) -> list[str]:
        """What a credential was returned for."""
        return [grant.purpose for grant in self.given if grant.credential == credential]


def credential_in(value: Any) -> Any:
    """The id of a value that is one, or has one beside a model or an address."""
    return value.get("credential") if isinstance(value, Mapping) else value


def _fits(grant: Grant, model: str | None) -> bool:
    if model is not None:
        named = grant.model is None or same_model(grant.model, model)
        return named and grant.provider == provider_of_model(model)
    if grant.purpose == STORAGE:
        return grant.provider == DATABASE_PROVIDER
    return grant.credential == LOCAL or grant.provider == EMBEDDING_PROVIDER


def provider_of_type(credential_type: str) -> str:
    """The provider that a credential of that type is for, such as `openAiApi`."""
    name = credential_type.lower().removesuffix("api")
    return ALIASES.get(name, name)


def provider_of_model(model: str) -> str:
    """The provider of `provider/name`."""
    name = model.replace("/", ":", 1).partition(":")[0].lower()
    return ALIASES.get(name, name)


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: a slash or a colon may stand behind the provider."""
    return one.replace("/", ":", 1) == other.replace("/", ":", 1)
