"""A model on this machine that speaks OpenAI's chat completions, and commands that are run against it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from commands import invoke

OBSERVED = "<untrusted-transcript>"


class ModelServer:
    """An OpenAI-compatible server that answers what it is told to; it may be told to fail first.

    An Observer that reads what others have said here finds nothing to note, and does not count.
    """

    def __init__(self, answer: Callable[[str], Any]) -> None:
        self.name = ""
        self.failures = 0
        self.requests: list[dict[str, Any]] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        request = json.loads(await reader.readexactly(length))
        if OBSERVED in request["messages"][-1]["content"]:
            failing, answer = False, _completion("{}")
        else:
            self.requests.append(request)
            failing, self.failures = self.failures > 0, self.failures - 1
            answer = {"error": "busy"} if failing else _completion(json.dumps(self._answer(self._prompt())))
        body = json.dumps(answer).encode()
        status = "401 Unauthorized" if failing else "200 OK"
        writer.write(
            f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        writer.close()

    def _prompt(self) -> str:
        return self.requests[-1]["messages"][-1]["content"]


def _completion(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "local",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


@asynccontextmanager
async def serving(answer: Callable[[str], Any]) -> AsyncIterator[ModelServer]:
    """A server whose `name` is what `--model` takes."""
    server = ModelServer(answer)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.name = f"openai:local@http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield server


async def run(*words: str, code: int = 0, **environment: str) -> str:
    """What a command prints; with an exit code other than 0, what it prints anywhere.

    It runs in a thread of this process, so that the server goes on; in one it cannot listen for signals.
    """
    done = await asyncio.to_thread(lambda: invoke(*words, code=code, **environment))
    return _printed(done.stdout, done.stderr, code)


async def run_process(*words: str, code: int = 0) -> str:
    """The same in a process of its own, for commands that listen for signals."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "casenotes",
        *words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "120"},
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == code, (out + err).decode()
    return _printed(out.decode(), err.decode(), code)


def _printed(out: str, err: str, code: int) -> str:
    assert "Traceback" not in err
    return out + err if code else out
