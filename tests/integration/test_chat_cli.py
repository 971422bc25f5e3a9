"""`casenotes chat` as somebody meets it: a real process on a pseudo-terminal, or lines from a pipe."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from terminal import END, KEEP, SECONDS, Terminal, on_terminal

from casenotes import Memory, Scope, sync
from casenotes.cli.chat_model import NOTHING, choose_partner
from casenotes.cli.chat_turn import Talk
from casenotes.layers.base import BaseLayer, Recalled, RecallRequest

FAN = "The fan of rack seven was replaced by Ann."
ASKED = "What about the fan of rack seven?"


def chat(directory: Path, *words: str) -> AbstractContextManager[Terminal]:
    return on_terminal(directory, "chat", *words)


def piped(
    directory: Path, lines: str, *words: str, code: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    variables = {"CASENOTES_EMBEDDER_MODEL": "static", "OPENAI_API_KEY": "none", **variables}
    text = lines.encode(errors="surrogateescape")
    result = invoke("chat", *words, code=code, input=text, directory=directory, **variables)
    assert "Traceback" not in result.stderr
    return result


def test_a_second_conversation_quotes_the_first(tmp_path: Path) -> None:
    me = ("--model", "test", "--resource", "ann")
    with chat(tmp_path, *me, "--thread", "monday") as first:
        assert "resource ann" in first.until("you: ")
        told = first.ask(FAN)
        assert NOTHING in told
        assert "saved; nothing learned: no model" in told
        first.press("Ctrl-D")
        assert first.close() == 0
    with chat(tmp_path, *me, "--thread", "tuesday") as second:
        second.until("you: ")
        told = second.ask(ASKED)
        assert f"You said today, in thread monday: “{FAN}”" in told
        assert f"recalled 1. user, thread monday: {FAN}" in told

        assert "memory: " in (context := second.ask("/context"))
        assert f'- user said: "{FAN}" (today)' in context
        assert "<episodes>" in context, "leaving the first conversation ended its run"
        assert "thread monday, message" in second.ask("/why 1")
        assert "no number 99" in second.ask("/why 99")
        assert "there is no entry 'nope'" in second.ask("/why nope")
        assert "nothing is known about you yet" in second.ask("/profile")
        assert "there is no plan in this thread" in second.ask("/plan")
        unknown = second.ask("/nope")
        assert "there is no command '/nope'" in unknown
        assert "/forget N or ENTRY" in unknown

        second.type("/forget 1")
        second.until("Forget all of this? [y/N] ")
        assert "nothing was forgotten" in second.ask("n")
        second.type("/forget 1")
        second.until("Forget all of this? [y/N] ")
        assert re.search(r"Forgotten\. To take it back: casenotes undo \w+ --resource ann", second.ask("y"))

        assert "thread chat-20" in second.ask("/new")
        assert "thread tuesday" in second.ask("/memory rack seven")
        assert (
            f"monday: “{FAN}”" not in second.ask("Who replaced the fan of rack six?").partition("recalled")[0]
        )
        second.type("/quit")
        assert second.close() == 0


def test_another_resource_sees_nothing_and_what_is_stored_moves_no_cursor(tmp_path: Path) -> None:
    with sync.Memory.open(f"sqlite:///{tmp_path}/casenotes.db", model="", embedder="static") as memory:
        memory.append(Scope("default", "ann", "monday"), FAN)
        memory.append(Scope("default", "bob", "monday"), "The door of lab\x1b[31m two\x07 is \x9b2Jgreen.")
    with chat(tmp_path, "--model", "test", "--resource", "bob") as bob:
        bob.until("you: ")
        assert NOTHING in bob.ask(ASKED)
        assert "no block was shown" in bob.ask("/context")
        assert "“The door of lab\ufffd[31m two\ufffd is \ufffd2Jgreen.”" in bob.ask(
            "Which door is green in lab two?"
        )
        assert "lab\ufffd[31m two" in bob.ask("/why 1")
        assert "lab\ufffd[31m two" in bob.ask("/memory door")
        bob.interrupt_until("Ctrl-C once more, or Ctrl-D, leaves")
        bob.until("you: ")
        bob.interrupt_until(END)
        assert bob.close() == 0
        assert not set(bob.seen) & set("\x1b\x07\x9b")


def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/chat.md").read_text()
    monday, tuesday = re.findall(r"```text\n(.+?)```", page, re.DOTALL)
    for thread, shown in (("monday", monday), ("tuesday", tuesday)):
        typed = re.findall(r"^you: (.+)$", shown, re.MULTILINE)
        lines = "".join(f"{line}\n" for line in typed)
        told = piped(tmp_path, lines, "--model", "test", "--resource", "ann", "--thread", thread).stdout
        assert _without_what_changes(told) == _without_what_changes(shown)


def _without_what_changes(text: str) -> list[str]:
    """The lines, but for what was typed, empty ones, and the time and id of a message."""
    lines = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d|[0-9a-v]{24}", "…", line) for line in text.splitlines()]
    return [line.rstrip() for line in lines if line.strip() and not line.startswith("you: ")]


class TestPipes:
    def test_the_turn_itself_is_not_recalled(self, tmp_path: Path) -> None:
        me = ("--model", "test", "--resource", "ann", "--json")
        piped(tmp_path, f"{FAN}\n", *me, "--thread", "one")
        turns = map(json.loads, piped(tmp_path, f"{FAN}\n{FAN}\n", *me, "--thread", "two").stdout.splitlines())
        for turn in turns:
            assert [item["content"] for item in turn["shown"]].count(FAN) == 1

    def test_every_line_is_a_turn(self, tmp_path: Path) -> None:
        me = ("--model", "test", "--resource", "ann")
        result = piped(tmp_path, f"{FAN}\n\n/new\n{ASKED}\n//etc/hosts is broken", *me, "--thread", "one")
        assert "you:" not in result.stdout
        assert f"in thread one: “{FAN}”" in result.stdout
        assert result.stdout.count("saved; nothing learned: no model") == 3
        with sync.Memory.open(f"sqlite:///{tmp_path}/casenotes.db", model="", embedder="static") as memory:
            threads = memory.threads(Scope("default", "ann"))
            assert [thread.message_count for thread in threads] == [4, 8]
            last = Scope("default", "ann", threads[-1].thread_id)
            assert "/etc/hosts is broken" in [message.text for message in memory.history(last)]

    def test_json(self, tmp_path: Path) -> None:
        me = ("--model", "test", "--resource", "ann", "--json")
        with sync.Memory.open(f"sqlite:///{tmp_path}/casenotes.db", model="", embedder="static") as memory:
            memory.append(Scope("default", "ann", "one"), FAN)
        result = piped(tmp_path, f"{ASKED}\n/why\nNot \udcff UTF-8\n/quit\nnever", *me, code=1)
        turn, refused, broken = map(json.loads, result.stdout.splitlines())
        assert turn["answer"] == f"You said today, in thread one: “{FAN}”"
        assert (turn["outcome"], turn["saved"], turn["learning"]) == ("success", True, "skipped")
        assert turn["receipts"] == []
        assert turn["shown"][0]["content"] == FAN
        assert turn["context"]["tokens"] == turn["context"]["blocks"]["memory"] > 50
        assert "'/why' is a command for people" in refused["error"]["message"]
        assert broken["question"] == "Not \ufffd UTF-8"

    def test_a_turn_whose_end_cannot_be_saved_is_told(self, tmp_path: Path) -> None:
        me = ("--model", "test", "--resource", "ann")
        piped(tmp_path, "Hello\n", *me)
        with closing(sqlite3.connect(tmp_path / "casenotes.db")) as database:
            refusal = "BEGIN SELECT RAISE(FAIL, 'disk full'); END"
            database.execute(
                f"CREATE TRIGGER full BEFORE INSERT ON message_rows WHEN NEW.role = 'assistant' {refusal}"
            )
        told = piped(tmp_path, f"{FAN}\n", *me, code=1)
        assert "not saved; nothing is learned from it" in told.stdout
        assert "warning: memory cannot complete the turn" in told.stderr
        (turn,) = map(json.loads, piped(tmp_path, f"{FAN}\n", *me, "--json", code=1).stdout.splitlines())
        assert (turn["outcome"], turn["saved"], turn["learning"]) == ("success", False, "skipped")

    def test_an_empty_name_is_no_name_left_out(self, tmp_path: Path) -> None:
        for option, name in (("--resource", "resource_id"), ("--thread", "thread_id"), ("--agent", "agent_id")):
            told = piped(tmp_path, "Hello\n", "--model", "test", option, "", code=2).stderr
            assert f"{name} is empty; give an id" in told
        assert list(tmp_path.glob("*.db")) == []

    def test_closed_input_is_an_empty_pipe(self, tmp_path: Path) -> None:
        for words in ("", " --json"):
            command = f"{shlex.quote(sys.executable)} -m casenotes chat --model test{words} <&-"
            result = subprocess.run(command, shell=True, cwd=tmp_path, env=KEEP, capture_output=True, text=True)
            assert (result.returncode, result.stdout, result.stderr) == (0, "", "")

    def test_with_json_a_wrong_call_is_told_as_json(self, tmp_path: Path) -> None:
        result = piped(tmp_path, "", "--model", "test", "--bogus", "--json", code=2)
        assert json.loads(result.stdout) == {
            "error": {"type": "UsageError", "message": "No such option: --bogus"}
        }
        assert result.stderr == ""
        assert "No such option: --bogus" in piped(tmp_path, "", "--bogus", code=2).stderr

    def test_what_is_missing_is_named(self, tmp_path: Path) -> None:
        told = piped(tmp_path, "", code=2).stderr
        assert "--model" in told
        assert "CASENOTES_MODEL" in told
        code = (
            "import sys; sys.modules['pydantic_ai'] = None; sys.argv[1:] = ['chat', '--model', 'test']; "
            "from casenotes.cli.app import main; main()"
        )
        result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 2
        assert "pip install 'casenotes[models]'" in result.stderr
        assert list(tmp_path.glob("*.db")) == []


class Slow(BaseLayer):
    """A layer that says when it is asked and answers when it may."""

    name = "slow"
    slot = 60

    def __init__(self) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def recall(self, request: RecallRequest) -> Recalled:
        self.asked.set()
        await self.go_on.wait()
        return Recalled()


async def test_a_turn_that_is_stopped_as_it_begins_is_saved(sqlite_url: str) -> None:
    scope, slow = Scope("default", "ann", "one"), Slow()
    async with Memory.open(sqlite_url, model="", embedder="static", layers=[slow]) as memory:
        talk = Talk(memory, choose_partner("test"), "Be brief.")
        asking = asyncio.create_task(talk.ask(scope, FAN, lambda _piece: None))
        await slow.asked.wait()
        asking.cancel()
        await asyncio.sleep(0)
        slow.go_on.set()
        told = await asking
        assert (told.outcome, told.is_saved, told.context) == ("aborted", True, None)
        assert [message.text for message in await memory.history(scope)] == [FAN]


class ModelServer(ThreadingHTTPServer):
    """A model on this machine that speaks OpenAI's chat completions: streamed to agents, whole to workers."""

    daemon_threads = True

    def __init__(self, answer: Callable[[str], str], learned: Callable[[str], Any]) -> None:
        super().__init__(("127.0.0.1", 0), Completions)
        self.answer, self.learned = answer, learned
        self.is_refusing = False
        self.asked, self.go_on = threading.Event(), threading.Event()
        self.name = f"openai:local@http://127.0.0.1:{self.server_port}/v1"


