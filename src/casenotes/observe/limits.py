"""The sizes that session memory goes by, as the settings and the model's context allow them."""

from __future__ import annotations

from dataclasses import dataclass

from casenotes.config import Settings

MESSAGES_SHARE = 2
LOG_SHARE = 3
TAIL_SHARE = 5
"""After an activation no more than a fifth of the threshold stays as it was said."""

EXTRA_SHARE = 2
"""Messages that are observed already are shown besides, as far as they take no more than half of it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens: where observations take over, what stays, and after how many the next ones are made.

    `newest` messages stay in any case, as far as they have room; `render` and `reflect` limit the log.
    """

    threshold: int
    tail: int
    step: int
    render: int
    reflect: int
    newest: int

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Messages take at most half of a prompt, the log a third of it: other blocks need room, too.

        A log that is longer than what is shown of it is condensed, whatever its threshold says.
        """
        observing, prompt = settings.observational, settings.budget.prompt_tokens
        threshold = min(observing.observer_threshold_tokens, max(1, prompt // MESSAGES_SHARE))
        render = min(observing.render_token_budget, max(1, prompt // LOG_SHARE))
        return cls(
            threshold,
            min(observing.raw_tail_tokens, threshold // TAIL_SHARE),
            max(1, int(threshold * observing.buffer_ratio)) if observing.buffer_ratio else threshold,
            render,
            min(observing.reflector_threshold_tokens, render),
            settings.last_messages,
        )

    def next_step(self, ready: int) -> int:
        """How much is observed at once when that much waits to be activated: near the threshold, half."""
        is_near = self.step < self.threshold and ready >= self.threshold - self.step
        return max(1, self.step // 2) if is_near else self.step

    def besides(self, log: int) -> int:
        """How much of what is observed already may be shown besides a log of that size.

        All of it together stays within the threshold and the budget for rendering; the input of a turn under
        way, which is at most as large as the tail, has room as well.
        """
        return max(0, min(self.threshold // EXTRA_SHARE, self.render - log - self.tail))
