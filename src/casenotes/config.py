"""Every default, next to each other, with its unit in the name; the only reader of the environment.

Settings check themselves when they are made, so a wrong value fails at once and by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from casenotes.errors import SettingsError

DEFAULT_DATABASE_URL = "sqlite:///casenotes.db"
DEFAULT_AGENT = "default"
DEFAULT_LAST_MESSAGES = 20
DEFAULT_OBSERVER_TOKENS = 30_000
DEFAULT_REFLECTOR_TOKENS = 40_000
DEFAULT_HALF_LIFE_DAYS = 180.0
DEFAULT_LEXICAL_WEIGHT = 0.35
LEXICAL_WEIGHTS = {"static:l2-supercat": 0.65, "minilm:all-MiniLM-L6-v2-int8": 0.4}
"""By embedder, as measured: the less an embedder understands, the more words count."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How memory is searched. The weights were measured: docs/benchmarks.md.

    Without a `lexical_weight` the one measured for the embedder is taken.
    """

    ranker: str = "default"
    half_life_days: float = DEFAULT_HALF_LIFE_DAYS
    lexical_weight: float | None = None
    thread_share: float = 0.15
    user_weight: float = 0.08
    centring: float = 0.5
    recency_weight: float = 0.005
    vector_floor: float = 0.15
    full_similarity: float = 0.3
    relevance_floor: float = 0.35
    information_floor: float = 6.0
    bm25_k1: float = 1.5
    bm25_b: float = 0.9
    index_cache_bytes: int = 512 * 1024 * 1024
    deadline_seconds: float = 2.0

    def __post_init__(self) -> None:
        _choice("ranker", self.ranker, ("default", "rrf-decay"))
        _at_least("index_cache_bytes", self.index_cache_bytes, 0)
        if self.lexical_weight is not None:
            _between("lexical_weight", self.lexical_weight, 0, 1)
        for name in ("thread_share", "user_weight", "centring", "full_similarity", "recency_weight", "bm25_b"):
            _between(name, getattr(self, name), 0, 1)
        _between("vector_floor", self.vector_floor, -1, 1)
        _between("relevance_floor", self.relevance_floor, -1, 2)
        _at_least("bm25_k1", self.bm25_k1, 0)
        _at_least("information_floor", self.information_floor, 0)
        _at_least("deadline_seconds", self.deadline_seconds, 0)

    def for_embedder(self, label: str) -> SearchSettings:
        """These settings with the lexical weight that suits an embedder, unless one was given."""
        if self.lexical_weight is not None:
            return self
        return replace(self, lexical_weight=LEXICAL_WEIGHTS.get(label, DEFAULT_LEXICAL_WEIGHT))


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How the store is used. With `redact_messages`, secrets are masked before messages are saved.

    PostgreSQL ends a connection whose process falls silent within a transaction for `idle_transaction_seconds`;
    0 waits for ever.
    """

    redact_messages: bool = False
    max_message_characters: int = 1_000_000
    max_queued_writes: int = 10_000
    busy_timeout_seconds: float = 10.0
    postgres_pool_size: int = 8
    connect_timeout_seconds: float = 10.0
    close_timeout_seconds: float = 10.0
    idle_transaction_seconds: float = 30.0

    def __post_init__(self) -> None:
        _switch("redact_messages", self.redact_messages)
        for name in ("max_message_characters", "max_queued_writes", "postgres_pool_size"):
            _at_least(name, getattr(self, name), 1)
        seconds = "busy_timeout_seconds connect_timeout_seconds close_timeout_seconds idle_transaction_seconds"
        for name in seconds.split():
            _at_least(name, getattr(self, name), 0)


