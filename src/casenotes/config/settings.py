"""Every default, next to each other, with its unit in the name.

Settings check themselves when they are made, so a wrong value fails at once and by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from casenotes.config.rules import (
    Choice,
    Model,
    Number,
    OrFalse,
    OrNone,
    Section,
    Switch,
    Text,
    Told,
    Whole,
    built,
    choice,
    number,
    part,
    sections_of,
    setting,
    shown,
    stated,
    switch,
    whole,
)
from casenotes.errors import SettingsError

DEFAULT_DATABASE_URL = "sqlite:///casenotes.db"
DEFAULT_AGENT = "default"
DEFAULT_STORAGE = "default"
HOST_STORAGE = "n8n"
STORAGE_NAMES = (DEFAULT_STORAGE, HOST_STORAGE)
"""They mean the database of the environment."""

LOCAL = "local"
"""The embedder, and the credential, that needs no key."""

HOSTED_EMBEDDER = "openai:text-embedding-3-small"
"""What the credential of episodic memory is for."""

BLOCK = ("min_block_tokens", "max_block_tokens")
MIN_PROMPT_TOKENS = 20
"""What is less has no room for a message, however short it is shown."""

PASSWORDS = ("password", "sslpassword", "oauth_client_secret")
ELSEWHERE = ("hostaddr", "service", "servicefile", "passfile")
POSTGRES = ("postgresql://", "postgres://")
PLAIN_NAME = re.compile(r"[\w./\\+-]*")
CREDENTIALS = re.compile(r"[^/\\:@]+:[^/\\@]+@|[?&]\w*(?:password|passwd|pwd|secret|token|key)=", re.IGNORECASE)
HOST = r"(?:[\w.%-]*|\[[0-9A-Fa-f:.]+(?:%\w+)?\])(?::\d*)?"
WELL_FORMED = re.compile(
    rf"(?:(?P<user>[^\s:@/?#]*)(?::[^\s@/?#]*)?@)?(?P<place>{HOST}(?:,{HOST})*(?:/[^\s:@?#]*)?)(?:[?#][^@]*)?"
)
DEFAULT_LAST_MESSAGES = 20
DEFAULT_OBSERVER_TOKENS = 30_000
DEFAULT_REFLECTOR_TOKENS = 40_000
DEFAULT_HALF_LIFE_DAYS = 180.0
DEFAULT_ENTRIES = 5
DEFAULT_LEXICAL_WEIGHT = 0.35
LEXICAL_WEIGHTS = {"static:l2-supercat": 0.65, "minilm:all-MiniLM-L6-v2-int8": 0.4}
"""By embedder, as measured: the less an embedder understands, the more words count."""


@dataclass(frozen=True, slots=True)
class WorkerModel:
    """A model for background work and the id of the credential that it is asked with.

    The model is `provider/name`. Without a credential its key is that of the environment.
    """

    model: str
    credential: str | None = None

    def __post_init__(self) -> None:
        for name, rule in (("model", Text()), ("credential", Text("the key of the environment"))):
            if fault := rule.fault(getattr(self, name)):
                raise SettingsError(f"{name} {fault.text}")


def zone_named(name: object) -> tzinfo:
    """The time zone of that name; UTC is known on machines without a database of zones, too."""
    try:
        return UTC if str(name).upper() == "UTC" else ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingsError(f"timezone {name!r} is not known; use a name such as 'Europe/Berlin'") from None


def has_password(url: str) -> bool:
    """Whether a URL has a password, wherever one can stand; what cannot be read counts as having one.

    Database drivers look for it before the first `@`, whatever characters are in it.
    """
    _, slashes, rest = url.partition("://")
    if not slashes:
        return False
    if url.startswith(POSTGRES) and not WELL_FORMED.fullmatch(rest):
        return True
    before, at, _ = rest.partition("@")
    try:
        parts = urlsplit(url)
        named = {name.lower() for name, value in parse_qsl(parts.query) if value}
        return bool(parts.password or (at and before.partition(":")[2])) or not named.isdisjoint(PASSWORDS)
    except ValueError:
        return True


def leads_elsewhere(url: str) -> bool:
    """Whether the query of a URL names another server than the URL does, or files with more settings."""
    try:
        parts = urlsplit(url)
        named = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    except ValueError:
        return True
    return not named.isdisjoint(ELSEWHERE) or bool(parts.hostname and not named.isdisjoint(("host", "port")))


def without_password(url: str, *, with_user: bool = False) -> str:
    """A URL for the eyes of users: without query and password, and without the user unless wanted.

    Of one that is not well formed hardly anything is shown: its password may stand anywhere.
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return url if PLAIN_NAME.fullmatch(url) else "…"
    if "@http" in scheme:  # a chat model and where it is served
        return f"…{without_password(f'http{slashes}{rest}')}"
    start = f"{scheme}://" if PLAIN_NAME.fullmatch(scheme) else "…"
    if scheme == "sqlite" and rest.startswith("/"):
        return f"{start}…" if CREDENTIALS.search(rest) else f"{start}{rest}"
    match = WELL_FORMED.fullmatch(rest)
    if match is None:
        return f"{start}…"
    user = match["user"] if with_user else None
    return f"{start}{user}@{match['place']}" if user else f"{start}{match['place']}"


