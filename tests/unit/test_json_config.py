"""Settings as JSON: what is accepted, what is refused and with which words, and what a change leaves alone."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from casenotes.config import (
    BudgetSettings,
    EpisodesSettings,
    EpisodicSettings,
    ObservationalSettings,
    ProfileSettings,
    SearchSettings,
    SemanticRecallSettings,
    Settings,
    StorageSettings,
    WorkerModel,
    effective,
)
from casenotes.config.json_names import FIELDS, RUN, SECTIONS, TURN, camel
from casenotes.config.json_read import MOST_PROBLEMS, read_json
from casenotes.config.json_schema import schema
from casenotes.config.json_update import leaves, updated
from casenotes.config.rules import (
    LARGEST,
    Choice,
    Model,
    Number,
    OrFalse,
    OrNone,
    Rule,
    Switch,
    Whole,
    rule_at,
    stated,
)
from casenotes.credentials import Secret
from casenotes.errors import SettingsError

Json = dict[str, Any]
KEY = "sk-proj-" + "Zq7RtY2uWx4vBn6mKj8hGf3dSa5pLo9i"
PASSWORD = "hunter2-but-longer"
SCHEMA = Draft202012Validator(schema())
SECONDS = 3.0
"""More than anything here takes on a slow machine, and less than what grows with the square of its input."""


def memory(**fields: Any) -> Json:
    """A configuration with these fields."""
    return {"memory": fields}


def observing(**fields: Any) -> Json:
    """A configuration of session memory."""
    return memory(observationalMemory=fields)


def remembering(**fields: Any) -> Json:
    """A configuration of episodic memory that needs no key."""
    return memory(episodicMemory={"credential": "local"} | fields)


def worker(model: Any = "openai/gpt-5-mini", credential: Any = "main") -> Json:
    """A model for background work."""
    return {"model": model, "credential": credential}


class Valid(NamedTuple):
    """A configuration, and what it says by path."""

    config: Json
    values: Json


LOCAL = {"episodic.credential": "local"}
MINI = WorkerModel("openai/gpt-5-mini", "main")

VALID: dict[str, Valid] = {
    "an empty memory": Valid(memory(), {}),
    "memory on": Valid(memory(enabled=True), {"enabled": True}),
    "memory off": Valid(memory(enabled=False), {"enabled": False}),
    "what the host has beside memory": Valid(
        {"name": "Support", "llm": {"model": "any", "temperature": None}, "memory": {"enabled": True}},
        {"enabled": True},
    ),
    "what the builder starts with": Valid(
        memory(enabled=True, storage="n8n", observationalMemory={"enabled": True}),
        {"enabled": True, "observational.enabled": True, "storage.database": "n8n"},
    ),
    "the example of the specification": Valid(
        memory(
            enabled=True,
            storage="sqlite:///agent.db",
            observationalMemory={
                "enabled": True,
                "observerThresholdTokens": 30000,
                "observerModel": worker("provider/name", "id"),
            },
            episodicMemory={
                "enabled": True,
                "credential": "id",
                "topK": 5,
                "maxEntriesPerRun": 5,
                "extractorModel": worker(),
                "reflectorModel": worker("anthropic:claude", "other"),
            },
        ),
        {
            "enabled": True,
            "storage.database": "sqlite:///agent.db",
            "observational.enabled": True,
            "observational.observer_threshold_tokens": 30000,
            "observational.observer_model": WorkerModel("provider/name", "id"),
            "episodic.enabled": True,
            "episodic.credential": "id",
            "episodic.top_k": 5,
            "episodic.max_entries_per_turn": 5,
            "episodic.extractor_model": MINI,
            "episodic.reflector_model": WorkerModel("anthropic:claude", "other"),
        },
    ),
    "one message": Valid(memory(lastMessages=1), {"last_messages": 1}),
    "very many messages": Valid(memory(lastMessages=10**15), {"last_messages": 10**15}),
    "a default that is said": Valid(memory(lastMessages=20), {"last_messages": 20}),
    "storage default": Valid(memory(storage="default"), {"storage.database": "default"}),
    "a relative file": Valid(memory(storage="sqlite:///a.db"), {"storage.database": "sqlite:///a.db"}),
    "an absolute file": Valid(
        memory(storage="sqlite:////var/lib/a.db"), {"storage.database": "sqlite:////var/lib/a.db"}
    ),
    "a file with an at sign": Valid(
        memory(storage="sqlite:///mira@home.db"), {"storage.database": "sqlite:///mira@home.db"}
    ),
    "a server": Valid(
        memory(storage="postgresql://mira@db.example:5432/notes?sslmode=require"),
        {"storage.database": "postgresql://mira@db.example:5432/notes?sslmode=require"},
    ),
    "a server by its short name": Valid(
        memory(storage="postgres://db/notes"), {"storage.database": "postgres://db/notes"}
    ),
    "a server on a socket": Valid(
        memory(storage="postgresql:///notes?host=/run/postgresql"),
        {"storage.database": "postgresql:///notes?host=/run/postgresql"},
    ),
    "a server with a number as its address": Valid(
        memory(storage="postgresql://mira@[::1]/notes"), {"storage.database": "postgresql://mira@[::1]/notes"}
    ),
    "a server with an empty password, which is none": Valid(
        memory(storage="postgresql://mira:@db/notes?password="),
        {"storage.database": "postgresql://mira:@db/notes?password="},
    ),
    "a server with the credential of its password": Valid(
        memory(storage={"url": "postgresql://mira@db/notes", "credential": "db"}),
        {"storage.database": "postgresql://mira@db/notes", "storage.credential": "db"},
    ),
    "semantic recall on": Valid(memory(semanticRecall=True), {"semantic_recall.enabled": True}),
    "semantic recall off": Valid(memory(semanticRecall=False), {"semantic_recall.enabled": False}),
    "semantic recall as it is": Valid(memory(semanticRecall={}), {"semantic_recall.enabled": True}),
    "semantic recall tuned": Valid(
        memory(semanticRecall={"topK": 3}), {"semantic_recall.enabled": True, "semantic_recall.top_k": 3}
    ),
    "semantic recall tuned and off": Valid(
        memory(semanticRecall={"enabled": False, "topK": 8}),
        {"semantic_recall.enabled": False, "semantic_recall.top_k": 8},
    ),
    "semantic recall with all it has": Valid(
        memory(semanticRecall={"enabled": True, "topK": 1, "before": 0, "after": 0, "scope": "resource"}),
        {
            "semantic_recall.enabled": True,
            "semantic_recall.top_k": 1,
            "semantic_recall.before": 0,
            "semantic_recall.after": 0,
            "semantic_recall.scope": "resource",
        },
    ),
    "session memory as it is": Valid(observing(), {}),
    "session memory off": Valid(observing(enabled=False), {"observational.enabled": False}),
    "session memory at its lower bounds": Valid(
        observing(
            observerThresholdTokens=10,
            reflectorThresholdTokens=10,
            renderTokenBudget=1,
            observationLogTailLimit=0,
            lockTtlMs=10,
            bufferRatio=0,
            idleFlushSeconds=0,
        ),
        {
            "observational.observer_threshold_tokens": 10,
            "observational.reflector_threshold_tokens": 10,
            "observational.render_token_budget": 1,
            "observational.observation_log_tail_limit": 0,
            "observational.lock_ttl_ms": 10,
            "observational.buffer_ratio": 0,
            "observational.idle_flush_seconds": 0,
        },
    ),
    "a ratio of one": Valid(observing(bufferRatio=1), {"observational.buffer_ratio": 1}),
    "seconds with a fraction": Valid(
        observing(idleFlushSeconds=0.25), {"observational.idle_flush_seconds": 0.25}
    ),
    "two models of session memory": Valid(
        observing(observerModel=worker(), reflectorModel=worker("anthropic:claude", "second")),
        {
            "observational.observer_model": MINI,
            "observational.reflector_model": WorkerModel("anthropic:claude", "second"),
        },
    ),
    "a model with slashes in its name": Valid(
        observing(observerModel=worker("openrouter/meta/llama-3:free")),
        {"observational.observer_model": WorkerModel("openrouter/meta/llama-3:free", "main")},
    ),
    "episodic memory without a key": Valid(remembering(), LOCAL),
    "episodic memory with a key": Valid(
        memory(episodicMemory={"enabled": True, "credential": "openai-main"}),
        {"episodic.enabled": True, "episodic.credential": "openai-main"},
    ),
    "episodic memory off, without a credential": Valid(
        memory(episodicMemory={"enabled": False}), {"episodic.enabled": False}
    ),
    "episodic memory off, with its tuning": Valid(
        memory(episodicMemory={"enabled": False, "topK": 9}), {"episodic.enabled": False, "episodic.top_k": 9}
    ),
    "episodic memory without a credential while memory is off": Valid(
        memory(enabled=False, episodicMemory={"topK": 9}), {"enabled": False, "episodic.top_k": 9}
    ),
    "episodic memory with all it has": Valid(
        remembering(
            enabled=True,
            topK=1,
            autoInject=False,
            autoInjectTopK=1,
            halfLifeDays=30.5,
            maxEntriesPerTurn=1,
            maxEntryLength=1,
            dedupeSimilarityThreshold=0.5,
            extractorModel=worker(),
            reflectorModel=worker(),
        ),
        LOCAL
        | {
            "episodic.enabled": True,
            "episodic.top_k": 1,
            "episodic.auto_inject": False,
            "episodic.auto_inject_top_k": 1,
            "episodic.half_life_days": 30.5,
            "episodic.max_entries_per_turn": 1,
            "episodic.max_entry_length": 1,
            "episodic.dedupe_similarity_threshold": 0.5,
            "episodic.extractor_model": MINI,
            "episodic.reflector_model": MINI,
        },
    ),
    "entries that do not age": Valid(remembering(halfLifeDays=0), LOCAL | {"episodic.half_life_days": 0}),
    "similarity off": Valid(
        remembering(dedupeSimilarityThreshold=False), LOCAL | {"episodic.dedupe_similarity_threshold": False}
    ),
    "everything is similar": Valid(
        remembering(dedupeSimilarityThreshold=0), LOCAL | {"episodic.dedupe_similarity_threshold": 0}
    ),
    "only the same is similar": Valid(
        remembering(dedupeSimilarityThreshold=1), LOCAL | {"episodic.dedupe_similarity_threshold": 1}
    ),
    "entries for each run": Valid(
        remembering(maxEntriesPerRun=3), LOCAL | {"episodic.max_entries_per_turn": 3}
    ),
    "entries for each turn": Valid(
        remembering(maxEntriesPerTurn=3), LOCAL | {"episodic.max_entries_per_turn": 3}
    ),
    "entries under both names": Valid(
        remembering(maxEntriesPerTurn=3, maxEntriesPerRun=3), LOCAL | {"episodic.max_entries_per_turn": 3}
    ),
    "an id from another product": Valid(
        remembering(credential="Kx9aB2cD3eF4gH5i"), {"episodic.credential": "Kx9aB2cD3eF4gH5i"}
    ),
    "an id with a space": Valid(
        remembering(credential="OpenAI account"), {"episodic.credential": "OpenAI account"}
    ),
    "an id of many digits": Valid(
        remembering(credential="3f2b8c1e-9d4a-4c7b-8e21-6a5f0b9c7d13"),
        {"episodic.credential": "3f2b8c1e-9d4a-4c7b-8e21-6a5f0b9c7d13"},
    ),
    "an id in another script": Valid(remembering(credential="ключ-2"), {"episodic.credential": "ключ-2"}),
}


class Wrong(NamedTuple):
    """A configuration, and what is wrong with it: the names of the rules, and the words, in order."""

    config: Any
    rules: tuple[str, ...]
    texts: tuple[str, ...]


def wrong(config: Any, *problems: tuple[str, str]) -> Wrong:
    """A configuration and its problems."""
    return Wrong(config, *zip(*problems, strict=True))


TYPE, RANGE, UNKNOWN, ABSENT = "wrong_type", "out_of_range", "unknown_field", "missing_field"
NO_CREDENTIAL, SECRET, IN_URL = "missing_credential", "secret_in_config", "password_in_url"
CONFLICT, MISPLACED = "conflict", "misplaced"
OBSERVER, EPISODIC = "memory.observationalMemory.observerModel", "memory.episodicMemory"
NEEDS_KEY = (
    NO_CREDENTIAL,
    "memory.episodicMemory.credential is missing; give the id of an OpenAI key for embeddings, or 'local' for "
    "the built-in embedder, or set enabled to false",
)
FIELDS_OF_MEMORY = "enabled, storage, lastMessages, semanticRecall, observationalMemory, episodicMemory"
FIELDS_OF_OBSERVING = (
    "enabled, observerModel, reflectorModel, observerThresholdTokens, reflectorThresholdTokens, "
    "renderTokenBudget, observationLogTailLimit, lockTtlMs, bufferRatio, idleFlushSeconds"
)
USE_STORAGE = (
    "use default or n8n for the database of the environment, or a URL such as sqlite:///agent.db or "
    "postgresql://user@host/name"
)
NOT_IN_URL = (
    'is a URL with a password; write {"url": …, "credential": id}, or set CASENOTES_DATABASE_URL and write '
    "default"
)
ONLY_POSTGRES = "it must be a URL such as postgresql://user@host/name, as only such have a password"
NO_ADDRESS = (
    "names the address of a server, to which the key of its credential would be sent; pass such a model in "
    "Python"
)
AN_OBJECT = 'it must be an object such as {"enabled": true}'
KEEP_ELSEWHERE = "looks like a secret; keep that elsewhere and write its id"

WRONG: dict[str, Wrong] = {
    # no object
    "a list": wrong([1], (TYPE, "the configuration is [1]; it must be an object")),
    "nothing": wrong(None, (TYPE, "the configuration is null; it must be an object")),
    "bytes": wrong(b"{}", (TYPE, "the configuration is b'{}'; it must be an object")),
    "an empty object": wrong({}, (ABSENT, 'memory is missing; write {"memory": {"enabled": true}}')),
    "memory that is null": wrong({"memory": None}, (TYPE, f"memory is null; {AN_OBJECT}")),
    "memory that is a switch": wrong({"memory": True}, (TYPE, f"memory is true; {AN_OBJECT}")),
    "memory that is a list": wrong({"memory": []}, (TYPE, f"memory is []; {AN_OBJECT}")),
    # misplaced
    "a section beside memory": wrong(
        {"episodicMemory": {"credential": "local"}, "memory": {}},
        (MISPLACED, "episodicMemory stands beside memory; put it into memory"),
    ),
    "all sections beside memory": wrong(
        {"semanticRecall": True, "episodicMemory": {}, "observationalMemory": {}, "memory": {"enabled": True}},
        (MISPLACED, "episodicMemory stands beside memory; put it into memory"),
        (MISPLACED, "observationalMemory stands beside memory; put it into memory"),
        (MISPLACED, "semanticRecall stands beside memory; put it into memory"),
    ),
    "a section without memory": wrong(
        {"observationalMemory": {}},
        (MISPLACED, "observationalMemory stands beside memory; put it into memory"),
        (ABSENT, 'memory is missing; write {"memory": {"enabled": true}}'),
    ),
    # unknown fields
    "an unknown field": wrong(
        memory(colour="red"), (UNKNOWN, f"memory.colour is unknown; use {FIELDS_OF_MEMORY}")
    ),
    "a field written as in Python": wrong(
        memory(last_messages=5), (UNKNOWN, "memory.last_messages is unknown; did you mean lastMessages?")
    ),
    "a misspelt section": wrong(
        memory(episodicMemry={}), (UNKNOWN, "memory.episodicMemry is unknown; did you mean episodicMemory?")
    ),
    "an unknown field of session memory": wrong(
        observing(zeal=1), (UNKNOWN, f"memory.observationalMemory.zeal is unknown; use {FIELDS_OF_OBSERVING}")
    ),
    "a misspelt field of session memory": wrong(
        observing(bufferRatios=0.1),
        (UNKNOWN, "memory.observationalMemory.bufferRatios is unknown; did you mean bufferRatio?"),
    ),
    "a misspelt field of episodic memory": wrong(
        remembering(topk=5), (UNKNOWN, f"{EPISODIC}.topk is unknown; did you mean topK?")
    ),
    "an unknown field of semantic recall": wrong(
        memory(semanticRecall={"window": 2}),
        (UNKNOWN, "memory.semanticRecall.window is unknown; use enabled, topK, before, after, scope"),
    ),
    "a prompt, which is for Python": wrong(
        remembering(extractionPrompt="mine"),
        (UNKNOWN, f"{EPISODIC}.extractionPrompt is unknown; it can be set in Python only"),
    ),
    "a secret as the name of a field": wrong(
        memory(**{KEY: 1}), (UNKNOWN, f"memory.[secret:api_key] is unknown; use {FIELDS_OF_MEMORY}")
    ),
    "a name that is no text": wrong(
        {"memory": {1: 2}}, (UNKNOWN, f"memory.1 is unknown; use {FIELDS_OF_MEMORY}")
    ),
    # null
    "a number that is null": wrong(
        memory(lastMessages=None), (TYPE, "memory.lastMessages is null; give a value, or leave the field out")
    ),
    "storage that is null": wrong(
        memory(storage=None), (TYPE, "memory.storage is null; give a value, or leave the field out")
    ),
    "a section that is null": wrong(
        memory(episodicMemory=None), (TYPE, f"{EPISODIC} is null; give a value, or leave the field out")
    ),
    "a switch within semantic recall that is null": wrong(
        memory(semanticRecall={"enabled": None}),
        (TYPE, "memory.semanticRecall.enabled is null; give a value, or leave the field out"),
    ),
    "a model that is null": wrong(
        observing(observerModel=None), (TYPE, f"{OBSERVER} is null; give a value, or leave the field out")
    ),
    # wrong types
    "a word for a switch": wrong(
        memory(enabled="yes"), (TYPE, "memory.enabled is 'yes'; it must be true or false")
    ),
    "one for a switch": wrong(memory(enabled=1), (TYPE, "memory.enabled is 1; it must be true or false")),
    "a text for a number": wrong(
        memory(lastMessages="20"), (TYPE, "memory.lastMessages is '20'; it must be a whole number")
    ),
    "a switch for a number": wrong(
        memory(lastMessages=True), (TYPE, "memory.lastMessages is True; it must be a whole number")
    ),
    "a fraction for a count": wrong(
        memory(lastMessages=2.5), (TYPE, "memory.lastMessages is 2.5; it must be a whole number")
    ),
    "a list for a number": wrong(
        remembering(topK=[5]), (TYPE, f"{EPISODIC}.topK is [5]; it must be a whole number")
    ),
    "a long text for a number": wrong(
        memory(lastMessages="twenty " * 30),
        (TYPE, f"memory.lastMessages is '{('twenty ' * 30)[:78]}…; it must be a whole number"),
    ),
    "a text for a ratio": wrong(
        observing(bufferRatio="0.2"),
        (TYPE, "memory.observationalMemory.bufferRatio is '0.2'; it must be a number"),
    ),
    "a number for a section": wrong(
        memory(observationalMemory=1), (TYPE, f"memory.observationalMemory is 1; {AN_OBJECT}")
    ),
    "a switch for session memory": wrong(
        memory(observationalMemory=True), (TYPE, f"memory.observationalMemory is true; {AN_OBJECT}")
    ),
    "a switch for episodic memory": wrong(
        memory(episodicMemory=True), (TYPE, f"{EPISODIC} is true; {AN_OBJECT}")
    ),
    "a word for semantic recall": wrong(
        memory(semanticRecall="on"),
        (TYPE, "memory.semanticRecall is 'on'; it must be true or false, or an object"),
    ),
    "one for semantic recall": wrong(
        memory(semanticRecall=1), (TYPE, "memory.semanticRecall is 1; it must be true or false, or an object")
    ),
    "a number for a word": wrong(
        memory(semanticRecall={"scope": 1}),
        (TYPE, "memory.semanticRecall.scope is 1; it must be one of thread, resource"),
    ),
    "similarity that is merely on": wrong(
        remembering(dedupeSimilarityThreshold=True),
        (TYPE, f"{EPISODIC}.dedupeSimilarityThreshold is True; it must be a number, or false"),
    ),
    "a key for a number": wrong(
        memory(lastMessages=KEY), (TYPE, "memory.lastMessages is '[secret:api_key]'; it must be a whole number")
    ),
    # out of range
    "no messages": wrong(memory(lastMessages=0), (RANGE, "memory.lastMessages is 0; it must be at least 1")),
    "fewer messages than none": wrong(
        memory(lastMessages=-5), (RANGE, "memory.lastMessages is -5; it must be at least 1")
    ),
    "a threshold that is too low": wrong(
        observing(observerThresholdTokens=9),
        (RANGE, "memory.observationalMemory.observerThresholdTokens is 9; it must be at least 10"),
    ),
    "a lock that is too short": wrong(
        observing(lockTtlMs=9), (RANGE, "memory.observationalMemory.lockTtlMs is 9; it must be at least 10")
    ),
    "a ratio above one": wrong(
        observing(bufferRatio=1.01),
        (RANGE, "memory.observationalMemory.bufferRatio is 1.01; it must be between 0 and 1"),
    ),
    "seconds below none": wrong(
        observing(idleFlushSeconds=-0.5),
        (RANGE, "memory.observationalMemory.idleFlushSeconds is -0.5; it must be at least 0"),
    ),
    "more messages than a database can count": wrong(
        memory(lastMessages=10**15 + 1),
        (RANGE, "memory.lastMessages is 1000000000000001; it must be at most 1000000000000000"),
    ),
    "a half-life that is too long": wrong(
        remembering(halfLifeDays=1e16),
        (RANGE, f"{EPISODIC}.halfLifeDays is 1e+16; it must be at most 1000000000000000"),
    ),
    "similarity above one": wrong(
        remembering(dedupeSimilarityThreshold=1.5),
        (RANGE, f"{EPISODIC}.dedupeSimilarityThreshold is 1.5; it must be between 0 and 1, or false"),
    ),
    "an unknown word": wrong(
        memory(semanticRecall={"scope": "user"}),
        (RANGE, "memory.semanticRecall.scope is 'user'; it must be one of thread, resource"),
    ),
    "messages before that are fewer than none": wrong(
        memory(semanticRecall={"before": -1}),
        (RANGE, "memory.semanticRecall.before is -1; it must be at least 0"),
    ),
    # credentials
    "episodic memory without a credential": wrong(memory(episodicMemory={}), NEEDS_KEY),
    "episodic memory on without a credential": wrong(memory(episodicMemory={"enabled": True}), NEEDS_KEY),
    "a credential that is null": wrong(
        memory(episodicMemory={"credential": None}),
        (TYPE, f"{EPISODIC}.credential is null; give a value, or leave the field out"),
    ),
    "a blank credential": wrong(
        remembering(credential=" "), (TYPE, f"{EPISODIC}.credential is ' '; it must be the id of a credential")
    ),
    "a number for a credential": wrong(
        remembering(credential=7), (TYPE, f"{EPISODIC}.credential is 7; it must be the id of a credential")
    ),
    "an object for a credential": wrong(
        remembering(credential={"id": "main"}),
        (TYPE, f"{EPISODIC}.credential is {{'id': 'main'}}; it must be the id of a credential"),
    ),
    "a key for a credential": wrong(
        remembering(credential=KEY), (SECRET, f"{EPISODIC}.credential {KEEP_ELSEWHERE}")
    ),
    "a key in a list for a credential": wrong(
        remembering(credential=[KEY]),
        (TYPE, f"{EPISODIC}.credential is ['[secret:api_key]']; it must be the id of a credential"),
    ),
    "a credential that is too long for an id": wrong(
        remembering(credential="q" * 201), (SECRET, f"{EPISODIC}.credential {KEEP_ELSEWHERE}")
    ),
    "a key for the credential of a model": wrong(
        observing(observerModel=worker(credential=KEY)), (SECRET, f"{OBSERVER}.credential {KEEP_ELSEWHERE}")
    ),
    "a key for the credential of a database": wrong(
        memory(storage={"url": "postgresql://mira@db/notes", "credential": KEY}),
        (SECRET, f"memory.storage.credential {KEEP_ELSEWHERE}"),
    ),
    # storage
    "a name that is no storage": wrong(
        memory(storage="redis"), (RANGE, f"memory.storage is 'redis'; {USE_STORAGE}")
    ),
    "no name": wrong(memory(storage=""), (RANGE, f"memory.storage is ''; {USE_STORAGE}")),
    "a name in capitals": wrong(memory(storage="N8N"), (RANGE, f"memory.storage is 'N8N'; {USE_STORAGE}")),
    "a path for storage": wrong(
        memory(storage="/var/lib/a.db"), (RANGE, f"memory.storage is '/var/lib/a.db'; {USE_STORAGE}")
    ),
    "a file without a name": wrong(
        memory(storage="sqlite:///"), (RANGE, f"memory.storage is 'sqlite:///'; {USE_STORAGE}")
    ),
    "a server of another kind": wrong(
        memory(storage="mysql://mira@db/notes"), (RANGE, f"memory.storage is 'mysql://db/notes'; {USE_STORAGE}")
    ),
    "a number for storage": wrong(memory(storage=5), (TYPE, f"memory.storage is 5; {USE_STORAGE}")),
    "a list for storage": wrong(
        memory(storage=[f"postgresql://mira:{PASSWORD}@db/notes"]),
        (TYPE, f"memory.storage is ['postgresql://mira:[secret:connection_string]@db/notes']; {USE_STORAGE}"),
    ),
    "a password in a URL": wrong(
        memory(storage=f"postgresql://mira:{PASSWORD}@db/notes"), (IN_URL, f"memory.storage {NOT_IN_URL}")
    ),
    "a password in the URL of another kind of server": wrong(
        memory(storage=f"mysql://mira:{PASSWORD}@db/notes"), (IN_URL, f"memory.storage {NOT_IN_URL}")
    ),
    "a password in a query": wrong(
        memory(storage=f"postgresql://mira@db/notes?password={PASSWORD}"),
        (IN_URL, f"memory.storage {NOT_IN_URL}"),
    ),
    "a password in a query, in disguise": wrong(
        memory(storage=f"postgresql:///notes?user=mira&Pass%77ord={PASSWORD}"),
        (IN_URL, f"memory.storage {NOT_IN_URL}"),
    ),
    "a password of a certificate": wrong(
        memory(storage=f"postgresql://db/notes?sslpassword={PASSWORD}"),
        (IN_URL, f"memory.storage {NOT_IN_URL}"),
    ),
    "a password with a slash": wrong(
        memory(storage=f"postgresql://mira:a/{PASSWORD}@db/notes"), (IN_URL, f"memory.storage {NOT_IN_URL}")
    ),
    "a password with a question mark": wrong(
        memory(storage=f"postgresql://mira:a?{PASSWORD}@db/notes"), (IN_URL, f"memory.storage {NOT_IN_URL}")
    ),
    "a password with a hash": wrong(
        memory(storage=f"postgresql://mira:a#{PASSWORD}@db/notes"), (IN_URL, f"memory.storage {NOT_IN_URL}")
    ),
    "a URL that cannot be read": wrong(
        memory(storage=f"postgresql://mira:{PASSWORD}@[db/notes"), (IN_URL, f"memory.storage {NOT_IN_URL}")
    ),
    "words as clients of PostgreSQL take them": wrong(
        memory(storage=f"host=db user=mira password={PASSWORD}"),
        (RANGE, f"memory.storage is '…'; {USE_STORAGE}"),
    ),
    "an empty object for storage": wrong(
        memory(storage={}),
        (ABSENT, "memory.storage.url is missing; give url and credential"),
        (NO_CREDENTIAL, "memory.storage.credential is missing; give url and credential"),
    ),
    "a URL without its credential": wrong(
        memory(storage={"url": "postgresql://mira@db/notes"}),
        (NO_CREDENTIAL, "memory.storage.credential is missing; give url and credential"),
    ),
    "a credential without its URL": wrong(
        memory(storage={"credential": "db"}),
        (ABSENT, "memory.storage.url is missing; give url and credential"),
    ),
    "a misspelt URL": wrong(
        memory(storage={"uri": "postgresql://mira@db/notes", "credential": "db"}),
        (UNKNOWN, "memory.storage.uri is unknown; did you mean url?"),
        (ABSENT, "memory.storage.url is missing; give url and credential"),
    ),
    "a URL with more than its credential": wrong(
        memory(storage={"url": "postgresql://mira@db/notes", "credential": "db", "pool": 5}),
        (UNKNOWN, "memory.storage.pool is unknown; use url, credential"),
    ),
    "a file with a credential": wrong(
        memory(storage={"url": "sqlite:///a.db", "credential": "db"}),
        (TYPE, f"memory.storage.url is 'sqlite:///a.db'; {ONLY_POSTGRES}"),
    ),
    "a name with a credential": wrong(
        memory(storage={"url": "default", "credential": "db"}),
        (TYPE, f"memory.storage.url is 'default'; {ONLY_POSTGRES}"),
    ),
    "a number for a URL": wrong(
        memory(storage={"url": 5, "credential": "db"}), (TYPE, f"memory.storage.url is 5; {ONLY_POSTGRES}")
    ),
    "a password in the URL of another kind, with a credential": wrong(
        memory(storage={"url": f"mysql://mira:{PASSWORD}@db", "credential": "db"}),
        (TYPE, f"memory.storage.url is 'mysql://db'; {ONLY_POSTGRES}"),
    ),
    "a password and a credential": wrong(
        memory(storage={"url": f"postgresql://mira:{PASSWORD}@db/notes", "credential": "db"}),
        (IN_URL, f"memory.storage.url {NOT_IN_URL}"),
    ),
    "a blank credential of a database": wrong(
        memory(storage={"url": "postgresql://mira@db/notes", "credential": ""}),
        (TYPE, "memory.storage.credential is ''; it must be the id of a credential"),
    ),
    "a database with the credential local": wrong(
        memory(storage={"url": "postgresql://mira@db/notes", "credential": "local"}),
        (
            RANGE,
            "memory.storage.credential is 'local', which is for embeddings; name another credential",
        ),
    ),
    # worker models
    "a model that is only named": wrong(
        observing(observerModel="openai/gpt-5-mini"),
        (TYPE, f'{OBSERVER} is \'openai/gpt-5-mini\'; write {{"model": "provider/name", "credential": id}}'),
    ),
    "a switch for a model": wrong(
        remembering(extractorModel=True),
        (TYPE, f'{EPISODIC}.extractorModel is True; write {{"model": "provider/name", "credential": id}}'),
    ),
    "an empty object for a model": wrong(
        observing(observerModel={}),
        (ABSENT, f"{OBSERVER}.model is missing; give model and credential"),
        (NO_CREDENTIAL, f"{OBSERVER}.credential is missing; give model and credential"),
    ),
    "a model without a credential": wrong(
        remembering(reflectorModel={"model": "openai/gpt-5-mini"}),
        (
            NO_CREDENTIAL,
            f"{EPISODIC}.reflectorModel.credential is missing; give model and credential",
        ),
    ),
    "a credential without a model": wrong(
        observing(observerModel={"credential": "main"}),
        (ABSENT, f"{OBSERVER}.model is missing; give model and credential"),
    ),
    "a model with a credential that is null": wrong(
        observing(observerModel=worker(credential=None)),
        (NO_CREDENTIAL, f"{OBSERVER}.credential is missing; give model and credential"),
    ),
    "a model with more than a credential": wrong(
        observing(observerModel=worker() | {"temperature": 0}),
        (UNKNOWN, f"{OBSERVER}.temperature is unknown; use model, credential"),
    ),
    "a model with a key beside it": wrong(
        observing(observerModel={"model": "openai/gpt-5-mini", "apiKey": KEY}),
        (UNKNOWN, f"{OBSERVER}.apiKey is unknown; use model, credential"),
        (NO_CREDENTIAL, f"{OBSERVER}.credential is missing; give model and credential"),
    ),
    "a model at an address": wrong(
        observing(observerModel=worker("openai/gpt@http://evil.example/v1")),
        (RANGE, f"{OBSERVER}.model {NO_ADDRESS}"),
    ),
    "a model at a safe address": wrong(
        observing(observerModel=worker("openai:gpt@https://evil.example/v1")),
        (RANGE, f"{OBSERVER}.model {NO_ADDRESS}"),
    ),
    "a model without a provider": wrong(
        observing(observerModel=worker("gpt-5-mini")),
        (RANGE, f"{OBSERVER}.model is 'gpt-5-mini'; it must be provider/name, such as openai/gpt-5-mini"),
    ),
    "a provider without a model": wrong(
        observing(observerModel=worker("openai/")),
        (RANGE, f"{OBSERVER}.model is 'openai/'; it must be provider/name, such as openai/gpt-5-mini"),
    ),
    "a model with a space in its name": wrong(
        observing(observerModel=worker("openai/gpt 5")),
        (RANGE, f"{OBSERVER}.model is 'openai/gpt 5'; it must be provider/name, such as openai/gpt-5-mini"),
    ),
    "a blank model": wrong(
        observing(observerModel=worker(" ")),
        (TYPE, f"{OBSERVER}.model is ' '; it must be a text such as openai/gpt-5-mini"),
    ),
    "a list for the name of a model": wrong(
        observing(observerModel=worker(["openai/gpt-5-mini"])),
        (TYPE, f"{OBSERVER}.model is ['openai/gpt-5-mini']; it must be a text such as openai/gpt-5-mini"),
    ),
    "a key for the name of a model": wrong(
        observing(observerModel=worker(KEY)),
        (RANGE, f"{OBSERVER}.model is '[secret:api_key]'; it must be provider/name, such as openai/gpt-5-mini"),
    ),
    "a model with the credential local": wrong(
        observing(observerModel=worker(credential="local")),
        (RANGE, f"{OBSERVER}.credential is 'local', which is for embeddings; name another credential"),
    ),
    "a number for the credential of a model": wrong(
        observing(observerModel=worker(credential=5)),
        (TYPE, f"{OBSERVER}.credential is 5; it must be the id of a credential"),
    ),
    "a model that is wrong in both parts": wrong(
        observing(observerModel=worker("gpt", 5)),
        (TYPE, f"{OBSERVER}.credential is 5; it must be the id of a credential"),
        (RANGE, f"{OBSERVER}.model is 'gpt'; it must be provider/name, such as openai/gpt-5-mini"),
    ),
    # two names of one setting
    "two numbers under two names": wrong(
        remembering(maxEntriesPerTurn=3, maxEntriesPerRun=4),
        (
            CONFLICT,
            f"{EPISODIC}.maxEntriesPerRun is 4 and maxEntriesPerTurn is 3; they are two names of one setting, "
            "give one",
        ),
    ),
    "a wrong number under its other name": wrong(
        remembering(maxEntriesPerRun=0), (RANGE, f"{EPISODIC}.maxEntriesPerRun is 0; it must be at least 1")
    ),
    "wrong numbers under both names": wrong(
        remembering(maxEntriesPerRun=0, maxEntriesPerTurn="3"),
        (RANGE, f"{EPISODIC}.maxEntriesPerRun is 0; it must be at least 1"),
        (TYPE, f"{EPISODIC}.maxEntriesPerTurn is '3'; it must be a whole number"),
    ),
    # several at once, and what is off
    "several problems": wrong(
        {
            "semanticRecall": True,
            "memory": {
                "lastMessages": 0,
                "colour": "red",
                "observationalMemory": {"bufferRatio": 2, "observerModel": "gpt"},
                "episodicMemory": {"topK": "5", "maxEntriesPerRun": 1, "maxEntriesPerTurn": 2},
                "storage": "redis",
            },
        },
        (MISPLACED, "semanticRecall stands beside memory; put it into memory"),
        (RANGE, "memory.lastMessages is 0; it must be at least 1"),
        (UNKNOWN, f"memory.colour is unknown; use {FIELDS_OF_MEMORY}"),
        (RANGE, "memory.observationalMemory.bufferRatio is 2; it must be between 0 and 1"),
        (TYPE, f'{OBSERVER} is \'gpt\'; write {{"model": "provider/name", "credential": id}}'),
        (TYPE, f"{EPISODIC}.topK is '5'; it must be a whole number"),
        (RANGE, f"memory.storage is 'redis'; {USE_STORAGE}"),
        NEEDS_KEY,
        (
            CONFLICT,
            f"{EPISODIC}.maxEntriesPerRun is 1 and maxEntriesPerTurn is 2; they are two names of one setting, "
            "give one",
        ),
    ),
    "a wrong field while memory is off": wrong(
        memory(enabled=False, lastMessages=0), (RANGE, "memory.lastMessages is 0; it must be at least 1")
    ),
    "a wrong field while episodic memory is off": wrong(
        memory(episodicMemory={"enabled": False, "topK": 0}),
        (RANGE, f"{EPISODIC}.topK is 0; it must be at least 1"),
    ),
}

TOO_LARGE = "the configuration is nested too deeply, or has a number that is too long; make it smaller"
TEXTS: dict[str, tuple[str, str]] = {
    "no text": ("", "the configuration is no JSON (line 1, column 1); mend it there"),
    "words": ("memory on", "the configuration is no JSON (line 1, column 1); mend it there"),
    "single quotes": ("{'memory': {}}", "the configuration is no JSON (line 1, column 2); mend it there"),
    "a text that breaks off": (
        '{"memory":\n  {"lastMessages": 5',
        "the configuration is no JSON (line 2, column 21); mend it there",
    ),
    "a comma too many": (
        '{"memory": {"lastMessages": 5,}}',
        "the configuration is no JSON (line 1, column 31); mend it there",
    ),
    "two objects": ("{}{}", "the configuration is no JSON (line 1, column 3); mend it there"),
    "a list": ("[]", "the configuration is []; it must be an object"),
    "a text within the text": ('"memory"', "the configuration is 'memory'; it must be an object"),
    "null": ("null", "the configuration is null; it must be an object"),
    "memory twice": (
        '{"memory": {}, "memory": {}}',
        "the configuration has 'memory' twice in one object; leave one of them",
    ),
    "a field twice": (
        '{"memory": {"lastMessages": 5, "enabled": true, "lastMessages": 6}}',
        "the configuration has 'lastMessages' twice in one object; leave one of them",
    ),
    "a field twice, the same": (
        '{"memory": {"episodicMemory": {"topK": 5, "topK": 5}}}',
        "the configuration has 'topK' twice in one object; leave one of them",
    ),
    "a secret twice": (
        json.dumps({KEY: 1})[:-1] + f', "{KEY}": 2}}',
        "the configuration has '[secret:api_key]' twice in one object; leave one of them",
    ),
    "no number": (
        '{"memory": {"observationalMemory": {"bufferRatio": NaN}}}',
        "the configuration has NaN, which is no JSON; write a number",
    ),
    "an endless number": (
        '{"memory": {"observationalMemory": {"idleFlushSeconds": Infinity}}}',
        "the configuration has Infinity, which is no JSON; write a number",
    ),
    "an endless negative number": (
        '{"memory": {"episodicMemory": {"halfLifeDays": -Infinity}}}',
        "the configuration has -Infinity, which is no JSON; write a number",
    ),
    "a number of too many digits": (
        '{"memory": {"lastMessages": ' + "9" * 5_000 + "}}",
        TOO_LARGE,
    ),
    "a text nested too deep": (
        '{"memory": ' + "[" * 100_000 + "]" * 100_000 + "}",
        TOO_LARGE,
    ),
    "a text that is too long": (
        '{"memory": {}}' + " " * 1_000_000,
        "the configuration has 1,000,014 characters; 1,000,000 are the most",
    ),
}

UNSEEN = {
    SECRET: "an id and a key are both texts",
    IN_URL: "nor does a pattern tell a URL with a password from one without",
    CONFLICT: "two fields cannot be compared",
    MISPLACED: "what stands beside memory belongs to the host",
}
"""The rules that the schema cannot see, and why."""

SEEN_ROWS = {"a password in the URL of another kind of server"}
"""The schema refuses it for its kind."""


def is_seen(name: str) -> bool:
    """Whether the schema can know that a configuration is wrong."""
    return name in SEEN_ROWS or not UNSEEN.keys() >= set(WRONG[name].rules)


def error_of(config: Any) -> str:
    """What a configuration is refused with."""
    with pytest.raises(SettingsError) as caught:
        Settings.from_json(config)
    return str(caught.value)


def refusal(config: Any) -> str | None:
    """What a configuration is refused with, None if it is not."""
    try:
        Settings.from_json(config)
    except SettingsError as error:
        return str(error)
    return None


# What is accepted, and what is refused


@pytest.mark.parametrize("name", VALID)
def test_what_is_right_says_exactly_this(name: str) -> None:
    config, values = VALID[name]
    before = copy.deepcopy(config)
    assert stated(Settings.from_json(config)) == values
    assert stated(Settings.from_json(json.dumps(config))) == values
    assert config == before


@pytest.mark.parametrize("name", WRONG)
def test_r11_03_what_is_wrong_is_told_with_all_its_problems(name: str) -> None:
    config, rules, texts = WRONG[name]
    assert error_of(config) == "\n".join(texts)
    problems = read_json(config).problems
    assert tuple(problem.rule for problem in problems) == rules
    assert all(text.startswith(f"{problem.path} ") for problem, text in zip(problems, texts, strict=True))
    assert all("; " in text for text in texts), "the remedy stands behind it"


@pytest.mark.parametrize("more", [0, 1, 1_234])
def test_of_very_many_problems_the_first_are_told(more: int) -> None:
    config = memory(**{f"zz{number}": 0 for number in range(MOST_PROBLEMS + more)})
    told = [f"memory.zz{number} is unknown; use {FIELDS_OF_MEMORY}" for number in range(50)]
    assert error_of(config).splitlines() == [*told, *([f"and {more:,} more"] if more else [])]
    assert len(read_json(config).problems) == MOST_PROBLEMS + more


@pytest.mark.parametrize("name", WRONG)
def test_no_error_shows_a_secret(name: str) -> None:
    shown = error_of(WRONG[name].config)
    assert KEY not in shown
    assert PASSWORD not in shown
    assert KEY[8:] not in shown


@pytest.mark.parametrize("name", TEXTS)
def test_r11_03_a_text_that_is_no_configuration_is_refused(name: str) -> None:
    text, error = TEXTS[name]
    assert error_of(text) == error


def test_the_table_is_large_and_knows_every_rule() -> None:
    assert len(VALID) + len(WRONG) + len(TEXTS) >= 80
    assert {rule for row in WRONG.values() for rule in row.rules} == {
        *UNSEEN,
        TYPE,
        RANGE,
        UNKNOWN,
        ABSENT,
        NO_CREDENTIAL,
    }


def test_every_field_has_a_right_row() -> None:
    paths = {f"{section}.{name}".strip(".") for section, names in FIELDS.items() for name in names}
    right = {path for row in VALID.values() for path in row.values}
    assert paths - right == {"episodic.max_entries_per_run"}, "which is another name"


def test_a_number_beyond_all_numbers_is_refused_however_it_is_written() -> None:
    """1e999 is read as infinity, which cannot be written as JSON again."""
    assert "halfLifeDays" in error_of(
        '{"memory": {"episodicMemory": {"credential": "local", "halfLifeDays": 1e999}}}'
    )
    assert "idleFlushSeconds" in error_of(observing(idleFlushSeconds=float("inf")))
    assert "bufferRatio" in error_of(observing(bufferRatio=float("nan")))


@pytest.mark.parametrize("url", ["postgresql:notes", f"postgresql:mira:{PASSWORD}@db/notes", "postgres:x"])
def test_an_address_without_slashes_is_no_storage(url: str) -> None:
    assert PASSWORD not in error_of(memory(storage=url))


def test_a_password_is_not_shown_because_a_name_was_cut() -> None:
    url = f"postgresql://mira:{PASSWORD * 3}@db.example/notes"
    assert PASSWORD not in error_of(memory(**{url: 1}))


def test_a_name_cannot_forge_another_problem() -> None:
    assert len(error_of(memory(**{"x\nmemory.lastMessages is fine": 1})).splitlines()) == 1


def test_a_secret_in_use_is_never_shown_wherever_it_stands() -> None:
    secret = Secret("correct horse battery staple")
    for config in (
        remembering(credential=secret.reveal()),
        memory(lastMessages=secret.reveal()),
        memory(storage=secret.reveal()),
        memory(**{secret.reveal(): 1}),
        observing(observerModel=secret.reveal()),
    ):
        assert secret.reveal() not in error_of(config)


def test_any_mapping_will_do() -> None:
    config = MappingProxyType({"memory": MappingProxyType({"semanticRecall": MappingProxyType({"topK": 3})})})
    assert stated(Settings.from_json(config)) == VALID["semantic recall tuned"].values


# Episodic memory is on only where it is mentioned


@pytest.mark.parametrize(
    ("config", "is_on"),
    [
        (memory(), False),
        (memory(enabled=True, observationalMemory={}), False),
        (memory(episodicMemory={"enabled": False}), False),
        (memory(episodicMemory={"enabled": False, "credential": "local", "topK": 3}), False),
        (remembering(), True),
        (remembering(enabled=True), True),
    ],
)
def test_episodic_memory_is_on_only_where_it_is_wanted(config: Json, is_on: bool) -> None:
    assert Settings.from_json(config).episodic.enabled is is_on
    assert effective(config, variables={}).settings.episodic.enabled is is_on
    assert effective(Settings.from_json(config), variables={}).settings.episodic.enabled is is_on


def test_session_memory_is_on_unless_it_is_switched_off() -> None:
    assert Settings.from_json(memory()).observational.enabled
    assert not Settings.from_json(observing(enabled=False)).observational.enabled


@pytest.mark.parametrize("section", [{}, {"enabled": True}, {"topK": 3}])
def test_a_caller_who_brings_the_embedder_needs_no_credential(section: Json) -> None:
    config = memory(episodicMemory=section)
    assert read_json(config, has_embedder=True).problems == []
    assert effective(config, embedder="static", variables={}).settings.episodic.enabled


def test_a_caller_who_names_the_database_may_leave_any_name_in_storage() -> None:
    assert read_json(memory(storage="their-store"), any_storage=True).problems == []
    assert effective(memory(storage="their-store"), url="sqlite:///mine.db", variables={}).database_url == (
        "sqlite:///mine.db"
    )
    refused = read_json(memory(storage=f"postgresql://mira:{PASSWORD}@db/n"), any_storage=True).problems
    assert [problem.rule for problem in refused] == [IN_URL]


def test_a_host_may_have_a_name_of_its_own_for_its_database() -> None:
    assert read_json(memory(storage="ours"), storage="ours").problems == []
    assert [problem.rule for problem in read_json(memory(storage="ours"), storage="theirs").problems] == [RANGE]


# There and back

CANONICAL = {
    name: VALID[name].config
    for name in VALID
    if name
    not in {
        "what the host has beside memory",  # belongs to the host
        "semantic recall as it is",  # is written as true
        "semantic recall tuned",  # says that it is on
        "session memory as it is",  # says nothing
        "entries for each turn",  # are written under their other name
        "entries under both names",
        "episodic memory with all it has",
    }
}


@pytest.mark.parametrize("name", CANONICAL)
def test_r11_04_a_canonical_object_comes_back_as_it_was(name: str) -> None:
    assert Settings.from_json(CANONICAL[name]).to_json() == CANONICAL[name]


@pytest.mark.parametrize("name", VALID)
def test_r11_04_what_is_written_means_the_same(name: str) -> None:
    once = Settings.from_json(VALID[name].config)
    again = Settings.from_json(json.dumps(once.to_json(), allow_nan=False))
    assert again == once
    assert stated(again) == stated(once)
    assert again.to_json() == once.to_json()


@pytest.mark.parametrize(
    ("config", "written"),
    [
        (memory(semanticRecall={}), memory(semanticRecall=True)),
        (memory(semanticRecall={"enabled": False}), memory(semanticRecall=False)),
        (memory(semanticRecall={"topK": 3}), memory(semanticRecall={"enabled": True, "topK": 3})),
        (memory(observationalMemory={}), memory()),
        (remembering(maxEntriesPerTurn=3), remembering(maxEntriesPerRun=3)),
        ({"name": "Support"} | memory(enabled=True), memory(enabled=True)),
    ],
)
def test_short_and_other_names_are_written_in_one_way(config: Json, written: Json) -> None:
    assert Settings.from_json(config).to_json() == written


def test_settings_of_python_are_written_as_far_as_they_were_given() -> None:
    mine = Settings(
        last_messages=20,
        semantic_recall=True,
        observational=ObservationalSettings(observer_model=MINI),
        episodic=EpisodicSettings(credential="local", max_entries_per_turn=2),
        storage=StorageSettings(database="postgresql://mira@db/notes", credential="db"),
    )
    written = mine.to_json()
    assert written == memory(
        lastMessages=20,
        semanticRecall=True,
        observationalMemory={"observerModel": worker()},
        episodicMemory={"credential": "local", "maxEntriesPerRun": 2},
        storage={"url": "postgresql://mira@db/notes", "credential": "db"},
    )
    assert Settings.from_json(written) == mine


class Answering:
    """A model of the caller's own."""

    def __repr__(self) -> str:
        return "Answering()"