@dataclass(frozen=True, slots=True)
class EpisodicSettings:
    """What is learned from finished turns, and what of it the model is shown.

    A `dedupe_similarity_threshold` of False leaves only exact repeats to be recognised. Without an
    `extractor_model` or `reflector_model` the agent's model is asked; with `reflect` off, entries are not
    looked at again for corrections and merges. A prompt replaces the built-in text. With an
    `extraction_prompt` of your own, evidence is checked only if `verify_evidence` is True, and what is
    learned unchecked is marked as unverified. `max_entries_per_run` is another name for
    `max_entries_per_turn`. `inject_messages` is `fill` (free places show messages of earlier threads)
    or `never`. `extract_from` is `messages`, or `observations`: what of a long turn was observed is read as
    observations, which takes far fewer tokens; quotes are looked for in the messages all the same.
    """

    enabled: bool = True
    top_k: int = 5
    auto_inject: bool = True
    auto_inject_top_k: int = 12
    inject_messages: str = "fill"
    half_life_days: float = DEFAULT_HALF_LIFE_DAYS
    max_entries_per_turn: int = 5
    max_entries_per_run: int | None = None
    max_entry_length: int = 2_000
    dedupe_similarity_threshold: float | bool = 0.86
    extractor_model: Any = None
    reflector_model: Any = None
    reflect: bool = True
    sync: bool = False
    extract_from: str = "messages"
    max_transcript_tokens: int = 24_000
    min_block_tokens: int = 300
    max_block_tokens: int = 6_000
    extraction_prompt: str | None = None
    injection_prompt: str | None = None
    recall_tool_prompt: str | None = None
    verify_evidence: bool | None = None

    def __post_init__(self) -> None:
        self._take_other_name()
        for name in ("top_k", "auto_inject_top_k", "max_entries_per_turn", "max_entry_length"):
            _at_least(name, getattr(self, name), 1)
        for name in ("max_transcript_tokens", "min_block_tokens", "max_block_tokens"):
            _at_least(name, getattr(self, name), 1)
        for name in ("enabled", "auto_inject", "reflect", "sync"):
            _switch(name, getattr(self, name))
        _choice("inject_messages", self.inject_messages, ("fill", "never"))
        _choice("extract_from", self.extract_from, ("messages", "observations"))
        _number("half_life_days", self.half_life_days)
        threshold = self.dedupe_similarity_threshold
        if threshold is True:
            raise SettingsError("dedupe_similarity_threshold is True; give a number from 0 to 1, or False")
        if threshold is not False:
            _between("dedupe_similarity_threshold", threshold, 0, 1)
        for name in ("extraction_prompt", "injection_prompt", "recall_tool_prompt"):
            text = getattr(self, name)
            if text is not None and not (isinstance(text, str) and text.strip()):
                raise SettingsError(f"{name} is {text!r}; give a text, or None for the built-in one")
        if self.verify_evidence is False and self.extraction_prompt is None:
            raise SettingsError(
                "verify_evidence is False without an extraction_prompt; the built-in one is checked"
            )

    def _take_other_name(self) -> None:
        if self.max_entries_per_run is None:
            return
        default = type(self).__dataclass_fields__["max_entries_per_turn"].default
        if self.max_entries_per_turn not in (default, self.max_entries_per_run):
            raise SettingsError(
                f"max_entries_per_turn is {self.max_entries_per_turn!r} and max_entries_per_run is "
                f"{self.max_entries_per_run!r}; they are two names of one setting, give one"
            )
        object.__setattr__(self, "max_entries_per_turn", self.max_entries_per_run)
        object.__setattr__(self, "max_entries_per_run", None)

    @property
    def similarity_threshold(self) -> float | None:
        """The threshold as a number, None if similarity does not count."""
        return None if self.dedupe_similarity_threshold is False else float(self.dedupe_similarity_threshold)

    @property
    def verifies(self) -> bool:
        """Whether evidence is checked."""
        return self.extraction_prompt is None if self.verify_evidence is None else self.verify_evidence


