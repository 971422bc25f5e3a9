"""A command on a pseudo-terminal, as somebody meets it who types."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS = 20.0
END = "<the terminal is closed>"
OWN_TERMINAL = (
    "import os, sys; os.open(os.ttyname(0), os.O_RDWR); "
    "os.execv(sys.executable, [sys.executable, '-m', 'casenotes', *sys.argv[1:]])"
)
"""A session takes the first terminal that it opens for its own, which Ctrl-C needs."""

KEEP = {**os.environ, "CASENOTES_EMBEDDER_MODEL": "static", "OPENAI_API_KEY": "none"}


def _heeding_interrupts() -> None:
    """As in a terminal, also where the tests run in the background, which shells let ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a terminal: `type` a line, read `until` something is printed."""

    def __init__(self, directory: Path, *words: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        environment = {**KEEP, "TERM": "dumb", "COLUMNS": "120"}
        command = [sys.executable, "-c", OWN_TERMINAL, *words]
        streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            start_new_session=True,
            preexec_fn=_heeding_interrupts,
            **streams,
        )
        os.close(slave)
        self._unread = ""
        self.seen = ""

    def until(self, *texts: str) -> str:
        """What was printed up to the last of the texts, which come in this order."""
        return "".join(self._until(text) for text in texts)

    def _until(self, text: str, seconds: float = SECONDS) -> str:
        deadline = time.monotonic() + seconds
        while text not in self._unread:
            if not self._read(deadline) and text not in self._unread:
                raise AssertionError(f"{text!r} was not printed, but: {self.seen}")
        position = self._unread.index(text) + len(text)
        read, self._unread = self._unread[:position], self._unread[position:]
        return read

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self._master, 65536) if ready else b""
        except OSError:  # the other side has gone
            data = b""
            self._unread += END
        text = data.decode(errors="replace").replace("\r\n", "\n")
        self._unread += text
        self.seen += text
        return bool(data)

    def write(self, text: str) -> None:
        os.write(self._master, text.encode())

    def type(self, line: str) -> None:
        self.write(f"{line}\n")

    def ask(self, line: str) -> str:
        """Type a line and read until the next prompt."""
        self.type(line)
        self.until(line)  # the terminal's echo
        return self.until("\nyou: ")

    def press(self, key: str) -> None:
        self.write({"Ctrl-C": "\x03", "Ctrl-D": "\x04"}[key])

    def interrupt_until(self, text: str) -> None:
        """Press Ctrl-C; once more if it came in the instant in which Python's `input` does not notice it."""
        for _ in range(4):
            self.press("Ctrl-C")
            with suppress(AssertionError):
                self._until(text, SECONDS / 4)
                return
        raise AssertionError(f"{text!r} was not printed, but: {self.seen}")

    def close(self) -> int:
        """The exit code, once the process has ended."""
        while self._read(time.monotonic() + SECONDS):
            pass
        code = self._process.wait(SECONDS)
        os.close(self._master)
        assert "Traceback" not in self.seen
        return code

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def on_terminal(directory: Path, *words: str) -> Iterator[Terminal]:
    """The command with those words, which does not outlive this."""
    terminal = Terminal(directory, *words)
    try:
        yield terminal
    finally:
        terminal.kill()