PYTHON_ONLY: dict[str, tuple[Settings, str]] = {
    "a prompt": (
        Settings(episodic=EpisodicSettings(extraction_prompt="Note it.")),
        "episodic.extraction_prompt is 'Note it.'",
    ),
    "the prompt of a tool": (
        Settings(episodic=EpisodicSettings(recall_tool_prompt="Look it up.")),
        "episodic.recall_tool_prompt is 'Look it up.'",
    ),
    "a model that is an object": (
        Settings(episodic=EpisodicSettings(extractor_model=Answering())),
        "episodic.extractor_model is Answering()",
    ),
    "a model without a credential": (
        Settings(observational=ObservationalSettings(observer_model=WorkerModel("openai/gpt-5-mini"))),
        "observational.observer_model is WorkerModel(model='openai/gpt-5-mini', credential=None)",
    ),
    "a model that is only named": (
        Settings(observational=ObservationalSettings(observer_model="openai/gpt-5-mini")),
        "observational.observer_model is 'openai/gpt-5-mini'",
    ),
    "waiting for what is learned": (Settings(episodic=EpisodicSettings(sync=True)), "episodic.sync is True"),
    "a ranker": (Settings(search=SearchSettings(ranker="rrf-decay")), "search.ranker is 'rrf-decay'"),
    "a profile": (Settings(profile=ProfileSettings(learn=True)), "profile.learn is True"),
    "a budget": (Settings(budget=BudgetSettings(reply_reserve=1)), "budget.reply_reserve is 1"),
    "summaries": (Settings(episodes=EpisodesSettings(max_kept=3)), "episodes.max_kept is 3"),
    "the size of a block": (
        Settings(semantic_recall=SemanticRecallSettings(max_block_tokens=9)),
        "semantic_recall.max_block_tokens is 9",
    ),
    "how messages are kept": (
        Settings(storage=StorageSettings(redact_messages=True)),
        "storage.redact_messages is True",
    ),
    "titles": (Settings(titles="model"), "titles is 'model'"),
}


