"""The same verbs for synchronous callers, each one line over a private loop.

The loop lives in a thread of its own, so background work goes on between calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from casenotes import memory as _async
from casenotes.errors import StoreUnavailable
from casenotes.events import Listener
from casenotes.intake import Input
from casenotes.types import (
    Appended,
    Context,
    Hit,
    Message,
    Outcome,
    Receipt,
    Role,
    Scope,
    Thread,
    Turn,
)

if TYPE_CHECKING:
    from casenotes.models.embed import Embedder
    from casenotes.recall.index import IndexSize
    from casenotes.recall.reembed import Progress, Reembedded
    from casenotes.stores.base import Finding, ScopeSize, StoreStats

T = TypeVar("T")


class Memory:
    """`casenotes.Memory` without `await`: the verbs, their arguments and results are the same."""

    def __init__(self, memory: _async.Memory, loop: asyncio.AbstractEventLoop) -> None:
        self._memory = memory
        self._loop = loop

    @classmethod
    @contextmanager
    def open(cls, url: str | None = None, **options: Any) -> Iterator[Memory]:
        """See `casenotes.Memory.open`."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="casenotes-loop", daemon=True)
        thread.start()
        try:
            opening = _async.Memory.open(url, **options)
            memory = asyncio.run_coroutine_threadsafe(_enter(opening), loop).result()
            try:
                yield cls(memory, loop)
            finally:
                asyncio.run_coroutine_threadsafe(opening.__aexit__(None, None, None), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop.is_closed():
            work.close()
            raise StoreUnavailable("the memory is closed; open it again")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `casenotes.Memory.listen`; the listener is called in the thread of the private loop."""
        return self._memory.listen(listener)

    @property
    def location(self) -> str:
        """Where the memory lies, without password."""
        return self._memory.location

    def begin(self, scope: Scope, user_input: Input) -> Turn:
        """See `casenotes.Memory.begin`."""
        return self._run(self._memory.begin(scope, user_input))

    def step(self, turn: Turn, messages: Input) -> Context:
        """See `casenotes.Memory.step`."""
        return self._run(self._memory.step(turn, messages))

    def complete(
        self, turn: Turn, messages: Input = (), outcome: Outcome = "success", *, sync: bool = False
    ) -> Receipt:
        """See `casenotes.Memory.complete`."""
        return self._run(self._memory.complete(turn, messages, outcome, sync=sync))

    def append(self, scope: Scope, messages: Input, *, role: Role = "user", embed: bool = True) -> Appended:
        """See `casenotes.Memory.append`."""
        return self._run(self._memory.append(scope, messages, role=role, embed=embed))

    def embed(self, scope: Scope, messages: Sequence[Message]) -> int:
        """See `casenotes.Memory.embed`."""
        return self._run(self._memory.embed(scope, messages))

    def recall(
        self, scope: Scope, query: str, top_k: int | None = None, *, as_of: datetime | None = None
    ) -> list[Hit]:
        """See `casenotes.Memory.recall`."""
        return self._run(self._memory.recall(scope, query, top_k, as_of=as_of))

    def history(
        self,
        scope: Scope,
        limit: int | None = None,
        *,
        before: int | None = None,
        after: int | None = None,
    ) -> list[Message]:
        """See `casenotes.Memory.history`."""
        return self._run(self._memory.history(scope, limit, before=before, after=after))

    def threads(self, scope: Scope) -> list[Thread]:
        """See `casenotes.Memory.threads`."""
        return self._run(self._memory.threads(scope))

    def update_thread(
        self, scope: Scope, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """See `casenotes.Memory.update_thread`."""
        return self._run(self._memory.update_thread(scope, title=title, metadata=metadata))

    def flush(self, scope: Scope | None = None, timeout: float = 30.0) -> bool:
        """See `casenotes.Memory.flush`."""
        return self._run(self._memory.flush(scope, timeout))

    def embed_missing(self, scope: Scope) -> int:
        """See `casenotes.Memory.embed_missing`."""
        return self._run(self._memory.embed_missing(scope))

    def reembed(self, embedder: str | Embedder, *, progress: Progress | None = None) -> Reembedded:
        """See `casenotes.Memory.reembed`; progress is told in the thread of the private loop."""
        return self._run(self._memory.reembed(embedder, progress=progress))

    def scopes(self) -> list[ScopeSize]:
        """See `casenotes.Memory.scopes`."""
        return self._run(self._memory.scopes())

    def stats(self) -> StoreStats:
        """See `casenotes.Memory.stats`."""
        return self._run(self._memory.stats())

    def index_size(self, scope: Scope) -> IndexSize:
        """See `casenotes.Memory.index_size`."""
        return self._run(self._memory.index_size(scope))

    def check(self) -> list[Finding]:
        """See `casenotes.Memory.check`."""
        return self._run(self._memory.check())


async def _enter(opening: Any) -> _async.Memory:
    memory: _async.Memory = await opening.__aenter__()
    return memory
