"""A provider on this machine with OpenAI's two endpoints, which notes who asked with which key.

It may repeat the key in an error, as real ones do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

DIMENSIONS = 8


class Asked(NamedTuple):
    """A request: what for, with which key, and which model."""

    path: str
    key: str
    model: str


class Provider:
    """Embeds texts and answers every question with an empty object."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[Asked] = []
        self.status = 200

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
        key = next(line for line in head.splitlines() if line.lower().startswith("authorization")).split()[-1]
        request = json.loads(await reader.readexactly(int(fields["content-length"])))
        path = head.split()[1]
        self.asked.append(Asked(path.rpartition("/")[2], key, request["model"]))
        body = json.dumps(self._answer(path, request, key)).encode()
        start = f"HTTP/1.1 {self.status} -\r\ncontent-type: application/json\r\nretry-after-ms: 1\r\n"
        writer.write(f"{start}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()

    def _answer(self, path: str, request: dict[str, Any], key: str) -> dict[str, Any]:
        if self.status != 200:
            return {"error": {"message": f"Incorrect API key provided: {key}. Bearer {key}", "param": key}}
        if path.endswith("embeddings"):
            texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
            data = [
                {"object": "embedding", "index": i, "embedding": [1.0, float(len(text) % 7), *[0.5] * 6]}
                for i, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return {"object": "list", "model": request["model"], "data": data, "usage": usage}
        if path.endswith("responses"):
            content = [{"type": "output_text", "text": "{}", "annotations": []}]
            message = {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
            return {
                "id": "r",
                "object": "response",
                "created_at": 1,
                "model": request["model"],
                "status": "completed",
                "output": [message],
                "parallel_tool_calls": False,
                "tool_choice": "auto",
                "tools": [],
            }
        message = {"role": "assistant", "content": "{}"}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
        }


@asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """A running provider; its address goes into OPENAI_BASE_URL."""
    server = Provider()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=2**24)
    async with listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield server
