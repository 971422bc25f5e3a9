"""Every error Casenotes raises, ordered by what the caller can do about it.

CasenotesError
├── UsageError                the call is wrong: correct the argument
│   ├── InvalidScope          a missing, empty or unusable id
│   ├── InvalidMessage        a message that cannot be stored
│   ├── SettingsError         a setting that is unknown, out of range or in conflict
│   └── MissingExtra          an optional part is not installed: the text names the extra
├── MessageConflict           the message id is taken by other content: use another id
├── StateConflict             another writer was faster: read again and repeat
├── StoreError                the store cannot do it: read the text for the remedy
│   ├── StoreUnavailable      not reachable, not writable, locked or closed: mend and retry
│   ├── StoreDamaged          not a Casenotes store, or a damaged one: restore a backup
│   ├── StoreTooNew           written by a newer release: upgrade Casenotes
│   ├── Overloaded            too much queued: slow down and retry
│   └── LeaseLost             another worker has taken over: nothing was written
├── EmbeddingError            the embedder failed: messages stay findable by their words
│   ├── BadVector             not finite, all zero or of the wrong size
│   └── SpaceMismatch         the store holds vectors of another embedder
├── ModelError                the chat model failed: learning is tried again later
│   ├── ModelRefused          it will refuse the same request again: change key, model or text
│   └── UnreadableOutput      no JSON object in its answer: a second try may do better
└── BudgetExceeded            the day's calls or tokens are used up: wait, or raise the setting
"""

from __future__ import annotations


class CasenotesError(Exception):
    """Base of all errors raised on purpose by this package."""


class UsageError(CasenotesError, ValueError):
    """The call is wrong; the same call will fail again."""


class InvalidScope(UsageError):
    """An agent, resource or thread id is missing, empty or unusable."""


class InvalidMessage(UsageError):
    """A message cannot be stored as it is."""


class SettingsError(UsageError):
    """A setting is unknown, has the wrong type, is out of range or conflicts with another."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""


class MessageConflict(CasenotesError):
    """A message id is already taken by a message with other content."""


class StateConflict(CasenotesError):
    """Another writer was faster: the version that was seen is no longer the current one."""


class StoreError(CasenotesError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, opened, locked or written."""


class StoreDamaged(StoreError):
    """What lies at that place is not a usable Casenotes store."""


class StoreTooNew(StoreError):
    """The store was written by a newer release."""


class Overloaded(StoreError):
    """More work is queued than the configured limit."""


class LeaseLost(StoreError):
    """Another worker has taken over the thread in the meantime."""


class BudgetExceeded(CasenotesError):
    """A scope has used up its model calls or tokens of the day."""


class EmbeddingError(CasenotesError):
    """The embedder failed."""


class BadVector(EmbeddingError):
    """A vector is not finite, all zero, or of the wrong size."""


class SpaceMismatch(EmbeddingError):
    """The store holds vectors of another embedding space."""


MENDABLE = (401, 403, 404, 429)
"""What a provider refuses because of a key, a model's name or a quota may be mended before the next try."""


class ModelError(CasenotesError):
    """The chat model failed; `may_pass` is false where the same request will fail again."""

    def __init__(self, text: str, *, may_pass: bool = True, status: int | None = None) -> None:
        super().__init__(text)
        self.may_pass = may_pass
        self.status = status
        self.calls = 1  # how often the model was asked

    @property
    def is_final(self) -> bool:
        """Whether the same text will be refused again, whatever is mended: for example by a content filter."""
        return not self.may_pass and self.status not in MENDABLE


class ModelRefused(ModelError):
    """The provider refused the request, its key or its content."""

    def __init__(self, text: str, *, may_pass: bool = False, status: int | None = None) -> None:
        super().__init__(text, may_pass=may_pass, status=status)


class UnreadableOutput(ModelError):
    """The model answered, but not with anything that can be read as a JSON object."""
