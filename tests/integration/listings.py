"""A question, and listings of several kinds that people paste beside one."""

from __future__ import annotations

QUESTION = "Why does the espresso machine of the north office leak?"
LISTINGS = {
    "log": [f"2026-11-18T10:22:{n:02d}.123Z pay-2 queue[412]: WARN lease {n}a7 expired" for n in range(30)],
    "sentences": [f"[{n:05d}] 10.0.3.{n} 18/11/26 10:22:{n:02d}: lease 4{n}7 expired." for n in range(30)],
    "json": [f'{{"ts": {n}, "level": "error", "msg": "lease expired"}}' for n in range(30)],
    "trace": ["ValueError: lease"] + [f'  File "/app/lease_{n}.py", line {n}, in renew' for n in range(30)],
    "table": [f"{n};queue;{n * 17};open" for n in range(30)],
    "code": [f"    lease_{n} = renew(queue[{n}], until={n});" for n in range(30)],
}
