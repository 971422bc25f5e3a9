"""Embedders of providers by `provider:model`, through Pydantic AI; imported when one is asked for.

That library speaks to the providers. What is added here: requests of a size every provider takes,
retries of what may pass, texts cut where the model's window ends, and errors that name the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from casenotes.credentials import Secret
from casenotes.errors import EmbeddingError
from casenotes.models.lookup import looking_up, provider_factory, with_colon
from casenotes.models.retry import Failure, Patience, persist

MAX_TEXTS = 96
MAX_CHARACTERS = 150_000
CHARACTERS_A_TOKEN = 3
ATTEMPTS = 3
"""The providers' own clients repeat a request too, mostly twice."""

REQUEST_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 20.0
SHORTEST_CUT = 500
"""A text that a provider refuses is halved, but not below this many characters."""


class ProviderEmbedder:
    """A hosted embedder. Its dimensions are known once it was prepared or has embedded something."""

    def __init__(self, name: str, key: Secret | None = None) -> None:
        self.label = with_colon(name)
        self._key = key  # in use as long as the embedder is, and hidden from errors so long
        self._dimensions: int | None = None
        self._max_characters: int | None = None
        self._providers: list[Any] = []
        self._model = _model(self.label, key, self._providers)

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        if self._dimensions is None:
            raise EmbeddingError(f"the dimensions of {self.label!r} are not known yet; prepare it first")
        return self._dimensions

    async def prepare(self, dimensions: int | None) -> None:
        """Take the dimensions from a store that knows them, or ask the provider with one short text."""
        self._dimensions = dimensions or self._dimensions
        if self._dimensions is None:
            await self.embed(["dimensions"])

    async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Vectors of texts that are kept."""
        return await self._embed_all(texts, "document")

    async def embed_query(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Vectors of questions: some models embed them in another way."""
        return await self._embed_all(texts, "query")

    async def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        for provider in self._providers:
            async with provider:
                pass  # whoever leaves last closes them

    async def _embed_all(self, texts: Sequence[str], input_type: str) -> list[Sequence[float]]:
        limit = await self._characters_that_fit()
        vectors: list[Sequence[float]] = []
        for batch in _batches([text[:limit] for text in texts]):
            vectors += await self._embed_batch(batch, input_type)
        if self._dimensions is None and vectors:
            self._dimensions = len(vectors[0])
        return vectors

    async def _characters_that_fit(self) -> int:
        if self._max_characters is None:
            tokens = await self._model.max_input_tokens()
            self._max_characters = min(MAX_CHARACTERS, CHARACTERS_A_TOKEN * (tokens or 8_192))
        return self._max_characters

    async def _embed_batch(self, texts: list[str], input_type: str) -> list[Sequence[float]]:
        """One request; if it is refused, text by text, and a text that is refused alone is shortened."""
        try:
            return await self._request(texts, input_type)
        except Failure as failure:
            too_much, told = failure.status in (400, 413, 422), str(failure)
        if too_much and len(texts) > 1:
            return [(await self._embed_batch([text], input_type))[0] for text in texts]
        if too_much and len(texts[0]) > SHORTEST_CUT:
            return await self._embed_batch([texts[0][: len(texts[0]) // 2]], input_type)
        raise EmbeddingError(told)  # outside of the block: what the library said may have the key in it

    async def _request(self, texts: list[str], input_type: str) -> list[Sequence[float]]:
        """One request, repeated with growing pauses while the error may pass."""
        patience = Patience(ATTEMPTS, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, REQUEST_SECONDS)
        result = await persist(
            lambda: self._model.embed(texts, input_type=input_type), f"embedder {self.label!r}", patience
        )
        return list(result.embeddings)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in order, in requests of bounded count and size."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == MAX_TEXTS or size + len(text) > MAX_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _model(name: str, key: Secret | None, providers: list[Any]) -> Any:
    """The library's own; notes the providers that it makes."""
    with looking_up("embedder", name):
        from pydantic_ai.embeddings import infer_embedding_model

        make = provider_factory(key)

        def make_provider(provider: str) -> Any:
            providers.append(make(provider))
            return providers[-1]

        return infer_embedding_model(name, provider_factory=make_provider)