@pytest.mark.parametrize("name", PYTHON_ONLY)
def test_what_has_no_json_form_is_refused_by_name(name: str) -> None:
    mine, named = PYTHON_ONLY[name]
    with pytest.raises(SettingsError) as caught:
        mine.to_json()
    assert str(caught.value) == f"{named}, which has no JSON form; leave it to Python"


def test_a_key_that_python_was_given_for_an_id_is_not_written() -> None:
    with pytest.raises(SettingsError, match=r"episodic\.credential") as caught:
        Settings(episodic=EpisodicSettings(credential=KEY)).to_json()
    assert KEY not in str(caught.value)


# Changes

IDS = ("main", "openai-2", "Kx9aB2cD3eF4gH5i")
workers = st.builds(worker, st.sampled_from(("openai/gpt-5-mini", "anthropic:claude")), st.sampled_from(IDS))
storages = st.one_of(
    st.sampled_from(("default", "n8n", "sqlite:///a.db", "postgresql://mira@db/notes")),
    st.builds(
        lambda name: {"url": "postgresql://mira@db/notes", "credential": name},
        st.sampled_from(IDS),
    ),
)


def valid_values(rule: Rule) -> st.SearchStrategy[Any]:
    """Values that a rule finds no fault with, as JSON."""
    match rule:
        case Switch():
            return st.booleans()
        case Whole():
            return st.integers(int(rule.least or 0), int(rule.least or 0) + 100_000)
        case Number():
            least = -LARGEST if rule.least is None else rule.least
            return st.floats(least, LARGEST if rule.most is None else rule.most)
        case Choice():
            return st.sampled_from(rule.words)
        case OrFalse():
            return st.just(False) | valid_values(rule.rule)
        case OrNone():
            return valid_values(rule.rule)
        case Model():
            return workers
    raise AssertionError(f"no values are known for {rule}")


