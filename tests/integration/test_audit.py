"""An audit finds every planted fault and nothing else, and takes out what fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from conversation import JONAS, LATER, MIRA, NOW, entry, opened, settings, turn
from storage import run

from casenotes import Memory, Scope
from casenotes.stores.learned_rows import quote_hash
from casenotes.testing import ScriptedModel

FACTS = {
    "good": "The certificate of mail-1 expired on Friday.",
    "moved": "The queue of mail-2 grew to 900 letters.",
    "changed": "The filter of mail-3 refused all newsletters.",
    "gone": "The archive of mail-4 was copied to the cellar.",
    "role": "The relay of mail-5 was restarted by the night shift.",
    "bare": "The mirror of mail-6 ran without any power supply.",
    "value": "The greylist of mail-7 kept strangers waiting.",
    "secret": "The console of mail-8 was locked for an hour.",
    "echo": "The backup tape of mail-9 was found unreadable in the vault on the second floor.",
    "twin": "The scanner of mail-10 overlooked a worm in the attachment.",
    "loose": "The timer of mail-11 fired an hour too early.",
}


def learner() -> ScriptedModel:
    def answer(request: object) -> dict[str, object]:
        prompt = request.prompt.partition("<transcript>")[2]  # type: ignore[attr-defined]
        return {"entries": [entry(text, text) for text in FACTS.values() if text in prompt]}

    return ScriptedModel(answer)


async def filled(memory: Memory, scope: Scope = MIRA) -> dict[str, str]:
    """A healthy store: ids of entries by name."""
    ids = {}
    for name, text in FACTS.items():
        receipt = await turn(memory, replace(scope, thread_id=f"thread-{name}"), text)
        ids[name] = str(receipt.candidates[0].entry_id)
    return ids


def plant(url: str, ids: dict[str, str], agent: str = "support") -> None:
    def change(table: str, what: str, name: str, *values: object) -> None:
        run(url, f"UPDATE {table} SET {what} WHERE entry_id = ?", *values, ids[name])

    rows, of_message = "messages", "item_id = ?"
    if url.startswith("sqlite"):
        rows, of_message = "message_rows", "message IN (SELECT number FROM messages WHERE message_id = ?)"
    change("evidence", "start = start + 1, stop = stop + 1", "moved")
    message = run(url, "SELECT message_id FROM evidence WHERE entry_id = ?", ids["changed"])[0][0]
    run(url, f"UPDATE {rows} SET text = 'Nothing of the kind, mail-3.' WHERE message_id = ?", message)
    message = run(url, "SELECT message_id FROM evidence WHERE entry_id = ?", ids["gone"])[0][0]
    run(url, f"DELETE FROM vectors WHERE {of_message}", message)
    run(url, f"DELETE FROM {rows} WHERE message_id = ?", message)
    message = run(url, "SELECT message_id FROM evidence WHERE entry_id = ?", ids["role"])[0][0]
    run(url, f"UPDATE {rows} SET role = 'tool' WHERE message_id = ?", message)
    run(url, "DELETE FROM evidence WHERE entry_id = ?", ids["bare"])
    change("entries", "content = 'The greylist of mail-7 kept 4711 strangers waiting.'", "value")
    change("entries", "content = 'The console of mail-8 has the password: Xk29!vQp7'", "secret")
    flag = "0" if url.startswith("sqlite") else "false"
    change("entries", f"verified = {flag}", "loose")


class TestFaults:
    async def test_a_healthy_store_passes(self, store_url: str) -> None:
        async with opened(store_url, learner()) as memory:
            await filled(memory)
            found = await memory.audit()
            assert (found.entries, found.failed) == (len(FACTS), ())

    async def test_every_planted_fault_is_found_and_nothing_else(self, store_url: str) -> None:
        async with opened(store_url, learner(), config=settings(reflect=False)) as memory:
            ids = await filled(memory)
            twin = await _twin(memory, ids, store_url)
            echo = await _echo(memory, ids, store_url)
        plant(store_url, ids)
        async with opened(store_url) as memory:
            found = await memory.audit()
            failing = sorted((fault.kind, fault.entry_id) for fault in found.failed)
            assert failing == sorted(
                [
                    *(("evidence", ids[name]) for name in ("moved", "changed", "gone", "role", "bare")),
                    ("unsupported", ids["value"]),
                    ("secret", ids["secret"]),
                    ("duplicate", twin),
                    ("echo", echo),
                ]
            )
            assert [f.entry_id for f in found.faults if f.kind == "unverified"] == [ids["loose"]]
            details = {fault.entry_id: fault.detail for fault in found.faults if fault.kind != "never_recalled"}
            assert "4711" in details[ids["value"]]
            assert "no evidence" in details[ids["bare"]]
            assert "is gone" in details[ids["gone"]]
            assert "role tool" in details[ids["role"]]
            assert "Xk29" not in repr(found)

    async def test_what_fails_is_dropped_and_can_be_taken_back(self, store_url: str) -> None:
        async with opened(store_url, learner(), config=settings(reflect=False)) as memory:
            ids = await filled(memory)
            twin = await _twin(memory, ids, store_url)
        plant(store_url, ids)
        async with opened(store_url) as memory:
            before = {fault.entry_id for fault in (await memory.audit()).failed}
            fixed = await memory.audit(fix=True)
            assert (set(fixed.dropped), fixed.failed) == (before, ())
            again = await memory.audit()
            assert again.failed == ()
            kept = (await memory.entries(MIRA, [ids["twin"]]))[ids["twin"]]
            assert len(kept.evidence) == 2, "a duplicate leaves its evidence"
            assert (await memory.entries(MIRA, [twin]))[twin].status == "dropped"
            for revision in fixed.revisions:
                await memory.undo(MIRA, revision)
            restored = {fault.entry_id for fault in (await memory.audit()).failed}
            assert restored == before - {twin}, "its own vector, made anew, is no longer the planted one"

    async def test_one_scope_can_be_audited(self, sqlite_url: str) -> None:
        async with opened(sqlite_url, learner()) as memory:
            await filled(memory, MIRA)
            ids = await filled(memory, JONAS)
        run(sqlite_url, "DELETE FROM evidence WHERE entry_id = ?", ids["good"])
        async with opened(sqlite_url) as memory:
            assert (await memory.audit(MIRA)).failed == ()
            (fault,) = (await memory.audit()).failed
            assert (fault.scope, fault.entry_id) == (JONAS.owner, ids["good"])

    async def test_what_was_shown_is_not_counted_as_never_recalled(self, sqlite_url: str) -> None:
        async with opened(sqlite_url, learner()) as memory:
            ids = await filled(memory)
            await turn(memory, LATER, f"Tell me about this: {FACTS['good']}")
            never = {f.entry_id for f in (await memory.audit()).faults if f.kind == "never_recalled"}
            assert ids["good"] not in never


class TestHealthyEntries:
    async def test_corroboration_under_another_label_is_sound(self, store_url: str) -> None:
        said = "The certificate of mail-1 expired on Friday."
        labels = iter(["user_assertion", "verified_assistant_finding"])
        model = ScriptedModel(
            lambda request: {"entries": [entry(said, said, next(labels))]} if request.task == "extract" else {}
        )
        async with opened(store_url, model) as memory:
            await turn(memory, MIRA, said)
            receipt = await turn(memory, LATER, "What did you find?", f"I looked: {said}")
            assert receipt.candidates[0].status == "corroborated"
            assert (await memory.audit()).failed == ()

    async def test_of_two_alike_the_one_the_user_asked_to_keep_stays(self, sqlite_url: str) -> None:
        async with opened(sqlite_url, learner()) as memory:
            ids = await filled(memory)
            twin = await _twin(memory, ids, sqlite_url)
            run(sqlite_url, "UPDATE entries SET origin = 'remembered' WHERE entry_id = ?", twin)
            (fault,) = (await memory.audit()).failed
            assert (fault.kind, fault.entry_id, fault.other) == ("duplicate", ids["twin"], twin)


async def _twin(memory: Memory, ids: dict[str, str], url: str) -> str:
    """A second entry that says what the first says, as a store without similarity would have it."""
    said = "In the attachment, the scanner of mail-10 overlooked a worm."
    memory._clock.set(NOW + timedelta(days=1))
    kept = await memory.remember(replace(MIRA, thread_id="twin"), said)
    run(url, "UPDATE entries SET origin = 'learned' WHERE entry_id = ?", kept.id)
    store = memory._store
    space = (await store.spaces())[0]
    vectors = {row.id: row for row in (await store.changes(MIRA, space.id, 0)).vectors}
    await store.put_vectors(MIRA, space.id, [replace(vectors[ids["twin"]], id=kept.id)])
    return kept.id


async def _echo(memory: Memory, ids: dict[str, str], url: str) -> str:
    """An entry that rests on the assistant repeating what it was shown; the guard is gone round by SQL."""
    scope = replace(MIRA, thread_id="echo")
    begun = await memory.begin(scope, "What happened to the backup tape of mail-9 in the vault?")
    assert FACTS["echo"] in begun.context.text
    said = f"As you know: {FACTS['echo']} Nobody has touched it since then."
    await memory.complete(begun, said, sync=True)
    fact = "Nobody has touched the tape of mail-9 since it was found."
    kept = await memory.remember(scope, fact)
    answer = (await memory.history(scope))[1]
    run(
        url,
        "UPDATE evidence SET message_id = ?, start = ?, stop = ?, quote_hash = ? WHERE entry_id = ?",
        answer.id,
        13,
        13 + len(FACTS["echo"]),
        quote_hash(FACTS["echo"]),
        kept.id,
    )
    run(url, "UPDATE entries SET source = 'verified_assistant_finding' WHERE entry_id = ?", kept.id)
    receipts = (
        "INSERT INTO receipts SELECT agent_id, resource_id, 'echo', ?, 99, 'stored', '', '', content, source, "
        "'[]', entry_id, created_at FROM entries WHERE entry_id = ?"
    )
    run(url, receipts, begun.id, kept.id)
    return kept.id