def _not_bare(url: object) -> str | None:
    if fault := Text().fault(url):
        return fault.text
    remedy = "give it as a credential, or in CASENOTES_DATABASE_URL"
    return f"is a URL with a password; {remedy}" if has_password(str(url)) else None


def _no_zone(value: object) -> str | None:
    if not callable(value):
        try:
            zone_named(value)
        except SettingsError as error:
            return str(error).removeprefix("timezone ")
    return None


def _no_class(value: object) -> str | None:
    is_one = value is None or isinstance(value, type)
    return None if is_one else f"is {shown(value)}; give a Pydantic model class, or None"


def _no_summariser(value: object) -> str | None:
    fault = None if callable(value) else Choice(("auto", "model", "heuristic", "truncate")).fault(value)
    return fault.text if fault else None


@dataclass(frozen=True, slots=True)
class SearchSettings(Section):
    """How memory is searched. The weights were measured: docs/benchmarks.md.

    Without a `lexical_weight` the one measured for the embedder is taken.
    """

    ranker: str = choice("default", "rrf-decay")
    half_life_days: float = number(DEFAULT_HALF_LIFE_DAYS)
    lexical_weight: float | None = number(None, 0, 1)
    thread_share: float = number(0.15, 0, 1)
    user_weight: float = number(0.08, 0, 1)
    centring: float = number(0.5, 0, 1)
    recency_weight: float = number(0.005, 0, 1)
    vector_floor: float = number(0.15, -1, 1)
    full_similarity: float = number(0.3, 0, 1)
    relevance_floor: float = number(0.35, -1, 2)
    information_floor: float = number(6.0, 0)
    bm25_k1: float = number(1.5, 0)
    bm25_b: float = number(0.9, 0, 1)
    index_cache_bytes: int = whole(512 * 1024 * 1024, 0)
    deadline_seconds: float = number(2.0, 0)

    def for_embedder(self, label: str) -> SearchSettings:
        """These settings with the lexical weight that suits an embedder, unless one was given."""
        if self.lexical_weight is not None:
            return self
        return replace(self, lexical_weight=LEXICAL_WEIGHTS.get(label, DEFAULT_LEXICAL_WEIGHT))


@dataclass(frozen=True, slots=True)
class StorageSettings(Section):
    """Where memory lies and how the store is used.

    `database` is `default` (also `n8n`) for the one of the environment, or a URL; `credential` is the id of the
    password of a PostgreSQL URL. With `redact_messages`, secrets are masked before messages are saved.

    On PostgreSQL a call waits `lock_timeout_seconds` for rows that another transaction holds, and a connection
    whose process falls silent within a transaction for `idle_transaction_seconds` is ended; 0 waits for ever.
    """

    redact_messages: bool = switch(False)
    max_message_characters: int = whole(1_000_000)
    max_queued_writes: int = whole(10_000)
    busy_timeout_seconds: float = number(10.0, 0)
    postgres_pool_size: int = whole(8)
    connect_timeout_seconds: float = number(10.0, 0)
    close_timeout_seconds: float = number(10.0, 0)
    lock_timeout_seconds: float = number(10.0, 0)
    idle_transaction_seconds: float = number(30.0, 0)
    database: str = setting(DEFAULT_STORAGE, Told(_not_bare), repr=False)  # it may be mistyped
    credential: str | None = setting(None, Text("no password"))

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.credential and not self.database.startswith(POSTGRES):
            raise SettingsError(
                f"credential is {shown(self.credential)} and database is {shown(self.database)}; a password "
                "is for a URL such as postgresql://user@host/name, leave one of them out"
            )