def values_of(section: str) -> dict[str, st.SearchStrategy[Any]]:
    """Valid values for each field of a section, by the name it has in JSON."""
    found = {}
    for name in FIELDS[section]:
        path = f"{section}.{name}" if section else name
        is_id = name == "credential"
        found[camel(name)] = (
            st.sampled_from(("local", *IDS)) if is_id else valid_values(rule_at(Settings, path))
        )
    return found


@st.composite
def episodic_objects(draw: st.DrawFn, nulls: bool = False, needs_credential: bool = True) -> Json:
    """Episodic memory; if it has both names of one setting, they say the same, or one is taken out."""
    fields = values_of("episodic")
    credential = fields.pop("credential")
    optional = {name: st.none() | values if nulls else values for name, values in fields.items()}
    required = {"credential": credential} if needs_credential else {}
    found = draw(st.fixed_dictionaries(required, optional=optional))
    if found.get(RUN) is not None and found.get(TURN) is not None:
        found[TURN] = found[RUN]
    return found


def plain_objects(section: str, nulls: bool = False) -> st.SearchStrategy[Json]:
    """Another section."""
    fields = values_of(section)
    optional = {name: st.none() | values if nulls else values for name, values in fields.items()}
    return st.fixed_dictionaries({}, optional=optional)


