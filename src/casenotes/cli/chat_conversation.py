"""The conversation of `casenotes chat`: a line is read, answered, and followed by what memory did."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import TextIO

from casenotes.cli.chat_commands import State, run_command
from casenotes.cli.chat_loop import Loop
from casenotes.cli.chat_screen import dim, print_start, print_told, print_told_json, say
from casenotes.cli.chat_turn import Talk, Told
from casenotes.cli.output import console, print_json

LEARNING_SECONDS = 5.0
"""So long a turn's end waits for what is learned from it."""

LEAVING_SECONDS = 15.0


class Conversation:
    """A conversation on a terminal, or of lines from a pipe."""

    def __init__(self, loop: Loop, talk: Talk, state: State) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        self.wait = loop.wait
        self._talk = talk
        self._state = state
        self._input: TextIO = sys.stdin or io.StringIO()  # closed input is an empty one
        self._on_terminal = self._input.isatty()
        self._learns = talk.partner.worker is not None
        self._all_well = True

    def run(self) -> bool:
        """Until the user leaves; says whether a pipe's turns all went well."""
        try:
            return self._converse()
        finally:
            self.finish()

    def finish(self) -> None:
        """End the thread's run, of which a summary is kept; whoever does not want to wait for it need not."""
        if outcome := self._state.outcome:
            with suppress(KeyboardInterrupt):
                self.wait(self._talk.finish(self._state.scope, outcome, LEAVING_SECONDS))

    def _converse(self) -> bool:
        self._prepare()
        interrupted = False
        while True:
            try:
                interrupted = self._next() == "aborted"
            except EOFError:
                return self._all_well or self._on_terminal
            except KeyboardInterrupt:
                if interrupted or not self._on_terminal:
                    return self._on_terminal
                interrupted = True
                dim("\nCtrl-C once more, or Ctrl-D, leaves")

    def _prepare(self) -> None:
        if self._on_terminal:
            with suppress(ImportError):
                import readline  # noqa: F401 (lends arrow keys and a history to `input`)
            print_start(self._talk.partner.name, self._state.scope, self._state.memory.location)

    def _next(self) -> str:
        """One line; says how the turn ended, if it was one."""
        line = self.read("\nyou: ")
        if line is None:
            raise EOFError
        if line.strip().startswith("/") and not line.strip().startswith("//"):
            self._command(line.strip())
            return ""
        return self._turn(line.strip().removeprefix("/")) if line.strip() else ""

    def read(self, prompt: str) -> str | None:
        """A line of the user; None at the end."""
        if not self._on_terminal:
            return self._input.readline() or None
        try:
            return input(prompt)
        except EOFError:
            console.print()
            return None

    def _command(self, line: str) -> None:
        run_command(self, self._state, line)

    def _turn(self, question: str) -> str:
        self._state.outcome = "aborted"  # should nobody wait for its end
        told = self.wait(self._talk.ask(self._state.scope, question, self._say))
        self._state.outcome = told.outcome
        self._say("\n")
        told = self._looked_up(told)
        self._all_well &= told.is_saved and told.outcome == "success"
        self._state.last, self._state.listed = told, told.items
        self._print(told)
        return told.outcome

    def _looked_up(self, told: Told) -> Told:
        """The turn with what memory did; whoever does not want to wait for it need not."""
        try:
            told = self.wait(self._talk.shown_in(told))
            return self.wait(self._talk.learned_from(told, LEARNING_SECONDS)) if self._learns else told
        except KeyboardInterrupt:
            return told

    def _say(self, piece: str) -> None:
        say(piece)

    def _print(self, told: Told) -> None:
        print_told(told, self._learns)


class JsonConversation(Conversation):
    """A conversation for machines: one JSON object for each turn, and nothing else."""

    def _prepare(self) -> None:
        """Nothing is printed but turns."""

    def read(self, _prompt: str) -> str | None:
        """A line, without a prompt."""
        return self._input.readline() or None

    def _command(self, line: str) -> None:
        if line == "/quit":
            raise EOFError
        self._all_well = False
        message = f"{line.split()[0]!r} is a command for people; leave --json out"
        print_json({"error": {"type": "UsageError", "message": message}}, indent=None)

    def _say(self, piece: str) -> None:
        """Nothing: the answer comes whole."""

    def _print(self, told: Told) -> None:
        print_told_json(told, self._learns)