@dataclass(frozen=True, slots=True)
class ObservationalSettings:
    """How long conversations are compressed while they go on. It needs a model.

    At `observer_threshold_tokens` of messages that are not compressed yet, observations take the place of all
    but the newest `raw_tail_tokens`, at most a fifth of the threshold. They are made ahead, each time that
    another `buffer_ratio` of the threshold was said; 0 makes them at the threshold only. When the log exceeds
    `reflector_threshold_tokens` it is condensed. What nobody has spoken in for `idle_flush_seconds` is
    observed, too; 0 switches that off. `timezone` is a name such as `Europe/Berlin`, or a function of the scope
    that gives one. A turn waits for observations that are late for no longer than `patience_seconds`. Calls and
    tokens are counted for each thread on a day in UTC. After `breaker_failures` failures in a row the model is
    left alone for `breaker_seconds`. Without models of their own, Observer and Reflector ask the agent's.
    """

    enabled: bool = True
    observer_model: Any = None
    reflector_model: Any = None
    observer_threshold_tokens: int = DEFAULT_OBSERVER_TOKENS
    reflector_threshold_tokens: int = DEFAULT_REFLECTOR_TOKENS
    render_token_budget: int = 40_000
    observation_log_tail_limit: int = 20
    lock_ttl_ms: int = 30_000
    raw_tail_tokens: int = 6_000
    buffer_ratio: float = 0.2
    idle_flush_seconds: float = 600.0
    timezone: Any = "UTC"
    patience_seconds: float = 2.0
    max_calls_a_day: int = 500
    max_tokens_a_day: int = 3_000_000
    breaker_failures: int = 5
    breaker_seconds: float = 60.0
    min_block_tokens: int = 500
    min_session_tokens: int = 100
    max_session_tokens: int = 800

    def __post_init__(self) -> None:
        _switch("enabled", self.enabled)
        least = (
            ("observer_threshold_tokens", 10),
            ("reflector_threshold_tokens", 10),
            ("render_token_budget", 1),
            ("observation_log_tail_limit", 0),
            ("lock_ttl_ms", 10),
            ("raw_tail_tokens", 0),
            ("idle_flush_seconds", 0),
            ("patience_seconds", 0),
            ("max_calls_a_day", 1),
            ("max_tokens_a_day", 1),
            ("breaker_failures", 1),
            ("breaker_seconds", 0),
            ("min_block_tokens", 1),
            ("min_session_tokens", 1),
            ("max_session_tokens", 1),
        )
        for name, minimum in least:
            _at_least(name, getattr(self, name), minimum)
        _between("buffer_ratio", self.buffer_ratio, 0, 1)
        if not callable(self.timezone):
            zone_named(self.timezone)


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """What is kept about a user across threads, and how large it may get.

    The fields come from a Markdown `template` (headings and `- **Name**: hint` lines) or from a Pydantic
    model as `schema`; without either, from the built-in template. With `learn`, a model proposes changes from
    the user's own statements after each turn: `model`, else the agent's. Sizes are in characters of the
    rendered document.
    """

    enabled: bool = True
    template: str | None = None
    schema: type | None = None
    max_characters: int = 6_000
    max_value_characters: int = 500
    learn: bool = False
    model: Any = None
    min_block_tokens: int = 200
    max_block_tokens: int = 1_500

    def __post_init__(self) -> None:
        for name in ("enabled", "learn"):
            _switch(name, getattr(self, name))
        for name in ("max_characters", "max_value_characters", "min_block_tokens", "max_block_tokens"):
            _at_least(name, getattr(self, name), 1)
        if self.template is not None and not (isinstance(self.template, str) and self.template.strip()):
            raise SettingsError(f"template is {self.template!r}; give a text, or None for the built-in one")
        if self.schema is not None and not isinstance(self.schema, type):
            raise SettingsError(f"schema is {self.schema!r}; give a Pydantic model class, or None")
        if self.template is not None and self.schema is not None:
            raise SettingsError(
                f"template is {self.template[:40]!r} and schema is {self.schema.__name__!r}; a profile has the "
                "fields of one of them, give one"
            )


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Whether a thread has a plan, and how much of the context it may take."""

    enabled: bool = True
    min_block_tokens: int = 100
    max_block_tokens: int = 3_000

    def __post_init__(self) -> None:
        _switch("enabled", self.enabled)
        for name in ("min_block_tokens", "max_block_tokens"):
            _at_least(name, getattr(self, name), 1)


@dataclass(frozen=True, slots=True)
class SemanticRecallSettings:
    """Messages like the current input, each with those around it, as a block of its own.

    `scope` is `thread` (earlier in the conversation) or `resource` (all conversations of the user).
    """

    enabled: bool = False
    top_k: int = 5
    before: int = 2
    after: int = 1
    scope: str = "thread"
    min_block_tokens: int = 0
    max_block_tokens: int = 4_000

    def __post_init__(self) -> None:
        _switch("enabled", self.enabled)
        _at_least("top_k", self.top_k, 1)
        for name in ("before", "after", "min_block_tokens"):
            _at_least(name, getattr(self, name), 0)
        _at_least("max_block_tokens", self.max_block_tokens, 1)
        _choice("scope", self.scope, ("thread", "resource"))


@dataclass(frozen=True, slots=True)
class EpisodesSettings:
    """Summaries of finished runs.

    `summariser` is `auto` (a model if there is one, else the heuristic), `model`, `heuristic` (what was
    asked and what was answered last), `truncate` (the beginning of the run), or an async function of the
    run's messages and its outcome. `select` is `recent` or `relevant`. With `share_across_users`, all users
    of an agent see each other's summaries.
    """

    enabled: bool = True
    summariser: Any = "auto"
    model: Any = None
    max_kept: int = 20
    max_summary_characters: int = 1_000
    select: str = "recent"
    share_across_users: bool = False
    min_block_tokens: int = 300
    max_block_tokens: int = 2_000

    def __post_init__(self) -> None:
        for name in ("enabled", "share_across_users"):
            _switch(name, getattr(self, name))
        for name in ("max_kept", "max_summary_characters", "min_block_tokens", "max_block_tokens"):
            _at_least(name, getattr(self, name), 1)
        _choice("select", self.select, ("recent", "relevant"))
        if not callable(self.summariser):
            _choice("summariser", self.summariser, ("auto", "model", "heuristic", "truncate"))


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """How many tokens the model takes, and how many of them are left for its answer."""

    context_tokens: int = 128_000
    reply_reserve: int = 4_000

    def __post_init__(self) -> None:
        _at_least("context_tokens", self.context_tokens, 1)
        _at_least("reply_reserve", self.reply_reserve, 0)
        if self.reply_reserve >= self.context_tokens:
            raise SettingsError(
                f"reply_reserve is {self.reply_reserve!r} and context_tokens is {self.context_tokens!r}; "
                "something must be left for the prompt"
            )

    @property
    def prompt_tokens(self) -> int:
        """What the prompt may take."""
        return self.context_tokens - self.reply_reserve


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How background work is done.

    `in_process=False` leaves it to `casenotes worker`. Calls and tokens are counted for each agent and
    resource on a day in UTC; what exceeds them waits. `hook_seconds` is how long a layer may take to learn
    from a turn or to end a run.
    """

    in_process: bool = True
    concurrency: int = 4
    lease_seconds: float = 30.0
    attempts: int = 5
    first_retry_seconds: float = 30.0
    longest_retry_seconds: float = 3_600.0
    poll_seconds: float = 60.0
    hook_seconds: float = 300.0
    max_calls_a_day: int = 1_000
    max_tokens_a_day: int = 5_000_000

    def __post_init__(self) -> None:
        _switch("in_process", self.in_process)
        for name in ("concurrency", "attempts", "max_calls_a_day", "max_tokens_a_day"):
            _at_least(name, getattr(self, name), 1)
        seconds = (
            "lease_seconds",
            "first_retry_seconds",
            "longest_retry_seconds",
            "poll_seconds",
            "hook_seconds",
        )
        for name in seconds:
            _at_least(name, getattr(self, name), 0.01)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How chat models are asked: requests that may pass are repeated with growing pauses."""

    attempts: int = 3
    first_pause_seconds: float = 0.5
    request_seconds: float = 120.0
    max_output_tokens: int = 4_096

    def __post_init__(self) -> None:
        _at_least("attempts", self.attempts, 1)
        _at_least("max_output_tokens", self.max_output_tokens, 1)
        _at_least("first_pause_seconds", self.first_pause_seconds, 0)
        _at_least("request_seconds", self.request_seconds, 0.01)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one Memory.

    `semantic_recall` may be True or False for short. `titles` is `first_message` (the beginning of what the
    user said first) or `model`.
    """

    last_messages: int = DEFAULT_LAST_MESSAGES
    recall_deadline_seconds: float = 2.0
    titles: str = "first_message"
    semantic_recall: SemanticRecallSettings | bool = field(default_factory=SemanticRecallSettings)
    episodic: EpisodicSettings = field(default_factory=EpisodicSettings)
    observational: ObservationalSettings = field(default_factory=ObservationalSettings)
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    plan: PlanSettings = field(default_factory=PlanSettings)
    episodes: EpisodesSettings = field(default_factory=EpisodesSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    models: ModelSettings = field(default_factory=ModelSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)

    def __post_init__(self) -> None:
        _at_least("last_messages", self.last_messages, 1)
        _at_least("recall_deadline_seconds", self.recall_deadline_seconds, 0)
        _choice("titles", self.titles, ("first_message", "model"))
        if isinstance(self.semantic_recall, bool):
            object.__setattr__(self, "semantic_recall", SemanticRecallSettings(self.semantic_recall))
        self._join_half_lives()

    def _join_half_lives(self) -> None:
        """One half-life, whichever of the two places it was set in."""
        mine, other = self.episodic.half_life_days, self.search.half_life_days
        if DEFAULT_HALF_LIFE_DAYS not in (mine, other) and mine != other:
            raise SettingsError(
                f"episodic.half_life_days is {mine!r} and search.half_life_days is {other!r}; set one of them"
            )
        if mine != DEFAULT_HALF_LIFE_DAYS:
            object.__setattr__(self, "search", replace(self.search, half_life_days=mine))


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment variables say; every field is one variable."""

    database_url: str = DEFAULT_DATABASE_URL
    model: str = ""
    embedder_model: str = "local"
    last_messages: int = DEFAULT_LAST_MESSAGES
    semantic_recall: bool = False
    semantic_recall_top_k: int = 5
    observer_model: str = ""
    observer_message_tokens: int = DEFAULT_OBSERVER_TOKENS
    reflector_observation_tokens: int = DEFAULT_REFLECTOR_TOKENS

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> Environment:
        """Read `CASENOTES_DATABASE_URL` and its siblings; an empty variable counts as unset."""
        values: dict[str, Any] = {}
        for item in fields(cls):
            name = f"CASENOTES_{item.name.upper()}"
            if text := variables.get(name, ""):
                values[item.name] = READERS[str(item.type)](name, text)
        return cls(**values)

    def settings(self) -> Settings:
        """The settings with what the environment overrides."""
        similar = SemanticRecallSettings(self.semantic_recall, self.semantic_recall_top_k)
        observing = ObservationalSettings(
            observer_model=self.observer_model or None,
            reflector_model=self.observer_model or None,
            observer_threshold_tokens=self.observer_message_tokens,
            reflector_threshold_tokens=self.reflector_observation_tokens,
        )
        return Settings(last_messages=self.last_messages, semantic_recall=similar, observational=observing)


def zone_named(name: object) -> tzinfo:
    """The time zone of that name; UTC is known on machines without a database of zones, too."""
    try:
        return UTC if str(name).upper() == "UTC" else ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingsError(f"timezone {name!r} is not known; use a name such as 'Europe/Berlin'") from None


def cache_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Where files may lie that can be made again: `XDG_CACHE_HOME`, else `~/.cache`."""
    return Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache", "casenotes")


def usable_cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"{name} is {text!r}; it must be a whole number") from None


def _truth(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in (*TRUE, *FALSE):
        raise SettingsError(f"{name} is {text!r}; it must be true or false")
    return word in TRUE


TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
READERS: Mapping[str, Callable[[str, str], Any]] = {
    "int": _whole_number,
    "bool": _truth,
    "str": lambda _name, text: text,
}
"""How a variable is read, by the type of its field."""


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingsError(f"{name} must be a number, got {value!r}")


def _switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise SettingsError(f"{name} must be True or False, got {value!r}")


def _at_least(name: str, value: float, minimum: float) -> None:
    _number(name, value)
    if not value >= minimum:
        raise SettingsError(f"{name} is {value!r}; it must be at least {minimum}")


def _between(name: str, value: float, low: float, high: float) -> None:
    _at_least(name, value, low)
    if not value <= high:
        raise SettingsError(f"{name} is {value!r}; it must be between {low} and {high}")


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