@st.composite
def configs(draw: st.DrawFn) -> Json:
    """Valid configurations, with something of the host's beside them."""
    sections = {
        "semanticRecall": st.booleans() | plain_objects("semantic_recall"),
        "observationalMemory": plain_objects("observational"),
        "episodicMemory": episodic_objects(),
        "storage": storages,
    }
    found = draw(st.fixed_dictionaries({}, optional=values_of("") | sections))
    return {"name": "Support", "tools": ["search", {"model": "x"}], "memory": found}


@st.composite
def changes(draw: st.DrawFn, config: Json) -> Json:
    """Changes with valid values: fields, nulls, whole models, and switches for sections."""
    now = config["memory"]
    sections: dict[str, st.SearchStrategy[Any]] = {
        "semanticRecall": st.none() | st.booleans() | plain_objects("semantic_recall", nulls=True),
        "observationalMemory": st.none() | plain_objects("observational", nulls=True),
        "episodicMemory": st.none()
        | episodic_objects(nulls=True, needs_credential="episodicMemory" not in now)
        | episodic_objects(nulls=True),
        "storage": st.none() | storages,
    }
    sections["observationalMemory"] |= st.booleans()
    sections["episodicMemory"] |= st.booleans() if "episodicMemory" in now else st.just(False)
    top = {name: st.none() | values for name, values in values_of("").items()}
    return {"memory": draw(st.fixed_dictionaries({}, optional=top | sections))}


