"""The secrets that settings name by id: looked up once, and only for what is switched on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from casenotes.config import Effective, Settings, WorkerModel
from casenotes.config.effective import CALL
from casenotes.config.json_names import json_path
from casenotes.config.settings import HOSTED_EMBEDDER, LOCAL
from casenotes.credentials import CredentialResolver, EnvironmentCredentials, Secret, as_resolver, secret_of
from casenotes.errors import SettingsError, UsageError
from casenotes.models.embed import Embedder
from casenotes.models.lookup import with_colon
from casenotes.models.registry import BUILT_IN, built_in_of_label, embedder_of_label
from casenotes.models.workers import Workers


@dataclass(frozen=True, slots=True)
class Keys:
    """What counts, with the secrets that it names."""

    chosen: Effective
    secrets: Mapping[str, Secret]

    @property
    def database_url(self) -> str:
        """The database, with its password if that has a credential."""
        storage = self.chosen.settings.storage
        if storage.credential is None or self.chosen.origins.get("database_url") == CALL:
            return self.chosen.database_url
        parts = urlsplit(self.chosen.database_url)
        password = quote(self.secrets[storage.credential].reveal(), safe="")
        user, _, host = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{password}@{host}"))

    @property
    def embedder(self) -> str | Embedder:
        """That of the call, else of the episodic credential, else of the environment."""
        chosen, credential = self.chosen, _embedding_credential(self.chosen)
        if _is_of_call(chosen):
            given: str | Embedder = chosen.embedder
            return given
        if credential is not None:
            return _hosted(self.secrets[credential])
        needs_no_key = chosen.embedder == LOCAL or chosen.embedder in BUILT_IN
        is_local = chosen.from_json or chosen.settings.episodic.credential == LOCAL
        return LOCAL if is_local and not needs_no_key else str(chosen.embedder)

    def named_embedder(self, name: str) -> str | Embedder:
        """An embedder by name, with the key that it may have here."""
        if not self.chosen.from_json or name == LOCAL or name in BUILT_IN:
            return name
        credential = _embedding_credential(self.chosen)
        if credential is None or with_colon(name) != HOSTED_EMBEDDER:
            raise SettingsError(
                f"embedder is {name!r} and config is JSON, which takes no keys from the environment; set "
                "memory.episodicMemory.credential, or pass an object as embedder"
            )
        return _hosted(self.secrets[credential])

    def check_models(self, workers: Workers) -> None:
        """Look up every model that settings name, so that a wrong one is told with its field."""
        for path, model in _models(self.chosen.settings):
            try:
                workers.model(model) if model is not None else None
            except UsageError as error:
                place = json_path(path) if self.chosen.from_json else path
                raise type(error)(f"{place}: {error}") from None

    def embedder_of_label(self, label: str) -> Embedder | None:
        """The embedder of a space that another process has switched to."""
        credential = _embedding_credential(self.chosen)
        if credential is not None and label == HOSTED_EMBEDDER:
            return _hosted(self.secrets[credential])
        return built_in_of_label(label) if self.chosen.from_json else embedder_of_label(label)


async def look_up(chosen: Effective, credentials: Any) -> Keys:
    """The secrets of all credentials that are needed; raises with the name of the setting if one is missing."""
    resolver = as_resolver(credentials)
    _check_path(chosen, resolver)
    secrets: dict[str, Secret] = {}
    for path, credential in _needed(chosen):
        name = json_path(path) if chosen.from_json else path
        secrets[credential] = secrets.get(credential) or await secret_of(credential, name, resolver)
    return Keys(chosen, secrets)


async def missing(chosen: Effective, resolver: CredentialResolver) -> list[tuple[str, str]]:
    """The fields of JSON whose credential cannot be found, each with why."""
    found = []
    for path, credential in _needed(chosen):
        try:
            await secret_of(credential, "", resolver)
        except SettingsError as error:
            found.append((json_path(path), str(error).strip()))
    return found


def _check_path(chosen: Effective, resolver: CredentialResolver | None) -> None:
    """No key of the environment serves settings from JSON."""
    if not chosen.from_json:
        return
    if isinstance(resolver, EnvironmentCredentials):
        raise SettingsError(
            "credentials is EnvironmentCredentials and config is JSON, which takes no keys from the "
            "environment; use FileCredentials, KeyringCredentials or a mapping"
        )
    if _is_of_call(chosen) and isinstance(chosen.embedder, str):
        Keys(chosen, {}).named_embedder(chosen.embedder)


def _needed(chosen: Effective) -> Iterator[tuple[str, str]]:
    """The settings that name a credential, and its id."""
    settings = chosen.settings
    if not settings.enabled:
        return
    if settings.storage.credential is not None and chosen.origins.get("database_url") != CALL:
        yield "storage.credential", settings.storage.credential
    embedding = _embedding_credential(chosen)
    if embedding is not None:
        yield "episodic.credential", embedding
    for path, model in (("model", chosen.model), *_models(settings)):
        if isinstance(model, WorkerModel) and model.credential is not None:
            yield f"{path}.credential", model.credential


def _models(settings: Settings) -> Iterator[tuple[str, Any]]:
    """The models of all parts that are switched on."""
    if settings.observational.enabled:
        yield "observational.observer_model", settings.observational.observer_model
        yield "observational.reflector_model", settings.observational.reflector_model
    if settings.episodic.enabled:
        yield "episodic.extractor_model", settings.episodic.extractor_model
        yield "episodic.reflector_model", settings.episodic.reflector_model
    if settings.profile.enabled and settings.profile.learn:
        yield "profile.model", settings.profile.model
    if settings.episodes.enabled and settings.episodes.summariser in ("auto", "model"):
        yield "episodes.model", settings.episodes.model


def _embedding_credential(chosen: Effective) -> str | None:
    """The credential that embeddings need a key of."""
    episodic = chosen.settings.episodic
    is_used = episodic.enabled and episodic.credential != LOCAL and not _is_of_call(chosen)
    return episodic.credential if is_used else None


def _is_of_call(chosen: Effective) -> bool:
    return chosen.origins.get("embedder_model") == CALL


def _hosted(key: Secret) -> Embedder:
    from casenotes.models.provider import ProviderEmbedder

    return ProviderEmbedder(HOSTED_EMBEDDER, key)