@dataclass(frozen=True, slots=True)
class EpisodicSettings(Section):
    """What is learned from finished turns, and what of it the model is shown.

    A `credential` is the id of an OpenAI key for embeddings, which are openai:text-embedding-3-small then, or
    `local` for the built-in embedder. A `dedupe_similarity_threshold` of False leaves only exact repeats to be
    recognised. Without an `extractor_model` or `reflector_model` the agent's model is asked; with `reflect`
    off, entries are not looked at again for corrections and merges. A prompt replaces the built-in text. With
    an `extraction_prompt` of your own, evidence is checked only if `verify_evidence` is True, and what is
    learned unchecked is marked as unverified. `max_entries_per_run` is another name for
    `max_entries_per_turn`. `inject_messages` is `fill` (free places show messages of earlier threads)
    or `never`. `extract_from` is `messages`, or `observations`: what of a long turn was observed is read as
    observations, which takes far fewer tokens; quotes are looked for in the messages all the same.
    """

    enabled: bool = switch(True)
    top_k: int = whole(5)
    auto_inject: bool = switch(True)
    auto_inject_top_k: int = whole(12)
    inject_messages: str = choice("fill", "never")
    half_life_days: float = number(DEFAULT_HALF_LIFE_DAYS)
    max_entries_per_turn: int = whole(DEFAULT_ENTRIES)
    max_entries_per_run: int | None = setting(None, OrNone(Whole(1)))
    max_entry_length: int = whole(2_000)
    dedupe_similarity_threshold: float | bool = setting(0.86, OrFalse(Number(0, 1)))
    extractor_model: Any = setting(None, Model())
    reflector_model: Any = setting(None, Model())
    reflect: bool = switch(True)
    sync: bool = switch(False)
    extract_from: str = choice("messages", "observations")
    max_transcript_tokens: int = whole(24_000)
    min_block_tokens: int = whole(300)
    max_block_tokens: int = whole(6_000)
    extraction_prompt: str | None = setting(None, Text("the built-in one"))
    injection_prompt: str | None = setting(None, Text("the built-in one"))
    recall_tool_prompt: str | None = setting(None, Text("the built-in one"))
    verify_evidence: bool | None = setting(None, OrNone(Switch()))
    credential: str | None = setting(None, Text("the embedder of the environment"))
    ordered: ClassVar = (BLOCK,)

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        self._take_other_name()
        if self.verify_evidence is False and self.extraction_prompt is None:
            raise SettingsError(
                "verify_evidence is False without an extraction_prompt; the built-in one is checked"
            )

    def _take_other_name(self) -> None:
        if self.max_entries_per_run is None:
            return
        if self.max_entries_per_turn not in (DEFAULT_ENTRIES, self.max_entries_per_run):
            raise SettingsError(
                f"max_entries_per_turn is {self.max_entries_per_turn!r} and max_entries_per_run is "
                f"{self.max_entries_per_run!r}; they are two names of one setting, give one"
            )
        object.__setattr__(self, "max_entries_per_turn", self.max_entries_per_run)
        object.__setattr__(self, "max_entries_per_run", None)
        object.__setattr__(self, "given", self.given - {"max_entries_per_run"} | {"max_entries_per_turn"})

    @property
    def similarity_threshold(self) -> float | None:
        """The threshold as a number, None if similarity does not count."""
        return None if self.dedupe_similarity_threshold is False else float(self.dedupe_similarity_threshold)

    @property
    def verifies(self) -> bool:
        """Whether evidence is checked."""
        return self.extraction_prompt is None if self.verify_evidence is None else self.verify_evidence