class Completions(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = json.dumps(request["messages"])
        if self.server.is_refusing:
            self.send_error(401, "no such key")
        elif request.get("stream"):
            self._stream(self.server.answer(prompt))
        else:
            message = {"role": "assistant", "content": json.dumps(self.server.learned(prompt))}
            self._send({"index": 0, "finish_reason": "stop", "message": message})

    def _stream(self, text: str) -> None:
        """Word by word; one that says so is told only when it is allowed to go on."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for word in re.findall(r"\S+\s*", text):
            self._event({"index": 0, "delta": {"role": "assistant", "content": word}})
            if word.startswith("slowly"):
                self.server.asked.set()
                self.server.go_on.wait(SECONDS)
        self._event({"index": 0, "delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, choice: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(completion([choice], 'chat.completion.chunk'))}\n\n".encode())
        self.wfile.flush()

    def _send(self, choice: dict[str, Any]) -> None:
        body = json.dumps(completion([choice], "chat.completion")).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...

    def handle(self) -> None:
        with suppress(ConnectionError):  # whoever asked may not wait for the answer
            super().handle()


def completion(choices: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return {"id": "1", "object": kind, "created": 1, "model": "local", "choices": choices}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    def answer(prompt: str) -> str:
        return "One two slowly three four." if "Count" in prompt.rpartition("user")[2] else "Good to know."

    def learned(prompt: str) -> Any:
        said = FAN in prompt.partition("<transcript>")[2]
        return {"entries": [{"content": FAN, "source": "user_assertion", "evidence": FAN}] if said else []}

    server = ModelServer(answer, learned)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_answers_learns_is_stopped_and_fails(tmp_path: Path, model: ModelServer) -> None:
    with chat(tmp_path, "--model", model.name, "--resource", "ann", "--thread", "one") as ann:
        ann.until("you: ")
        told = ann.ask(FAN)
        assert "Good to know." in told
        assert f"stored 1. {FAN}" in told
        why = ann.ask("/why")
        assert "user_assertion, evidence checked" in why
        assert f"»{FAN}«" in why
        assert f"active 1. {FAN}" in ann.ask("/memory")

        ann.type("Count to four")
        ann.until("One two slowly")
        assert model.asked.wait(SECONDS)
        ann.press("Ctrl-C")
        ann.until("saved as aborted; nothing is learned from it", "you: ")
        model.go_on.set()
        assert f"rejected (evidence_in_context): {FAN}" in ann.ask("Thank you")

        model.is_refusing = True
        told = ann.ask("Hello?")
        assert "error: ModelAuthenticationError" in told
        assert "saved as failure; nothing is learned from it" in told
        ann.press("Ctrl-D")
        assert ann.close() == 0
    with sync.Memory.open(f"sqlite:///{tmp_path}/casenotes.db", model="", embedder="static") as memory:
        log = [(message.role, message.text) for message in memory.history(Scope("default", "ann", "one"))]
        assert log[2][1] == "Count to four"
        assert log[3][1].startswith("One two slowly")
        assert log[4:] == [("user", "Thank you"), ("assistant", "Good to know."), ("user", "Hello?")]
        assert [episode.outcome for episode in memory.episodes(Scope("default", "ann"))] == ["failure"]


def test_a_run_ends_as_its_last_turn_did(tmp_path: Path, model: ModelServer) -> None:
    with chat(tmp_path, "--model", model.name, "--resource", "ann", "--thread", "one") as ann:
        ann.until("you: ")
        ann.type("Count to four")
        ann.until("One two slowly")
        assert model.asked.wait(SECONDS)
        ann.press("Ctrl-C")
        ann.until("saved as aborted", "you: ")
        model.go_on.set()
        model.is_refusing = True  # so that the summary is made without a model
        ann.ask("/new")
        model.is_refusing = False
        ann.ask("Hello")
        ann.ask("/new")
        ann.press("Ctrl-D")
        assert ann.close() == 0
    with sync.Memory.open(f"sqlite:///{tmp_path}/casenotes.db", model="", embedder="static") as memory:
        first, second = memory.episodes(Scope("default", "ann"))
    assert (first.outcome, second.outcome) == ("aborted", "success")
    assert "It was broken off: One two slowly" in first.summary