def unfolded(config: Json) -> Json:
    """With objects for switches that stand for one."""
    inner = config.get("memory", {})
    names = [name for name in SECTIONS if isinstance(inner.get(name), bool)]
    return config | {"memory": inner | {name: {"enabled": inner[name]} for name in names}}


def mentioned(change: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The paths of all that a change mentions; both names of a setting if it mentions one."""
    for name, value in change.items():
        yield prefix + name
        if name in (RUN, TURN):
            yield from (prefix + RUN, prefix + TURN)
        if isinstance(value, Mapping) and "model" not in value and "url" not in value:
            yield from mentioned(value, f"{prefix}{name}.")


def touched(paths: Iterable[str], change: Json) -> set[str]:
    """Those that a change mentions, or that are within something that it replaces or takes out."""
    whole = unfolded(change)
    names, within = set(mentioned(whole)), tuple(f"{name}." for name, _ in leaves(whole))
    return {path for path in paths if path in names or path.startswith(within)}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_r11_04_a_change_leaves_alone_what_it_does_not_mention(data: st.DataObject) -> None:
    config = data.draw(configs())
    change = data.draw(changes(config))
    kept = copy.deepcopy((config, change))
    before, after = dict(leaves(unfolded(config))), dict(leaves(unfolded(updated(config, change))))
    assert (config, change) == kept, "neither is changed itself"
    for path in before.keys() - touched(before, change):
        assert after[path] == before[path]
    new = after.keys() - before.keys()
    assert touched(new, change) == new
    assert None not in [after[path] for path in new]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_change_says_what_counts(data: st.DataObject) -> None:
    config = data.draw(configs())
    change = data.draw(changes(config))
    after = dict(leaves(unfolded(updated(config, change))))
    for path, value in leaves(unfolded(change)):
        if value is None:
            assert not any(found == path or found.startswith(f"{path}.") for found in after)
        else:
            assert after[path] == value


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_valid_change_of_a_valid_configuration_is_valid(data: st.DataObject) -> None:
    config = data.draw(configs())
    change = data.draw(changes(config))
    assert read_json(config).problems == []
    assert SCHEMA.is_valid(config)
    changed = updated(config, change)
    assert list(map(str, read_json(changed).problems)) == []
    assert SCHEMA.is_valid(changed)
    once = Settings.from_json(changed)
    assert Settings.from_json(json.dumps(once.to_json())) == once


@given(configs())
def test_no_change_and_the_same_again_change_nothing(config: Json) -> None:
    assert updated(config, {}) == config
    assert updated(config, {"memory": {}}) == config
    assert dict(leaves(unfolded(updated(config, config)))) == dict(leaves(unfolded(config)))


@pytest.mark.parametrize(
    ("config", "change", "result"),
    [
        (memory(lastMessages=5, enabled=True), memory(lastMessages=None), memory(enabled=True)),
        (memory(enabled=True), memory(lastMessages=None), memory(enabled=True)),
        (
            memory(enabled=True, episodicMemory={"credential": "x"}),
            memory(episodicMemory=None),
            memory(enabled=True),
        ),
        (
            observing(observerModel=worker("openai/a", "one"), bufferRatio=0.1),
            observing(observerModel=worker("openai/b", "two")),
            observing(observerModel=worker("openai/b", "two"), bufferRatio=0.1),
        ),
        (
            observing(observerModel=worker("openai/a", "one")),
            observing(observerModel={"model": "openai/b"}),
            observing(observerModel={"model": "openai/b"}),
        ),
        (
            memory(storage={"url": "postgresql://a@db/n", "credential": "one"}),
            memory(storage="default"),
            memory(storage="default"),
        ),
        (
            memory(storage={"url": "postgresql://a@db/n", "credential": "one"}),
            memory(storage={"url": "postgresql://b@db/n", "credential": "two"}),
            memory(storage={"url": "postgresql://b@db/n", "credential": "two"}),
        ),
        (remembering(topK=3), memory(episodicMemory=False), remembering(topK=3, enabled=False)),
        (
            memory(semanticRecall={"topK": 3}),
            memory(semanticRecall=False),
            memory(semanticRecall={"topK": 3, "enabled": False}),
        ),
        (
            memory(semanticRecall=False),
            memory(semanticRecall={"topK": 3}),
            memory(semanticRecall={"enabled": False, "topK": 3}),
        ),
        (memory(semanticRecall=False), memory(semanticRecall=True), memory(semanticRecall=True)),
        (memory(), memory(semanticRecall=True), memory(semanticRecall=True)),
        (memory(), memory(semanticRecall=False), memory(semanticRecall=False)),
        (memory(), memory(observationalMemory=True), observing(enabled=True)),
        (
            memory(lastMessages=5),
            memory(observationalMemory=False),
            memory(lastMessages=5, observationalMemory={"enabled": False}),
        ),
        (memory(), memory(episodicMemory=True), memory(episodicMemory={"enabled": True})),
        (memory(), memory(episodicMemory=False), memory(episodicMemory={"enabled": False})),
        (remembering(maxEntriesPerRun=3), remembering(maxEntriesPerTurn=4), remembering(maxEntriesPerTurn=4)),
        (remembering(maxEntriesPerTurn=3), remembering(maxEntriesPerRun=4), remembering(maxEntriesPerRun=4)),
        (remembering(maxEntriesPerTurn=3), remembering(maxEntriesPerRun=None), remembering()),
        (
            remembering(maxEntriesPerTurn=3, topK=2),
            memory(episodicMemory={"credential": "main"}),
            remembering(maxEntriesPerTurn=3, topK=2, credential="main"),
        ),
        (
            {"name": "Support"} | memory(lastMessages=5),
            memory(lastMessages=6),
            {"name": "Support"} | memory(lastMessages=6),
        ),
    ],
)
def test_changes_by_example(config: Json, change: Json, result: Json) -> None:
    assert updated(config, change) == result


@pytest.mark.parametrize("section", ["semanticRecall", "observationalMemory", "episodicMemory"])
def test_to_take_a_field_out_of_what_is_not_there_changes_nothing(section: str) -> None:
    """An empty section is not the same as none: it switches semantic recall on."""
    assert updated(memory(lastMessages=5), memory(**{section: {"topK": None}})) == memory(lastMessages=5)


# The schema


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema())
    assert json.loads(json.dumps(schema(), allow_nan=False)) == schema()


@pytest.mark.parametrize("name", VALID)
def test_r11_12_the_schema_accepts_what_is_right(name: str) -> None:
    assert [error.message for error in SCHEMA.iter_errors(VALID[name].config)] == []


@pytest.mark.parametrize("name", [name for name in WRONG if is_seen(name)])
def test_r11_12_the_schema_refuses_all_that_it_can_see(name: str) -> None:
    assert not SCHEMA.is_valid(json.loads(json.dumps(WRONG[name].config, default=str)))


@pytest.mark.parametrize("name", [name for name in WRONG if not is_seen(name)])
def test_the_schema_cannot_see_the_rest(name: str) -> None:
    assert SCHEMA.is_valid(WRONG[name].config)


def test_the_schema_says_the_defaults() -> None:
    parts = schema()["properties"]["memory"]["properties"]
    assert parts["lastMessages"] == {"type": "integer", "minimum": 1, "maximum": LARGEST, "default": 20}
    assert parts["observationalMemory"]["properties"]["observerThresholdTokens"]["default"] == 30_000
    assert parts["observationalMemory"]["properties"]["bufferRatio"]["maximum"] == 1
    assert parts["observationalMemory"]["properties"]["idleFlushSeconds"]["maximum"] == LARGEST
    episodic = parts["episodicMemory"]["properties"]
    assert {name: episodic[name]["default"] for name in ("topK", RUN, TURN, "maxEntryLength")} == {
        "topK": 5,
        RUN: 5,
        TURN: 5,
        "maxEntryLength": 2_000,
    }
    assert "default" not in episodic["credential"]


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
proper = st.characters(exclude_categories=("Cs",))  # what UTF-8 can say; to name the codec takes a second
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(st.characters(), max_size=8))
names = st.sampled_from(
    sorted(
        {
            "memory",
            "storage",
            "url",
            "model",
            "credential",
            *SECTIONS,
            *(camel(n) for s in FIELDS.values() for n in s),
        }
    )
)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(names | st.text(proper, max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
PLACES = [(section, name) for section, names_of in FIELDS.items() for name in names_of] + [("", "storage")]


def placed(section: str, name: str, value: Any) -> Json:
    """A configuration that is right but for this field."""
    if not section:
        return memory(**{camel(name): value})
    own = next(json_name for json_name, python in SECTIONS.items() if python == section)
    right = {"credential": "local"} if section == "episodic" else {}
    return memory(**{own: right | {camel(name): value}})


@settings(max_examples=300)
@given(st.sampled_from(PLACES), json_values)
def test_r11_12_the_schema_and_the_reader_agree_about_any_field(place: tuple[str, str], value: Any) -> None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # the next test is about these
    config = placed(*place, value)
    problems = [problem for problem in read_json(config).problems if problem.rule not in UNSEEN]
    assert SCHEMA.is_valid(config) == (problems == [])


@pytest.mark.parametrize(
    "config",
    [
        memory(lastMessages=20.0),  # to JSON Schema this is an integer
        remembering(maxEntriesPerTurn=3.0),
        remembering(maxEntriesPerRun=3.0),
        memory(lastMessages=10**15),
        memory(lastMessages=10**15 + 1),
        remembering(halfLifeDays=10**15 + 1),
        remembering(halfLifeDays=-(10**15) - 1),
        observing(idleFlushSeconds=-(10**15) - 1),
        memory(storage="postgresql://"),
    ],
    ids=json.dumps,
)
def test_r11_12_the_schema_and_the_reader_agree_about_the_edges(config: Json) -> None:
    assert SCHEMA.is_valid(config) == (read_json(config).problems == [])


# Anything at all


@settings(max_examples=200)
@given(json_values)
def test_reading_anything_fails_only_in_words(value: Any) -> None:
    for config in (value, {"memory": value}, {"memory": {"episodicMemory": value, "storage": value}}):
        started = time.process_time()
        assert refusal(config) != ""
        assert time.process_time() - started < SECONDS


@settings(max_examples=200)
@given(
    st.text(proper, max_size=40)
    | json_values.map(json.dumps)
    | st.text('[]{}":,0truefalsn1e- memory', max_size=30)
)
def test_reading_any_text_fails_only_in_words(text: str) -> None:
    assert refusal(text) != ""


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "config",
    [
        {"memory": nested(50_000)},
        memory(lastMessages=nested(50_000)),
        memory(lastMessages=10**5_000 * -1),
        memory(storage=10**5_000),
        memory(episodicMemory={"credential": 10**5_000}),
    ],
    ids=["a deep memory", "a deep value", "a long negative number", "a long number", "a long id"],
)
def test_deep_and_long_values_of_python_are_refused_in_words(config: Json) -> None:
    with pytest.raises(SettingsError):
        Settings.from_json(config)


HOSTILE = {
    "many names, one of them twice": lambda: "{" + ",".join(f'"{n}":0' for n in (*range(30_000), 29_999)) + "}",
    "many slashes": lambda: json.dumps(memory(storage="/" * 150_000)),
    "many unknown fields": lambda: json.dumps(memory(**{f"field{n}": 0 for n in range(10_000)})),
    "many at signs": lambda: json.dumps(memory(storage="postgresql://" + "a:b@" * 100_000)),
    "a long name": lambda: json.dumps(memory(**{"lastMessages" * 50_000: 1})),
    "a long credential": lambda: json.dumps(remembering(credential="q" * 500_000)),
    "a long model": lambda: json.dumps(observing(observerModel=worker("a" * 500_000))),
    "a long list": lambda: json.dumps(memory(lastMessages=list(range(100_000)))),
    "deep objects": lambda: '{"memory":' * 80_000 + "{}" + "}" * 80_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused_at_once(name: str) -> None:
    text = HOSTILE[name]()
    started = time.process_time()
    assert error_of(text)
    assert time.process_time() - started < SECONDS