@dataclass(frozen=True, slots=True)
class ObservationalSettings(Section):
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

    enabled: bool = switch(True)
    observer_model: Any = setting(None, Model())
    reflector_model: Any = setting(None, Model())
    observer_threshold_tokens: int = whole(DEFAULT_OBSERVER_TOKENS, 10)
    reflector_threshold_tokens: int = whole(DEFAULT_REFLECTOR_TOKENS, 10)
    render_token_budget: int = whole(40_000)
    observation_log_tail_limit: int = whole(20, 0)
    lock_ttl_ms: int = whole(30_000, 10)
    raw_tail_tokens: int = whole(6_000, 0)
    buffer_ratio: float = number(0.2, 0, 1)
    idle_flush_seconds: float = number(600.0, 0)
    timezone: Any = setting("UTC", Told(_no_zone))
    patience_seconds: float = number(2.0, 0)
    max_calls_a_day: int = whole(500)
    max_tokens_a_day: int = whole(3_000_000)
    breaker_failures: int = whole(5)
    breaker_seconds: float = number(60.0, 0)
    min_block_tokens: int = whole(500)
    min_session_tokens: int = whole(100)
    max_session_tokens: int = whole(800)
    ordered: ClassVar = (("min_session_tokens", "max_session_tokens"),)


@dataclass(frozen=True, slots=True)
class ProfileSettings(Section):
    """What is kept about a user across threads, and how large it may get.

    The fields come from a Markdown `template` (headings and `- **Name**: hint` lines) or from a Pydantic
    model as `schema`; without either, from the built-in template. With `learn`, a model proposes changes from
    the user's own statements after each turn: `model`, else the agent's. Sizes are in characters of the
    rendered document.
    """

    enabled: bool = switch(True)
    template: str | None = setting(None, Text("the built-in one"))
    schema: type | None = setting(None, Told(_no_class))
    max_characters: int = whole(6_000)
    max_value_characters: int = whole(500)
    learn: bool = switch(False)
    model: Any = setting(None, Model())
    min_block_tokens: int = whole(200)
    max_block_tokens: int = whole(1_500)
    ordered: ClassVar = (BLOCK,)

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.template is not None and self.schema is not None:
            raise SettingsError(
                f"template is {self.template[:40]!r} and schema is {self.schema.__name__!r}; a profile has the "
                "fields of one of them, give one"
            )


@dataclass(frozen=True, slots=True)
class PlanSettings(Section):
    """Whether a thread has a plan, and how much of the context it may take."""

    enabled: bool = switch(True)
    min_block_tokens: int = whole(100)
    max_block_tokens: int = whole(3_000)
    ordered: ClassVar = (BLOCK,)


@dataclass(frozen=True, slots=True)
class SemanticRecallSettings(Section):
    """Messages like the current input, each with those around it, as a block of its own.

    `scope` is `thread` (earlier in the conversation) or `resource` (all conversations of the user).
    """

    enabled: bool = switch(False)
    top_k: int = whole(5)
    before: int = whole(2, 0)
    after: int = whole(1, 0)
    scope: str = choice("thread", "resource")
    min_block_tokens: int = whole(0, 0)
    max_block_tokens: int = whole(4_000)
    ordered: ClassVar = (BLOCK,)


@dataclass(frozen=True, slots=True)
class EpisodesSettings(Section):
    """Summaries of finished runs.

    `summariser` is `auto` (a model if there is one, else the heuristic), `model`, `heuristic` (what was
    asked and what was answered last), `truncate` (the beginning of the run), or an async function of the
    run's messages and its outcome. `select` is `recent` or `relevant`. With `share_across_users`, all users
    of an agent see each other's summaries.
    """

    enabled: bool = switch(True)
    summariser: Any = setting("auto", Told(_no_summariser))
    model: Any = setting(None, Model())
    max_kept: int = whole(20)
    max_summary_characters: int = whole(1_000)
    select: str = choice("recent", "relevant")
    share_across_users: bool = switch(False)
    min_block_tokens: int = whole(300)
    max_block_tokens: int = whole(2_000)
    ordered: ClassVar = (BLOCK,)


@dataclass(frozen=True, slots=True)
class BudgetSettings(Section):
    """How many tokens the model takes, and how many of them are left for its answer."""

    context_tokens: int = whole(128_000)
    reply_reserve: int = whole(4_000, 0)

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.reply_reserve >= self.context_tokens:
            raise SettingsError(
                f"reply_reserve is {self.reply_reserve!r} and context_tokens is {self.context_tokens!r}; "
                "something must be left for the prompt"
            )
        if self.prompt_tokens < MIN_PROMPT_TOKENS:
            raise SettingsError(
                f"context_tokens {self.context_tokens!r} and reply_reserve {self.reply_reserve!r} leave "
                f"{self.prompt_tokens} tokens for the prompt; at least {MIN_PROMPT_TOKENS} are needed"
            )

    @property
    def prompt_tokens(self) -> int:
        """What the prompt may take."""
        return self.context_tokens - self.reply_reserve


