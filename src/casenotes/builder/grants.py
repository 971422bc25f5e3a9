"""Which credentials a host has given out in this conversation, each for one purpose, and what was skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from casenotes.config.json_form import EPISODIC, OBSERVATIONAL
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
PROVIDERS: Mapping[str, str] = {
    "openAiApi": "openai",
    "anthropicApi": "anthropic",
    "googlePalmApi": "google",
    "googleAiApi": "google",
    "mistralCloudApi": "mistral",
    "azureOpenAiApi": "azure",
    "deepSeekApi": "deepseek",
    "openRouterApi": "openrouter",
    "xAiApi": "xai",
    "postgres": "postgresql",
}
"""The provider of a type of credential, where its name does not tell."""


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

    def covers(self, purpose: str, value: Any) -> bool:
        """Whether the credential of a value was returned for that purpose, and for its model's provider."""
        model = value.get("model") if isinstance(value, Mapping) else None
        credential = value.get("credential") if isinstance(value, Mapping) else value
        return any(
            grant.credential == credential and grant.purpose == purpose and _fits(grant, model)
            for grant in self.given
        )

    def purposes_of(self, credential: Any) -> list[str]:
        """What a credential was returned for."""
        return [grant.purpose for grant in self.given if grant.credential == credential]


def _fits(grant: Grant, model: str | None) -> bool:
    if model is None:
        return grant.purpose == STORAGE or grant.credential == LOCAL or grant.provider == EMBEDDING_PROVIDER
    if grant.model is not None:
        return same_model(grant.model, model)
    return grant.provider == provider_of_model(model)


def provider_of_type(credential_type: str) -> str:
    """The provider that a credential of that type is for."""
    return PROVIDERS.get(credential_type) or credential_type.removesuffix("Api").lower()


def provider_of_model(model: str) -> str:
    """The provider of `provider/name`; variants such as `openai-chat` have the key of the same provider."""
    return model.replace("/", ":", 1).partition(":")[0].partition("-")[0].lower()


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: a slash or a colon may stand behind the provider."""
    return one.replace("/", ":", 1) == other.replace("/", ":", 1)
