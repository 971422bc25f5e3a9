"""`casenotes audit`, `rebuild` and `erase`: what an operator does with whole memories."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from casenotes.cli.curate import Yes, confirmed, undo_hint
from casenotes.cli.options import Agent, Db, Json, Resource, check_exists, open_memory, without_deadline
from casenotes.cli.output import (
    console,
    errors,
    excerpt,
    heading,
    print_json,
    print_table,
    progress_bar,
    spinner,
)
from casenotes.config import DEFAULT_AGENT, JobSettings, Settings, effective
from casenotes.curate.audit import FAILING, Audit, Fault
from casenotes.curate.erase import Erased
from casenotes.curate.rebuild import Estimate, Rebuild
from casenotes.errors import UsageError
from casenotes.memory import Memory
from casenotes.types import Scope

SHOWN = 20
EXCERPT_CHARACTERS = 160
MEANING = {
    "evidence": "a quote is not where it was noted",
    "unsupported": "names what nobody said in the conversation",
    "duplicate": "says what an older entry says",
    "echo": "rests on the assistant repeating its memory",
    "secret": "holds a secret",
    "unverified": "evidence was never checked",
    "never_recalled": "no model was ever shown it",
}


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("audit")(audit_command)
    app.command("rebuild")(rebuild_command)
    app.command("erase")(erase_command)


def audit_command(
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", help="Only this agent. Default: all.")
    ] = None,
    resource: Annotated[
        str | None, typer.Option("--resource", metavar="ID", help="Only this user or customer. Default: all.")
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Drop what fails; `undo` takes it back.")] = False,
    db: Db = None,
    json: Json = False,
) -> None:
    """Verify every entry against its source again; exit code 1 if something fails.

    Without --agent and --resource the whole store is looked at. Entries that were never checked or
    never recalled are counted, but do not fail.
    """
    with spinner("Verifying", not json):
        found = asyncio.run(_audit(db, agent, resource, fix))
    if json:
        print_json({"entries": found.entries, "counts": found.counts, "faults": found.faults, **_fixed(found)})
    else:
        _print_audit(found)
    if found.failed:
        raise typer.Exit(1)


async def _audit(db: str | None, agent: str | None, resource: str | None, fix: bool) -> Audit:
    async with open_memory(db) as memory:
        if resource is not None:
            return await memory.audit(Scope(agent or DEFAULT_AGENT, resource), fix=fix)
        scopes = [s.scope for s in await memory.scopes() if agent in (None, s.agent_id)]
        found = [await memory.audit(scope, fix=fix) for scope in scopes]
        return sum(found, start=Audit(0, ()))


def _fixed(found: Audit) -> dict[str, Any]:
    return {"dropped": found.dropped, "revisions": found.revisions}


def _print_audit(found: Audit) -> None:
    console.print(f"{found.entries} entries were verified against their sources.")
    rows = [[kind, count, MEANING[kind]] for kind, count in found.counts.items()]
    print_table(["fault", "entries", "meaning"], rows)
    failing = [fault for fault in found.faults if fault.kind in FAILING]
    for fault in failing[:SHOWN]:
        _print_fault(fault)
    if len(failing) > SHOWN:
        console.print(f"… and {len(failing) - SHOWN} more; --json lists all")
    if found.dropped:
        console.print(f"{len(found.dropped)} entries were dropped; revisions: {', '.join(found.revisions)}")
    elif failing:
        console.print("`casenotes audit --fix` drops them, which can be undone.", markup=False)
    else:
        console.print("Nothing fails.")


def _print_fault(fault: Fault) -> None:
    where = f"{fault.scope.resource_id}  {fault.entry_id}"
    console.print(Text.assemble((fault.kind, "yellow"), "  ", (excerpt(where, 100), "dim")))
    for text in (fault.content, f"→ {fault.detail}"):
        console.print(Padding(Text(excerpt(text, EXCERPT_CHARACTERS)), (0, 0, 0, 3)))


def rebuild_command(
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME", help="provider:name. Default: CASENOTES_MODEL.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate calls and tokens.")] = False,
    yes: Yes = False,
    db: Db = None,
    json: Json = False,
) -> None:
    """Derive a user's entries again from the message log with the current model and prompts.

    The new entries are made beside the old ones and the difference is shown before anything changes. What
    the user asked to keep stays; `undo` takes the switch back.
    """
    asyncio.run(_rebuild(db, Scope(agent, resource), model, dry_run=dry_run, yes=yes, json=json))


async def _rebuild(
    db: str | None, scope: Scope, model: str | None, *, dry_run: bool, yes: bool, json: bool
) -> None:
    environment = effective()
    url = db or environment.database_url
    check_exists(url)
    if not (model or environment.model):
        raise UsageError("no model to derive entries with; give --model provider:name, or set CASENOTES_MODEL")
    apart = without_deadline(Settings(jobs=JobSettings(in_process=False)))  # no other work meanwhile
    async with Memory.open(url, model=model, config=apart) as memory:
        estimate = await memory.estimate_rebuild(scope)
        if not json:
            _print_estimate(estimate)
        if dry_run:
            return print_json({"estimate": estimate, "dry_run": True}) if json else None
        plan = await _with_progress(memory, scope, estimate, show=not json)
        if not json:
            _print_difference(plan)
        revision = None
        if plan.is_different and confirmed("Switch to the new entries?", yes):
            revision = await memory.switch_to(plan)
        if json:
            print_json({"estimate": estimate, **_difference(plan), "revision": revision})
        elif revision:
            console.print(
                f"Switched. {undo_hint(revision, scope.agent_id, scope.resource_id, db)}", markup=False
            )
    return None


async def _with_progress(memory: Memory, scope: Scope, estimate: Estimate, *, show: bool) -> Rebuild:
    with progress_bar(show) as bar:
        task = bar.add_task("learning again", total=estimate.turns) if bar else None

        def tell(done: int, total: int) -> None:
            if bar is not None and task is not None:
                bar.update(task, completed=done, total=total)

        return await memory.rebuild(scope, progress=tell)


def _print_estimate(estimate: Estimate) -> None:
    console.print(
        f"{estimate.turns} turns: {estimate.calls} calls with about {estimate.input_tokens} input tokens, "
        "and some more where new entries meet others."
    )


def _difference(plan: Rebuild) -> dict[str, Any]:
    return {
        "failed_turns": plan.failed,
        "kept": len(plan.kept),
        "added": plan.added,
        "gone": plan.gone,
        "changed": [{"old": pair.old, "new": pair.new} for pair in plan.changed],
    }


def _print_difference(plan: Rebuild) -> None:
    counts = [len(part) for part in (plan.kept, plan.added, plan.gone, plan.changed)]
    print_table(["kept", "added", "gone", "changed"], [counts])
    if plan.failed:
        told = f"{len(plan.failed)} turns could not be learned from again; what they had taught stays."
        errors.print(told, style="yellow")
    _print_texts("Added", "green", [entry.content for entry in plan.added])
    _print_texts("Gone", "red", [entry.content for entry in plan.gone])
    _print_texts("Changed", "yellow", [f"{pair.old.content} → {pair.new.content}" for pair in plan.changed])


def _print_texts(title: str, style: str, texts: Sequence[str]) -> None:
    if texts:
        heading(title)
    for text in texts[:SHOWN]:
        console.print(Padding(Text(excerpt(text, 2 * EXCERPT_CHARACTERS), style=style), (0, 0, 0, 3)))
    if len(texts) > SHOWN:
        console.print(f"   … and {len(texts) - SHOWN} more; --json lists all")


def erase_command(
    resource: Resource,
    agent: Agent = DEFAULT_AGENT,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="Only this conversation, with what it taught.")
    ] = None,
    no_scrub: Annotated[
        bool,
        typer.Option("--no-scrub", help="Only remove the rows; their bytes stay until they are overwritten."),
    ] = False,
    yes: Yes = False,
    db: Db = None,
    json: Json = False,
) -> None:
    """Remove a user, or one of their conversations, with everything derived from it, for good.

    The store's files are rewritten, which takes a while and holds up others, and every byte of them is
    searched for remains; exit code 1 unless all of it was looked for, nothing was found and nothing is left to
    do. Repeat the command then: it looks again for what was removed. This cannot be undone, and backups are
    out of reach.
    """
    scope = Scope(agent, resource, thread)
    if not confirmed(f"Erase {thread or resource} for good?", yes):
        raise typer.Exit(1)
    with spinner("Erasing", not json):
        erased = asyncio.run(_erase(db, scope, scrub=not no_scrub))
    if json:
        residue = erased.residue
        print_json(
            {
                "rows": erased.rows,
                "scrubbed": erased.scrubbed,
                "not_done": erased.not_done,
                "proven": erased.is_proven,
                "residue": {
                    "files": residue.files,
                    "bytes": residue.bytes_read,
                    "pieces": residue.pieces,
                    "left": len(residue.left),
                    "skipped": residue.skipped,
                },
            }
        )
    else:
        _print_erased(erased)
    if not (erased.is_proven or no_scrub):
        raise typer.Exit(1)


async def _erase(db: str | None, scope: Scope, *, scrub: bool) -> Erased:
    async with open_memory(db) as memory:
        return await memory.erase(scope, scrub=scrub)


def _print_erased(erased: Erased) -> None:
    residue = erased.residue
    if sum(erased.rows.values()):
        print_table(["removed", "rows"], [[table, count] for table, count in erased.rows.items() if count])
    elif residue.pieces:
        console.print("The rows were removed earlier; what they held was looked for again.")
    else:
        errors.print(
            "Nothing was erased: there is nothing of that name; `casenotes stats` lists what there is.",
            style="yellow",
            markup=False,
        )
        return
    if residue.skipped:
        errors.print(f"Remains were not looked for: {residue.skipped}", style="yellow", markup=False)
    elif residue.left:
        errors.print(f"{len(residue.left)} pieces are still in the store's files.", style="bold red")
    else:
        size = f"{residue.bytes_read / 2**20:.1f} MiB in {residue.files} files"
        console.print(f"{residue.pieces} pieces of what was stored were looked for in {size}: none is left.")
    if erased.not_done:
        errors.print(erased.not_done, style="yellow", markup=False)
