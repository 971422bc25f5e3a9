"""No password of a mistyped URL is told: not in errors, tracebacks, logs or output."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterator

import pytest
from commands import invoke

from casenotes import Memory, Settings
from casenotes.config import StorageSettings
from casenotes.config.settings import without_password
from casenotes.errors import CasenotesError, SettingsError, StoreError, StoreUnavailable
from casenotes.stores import create_store
from casenotes.stores.postgres.connect import store_errors

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

FIRST, LAST = "hunterZwei", "KoenigQed"
"""The password and its second half: whatever stands between them, neither may be told."""

PLACE = "127.0.0.1:1/db"
BAD_URLS = [
    *(f"postgresql://ann:{FIRST}{between}{LAST}@{PLACE}" for between in "@%/?#:[] &=\\;|+\t\u2100"),
    f"postgresql://ann:{FIRST}%zz{LAST}@{PLACE}",
    f"postgresql://ann:{FIRST}%00{LAST}@{PLACE}",
    f"postgresql://ann:{FIRST}@{LAST}@{PLACE}?application_name=x",
    f"postgresql://ann:{FIRST}/db",
    f"postgresql://ann:{FIRST}",
    f"postgresql://:{FIRST}@{PLACE}",
    f"postgresql://ann:{FIRST}@127.0.0.1:{LAST}/db",
    f"postgresql://ann:{FIRST}@[{LAST}/db",
    f"postgresql://[ann:{FIRST}]/db",
    f"postgresql:///ann:{FIRST}@{PLACE}",
    f"postgresql:/ann:{FIRST}@{PLACE}",
    f"postgresql:ann:{FIRST}@{PLACE}",
    f"postgresql:\\\\ann:{FIRST}@{PLACE}",
    f"postgres//ann:{FIRST}@{PLACE}",
    f"PostgreSQL://ann:{FIRST}@{LAST}@{PLACE}",
    f"postgresql+psycopg://ann:{FIRST}@{PLACE}",
    f"mysql://ann:{FIRST}@{LAST}@{PLACE}",
    f"postgresql://{PLACE}?user=ann&password={FIRST}",
    f"postgresql://127.0.0.1:1?user=ann&password={FIRST}@{LAST}",
    f"postgresql://{PLACE}?user=ann&password={FIRST}%",
    f"postgresql://{PLACE}?user=ann&pasword={FIRST}",
    f"host=127.0.0.1 port=1 user=ann password={FIRST}",
    f"postgresql:host=127.0.0.1 port=1 password={FIRST}",
    f"host=127.0.0.1 password='{FIRST} {LAST}'",
    f"ann:{FIRST}@{PLACE}",
    f"//ann:{FIRST}@{PLACE}",
    f" postgresql://ann:{FIRST}@{PLACE}",
    f"sqlite://ann:{FIRST}@{PLACE}",
    f"sqlite:///ann:{FIRST}@{PLACE}",
    f"sqlite:ann:{FIRST}@{PLACE}",
    f"sqlite:///memory.db?password={FIRST}",
    f"sqlite://?key={FIRST}",
    f"sqlite:////nowhere/ann:{FIRST}@host/memory.db",
]


def links(error: BaseException | None) -> Iterator[BaseException]:
    """The error and all that led to it, suppressed or not."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def is_told(text: str) -> bool:
    return any(part.lower() in text.lower() for part in (FIRST, LAST))


def told(error: BaseException) -> str:
    chain = "".join(f"{link!s} {link!r} {link.args}" for link in links(error))
    return chain + "".join(traceback.format_exception(error))


@pytest.mark.parametrize("url", BAD_URLS)
def test_r11_13_no_password_of_a_mistyped_url_is_told(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    quick = Settings(storage=StorageSettings(connect_timeout_seconds=0.5))
    events: list[str] = []

    async def opened() -> None:
        async with Memory.open(url, config=quick, on_event=lambda event: events.append(repr(event))):
            pass

    with pytest.raises(CasenotesError) as caught:
        asyncio.run(opened())
    shown = told(caught.value)
    for wrong in (
        lambda: StorageSettings(database=url),
        lambda: Settings.from_json({"memory": {"enabled": True, "storage": url}}),
    ):
        try:
            shown += repr(wrong())
        except CasenotesError as error:
            shown += told(error)
    code = 2 if isinstance(caught.value, SettingsError) else 1
    for command in (["stats"], ["stats", "--json"]):
        done = invoke(*command, "--db", url, code=code)
        shown += done.stdout + done.stderr
        done = invoke(*command, CASENOTES_DATABASE_URL=url, code=code)
        shown += done.stdout + done.stderr
    done = invoke("config", "show", "--json", CASENOTES_DATABASE_URL=url)
    shown += done.stdout + done.stderr + caplog.text + "".join(events)
    assert not is_told(shown), shown


def test_r11_13_a_well_formed_url_is_shown_without_its_password() -> None:
    assert len(BAD_URLS) >= 30
    for url, shown in {
        f"postgresql://ann:{FIRST}@db.example:5432/notes?sslmode=require": "postgresql://ann@db.example:5432/notes",
        f"postgresql://ann:{FIRST}@one:1,two:2/notes": "postgresql://ann@one:1,two:2/notes",
        f"postgresql://ann:{FIRST}%40@[::1]:5432/notes": "postgresql://ann@[::1]:5432/notes",
        "postgresql://%2Frun%2Fpostgresql/notes": "postgresql://%2Frun%2Fpostgresql/notes",
        "postgresql:///notes?host=/run/postgresql": "postgresql:///notes",
    }.items():
        assert create_store(url).location == shown
    assert without_password("sqlite:////data/a@b/my notes.db") == "sqlite:////data/a@b/my notes.db"
    assert without_password("openai:gpt@http://localhost:8080/v1") == "…http://localhost:8080/v1"
    with pytest.raises(SettingsError, match=r"'casenotes\.db' is not understood"):
        create_store("casenotes.db")


async def test_r11_13_what_a_driver_tells_is_masked_at_one_seam() -> None:
    psycopg = pytest.importorskip("psycopg")
    url = f"postgresql://ann:{FIRST}@{PLACE}"
    with pytest.raises(StoreUnavailable, match="check that the server runs") as caught:
        await create_store(url, StorageSettings(connect_timeout_seconds=0.5)).open()
    assert not is_told(told(caught.value))
    with pytest.raises(StoreError, match="secret:password") as caught:
        await fail_with(psycopg.OperationalError)
    assert not is_told(told(caught.value))


async def fail_with(kind: type[Exception]) -> None:
    async with store_errors("postgresql://ann@db", [FIRST]):
        try:
            raise ValueError(f"read {FIRST}")
        except ValueError:
            raise kind(f"cannot use {FIRST}\nas password={LAST}!") from None


@pytest.mark.parametrize("between", ["@htp://ann:", "@http://ann:", "@http:/ann:", "//ann:", "@htp:/ann:"])
@pytest.mark.parametrize("start", ["openai:gpt", "openai", "http:"])
def test_r11_13_no_password_of_a_models_address_is_told(start: str, between: str) -> None:
    name = f"{start}{between}{FIRST}@127.0.0.1:1/v1"

    async def opened(**options: str) -> None:
        async with Memory.open("sqlite:///:memory:", **options):
            pass

    for option in ("model", "embedder"):
        with pytest.raises(SettingsError) as caught:
            asyncio.run(opened(**{option: name}))
        assert not is_told(told(caught.value))