@dataclass(frozen=True, slots=True)
class JobSettings(Section):
    """How background work is done.

    `in_process=False` leaves it to `casenotes worker`. Calls and tokens are counted for each agent and
    resource on a day in UTC; what exceeds them waits. `hook_seconds` is how long a layer may take to learn
    from a turn or to end a run.
    """

    in_process: bool = switch(True)
    concurrency: int = whole(4)
    lease_seconds: float = number(30.0, 0.01)
    attempts: int = whole(5)
    first_retry_seconds: float = number(30.0, 0.01)
    longest_retry_seconds: float = number(3_600.0, 0.01)
    poll_seconds: float = number(60.0, 0.01)
    hook_seconds: float = number(300.0, 0.01)
    max_calls_a_day: int = whole(1_000)
    max_tokens_a_day: int = whole(5_000_000)


@dataclass(frozen=True, slots=True)
class ModelSettings(Section):
    """How chat models are asked: requests that may pass are repeated with growing pauses."""

    attempts: int = whole(3)
    first_pause_seconds: float = number(0.5, 0)
    request_seconds: float = number(120.0, 0.01)
    max_output_tokens: int = whole(4_096)


@dataclass(frozen=True, slots=True)
class Settings(Section):
    """All settings of one Memory. With `enabled` off, nothing is kept, shown or learned.

    `semantic_recall` may be True or False for short. `titles` is `first_message` (the beginning of what the
    user said first) or `model`.
    """

    last_messages: int = whole(DEFAULT_LAST_MESSAGES)
    semantic_recall: SemanticRecallSettings | bool = part(SemanticRecallSettings)
    episodic: EpisodicSettings = part(EpisodicSettings)
    observational: ObservationalSettings = part(ObservationalSettings)
    profile: ProfileSettings = part(ProfileSettings)
    plan: PlanSettings = part(PlanSettings)
    episodes: EpisodesSettings = part(EpisodesSettings)
    budget: BudgetSettings = part(BudgetSettings)
    jobs: JobSettings = part(JobSettings)
    models: ModelSettings = part(ModelSettings)
    search: SearchSettings = part(SearchSettings)
    storage: StorageSettings = part(StorageSettings)
    recall_deadline_seconds: float = number(2.0, 0)
    titles: str = choice("first_message", "model")
    enabled: bool = switch(True)

    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if isinstance(self.semantic_recall, bool):
            object.__setattr__(self, "semantic_recall", SemanticRecallSettings(self.semantic_recall))
        self._check_parts()
        self._check_extraction()
        self._join_half_lives()

    def _check_parts(self) -> None:
        for name, section in sections_of(Settings).items():
            if not isinstance(getattr(self, name), section):
                raise SettingsError(f"{name} is {shown(getattr(self, name))}; it must be {section.__name__}(…)")

    def _check_extraction(self) -> None:
        reads_observations = self.episodic.enabled and self.episodic.extract_from == "observations"
        if reads_observations and not self.observational.enabled:
            raise SettingsError(
                "episodic.extract_from is 'observations' and observational.enabled is False, so there are "
                "none; set extract_from to 'messages', or switch session memory on"
            )

    def _join_half_lives(self) -> None:
        """One half-life, whichever of the two places it was set in."""
        mine, other = self.episodic.half_life_days, self.search.half_life_days
        if DEFAULT_HALF_LIFE_DAYS not in (mine, other) and mine != other:
            raise SettingsError(
                f"episodic.half_life_days is {mine!r} and search.half_life_days is {other!r}; set one of them"
            )
        if mine != DEFAULT_HALF_LIFE_DAYS:
            joined = built(SearchSettings, stated(self.search) | {"half_life_days": mine})
            object.__setattr__(self, "search", joined)

    @classmethod
    def from_json(cls, config: Mapping[str, Any] | str) -> Settings:
        """The settings of a JSON object `{"memory": {…}}`, or of its text; tells all that is wrong."""
        from casenotes.config.json_read import settings_of

        return settings_of(config)

    def to_json(self) -> dict[str, Any]:
        """What was given, as a JSON object `{"memory": {…}}`; raises if something has no JSON form."""
        from casenotes.config.json_write import json_of

        return json_of(self)
