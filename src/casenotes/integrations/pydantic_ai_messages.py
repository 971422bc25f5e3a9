"""Messages of Pydantic AI as ours and ours as messages of Pydantic AI; nothing here knows a store.

What the framework says to the model (instructions, system prompts, thinking) is nobody's words and is
left out; its feedback on an answer that did not fit is kept as `system` and never sent again. Media
leave a mark such as `[image]` where they stood. The call of an output tool is the agent's answer, so it
becomes text: nobody would ever give its result.

A tool may speak beside its result (`ToolReturn.content`, `ctx.enqueue` in a tool): the framework sends that as
if the user had said it, mostly in the same request as the result. Here it ends the result and is never the
user's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.messages import (
    AudioUrl,
    BaseToolCallPart,
    BaseToolReturnPart,
    BinaryContent,
    CachePoint,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from casenotes.learn.normalise import storable
from casenotes.recall.recent import without_broken_pairs
from casenotes.transfer.formats.blocks import call_arguments, json_text
from casenotes.types import Message, Part, ToolCall, ToolResult

MARKS = ((ImageUrl, "[image]"), (AudioUrl, "[audio]"), (VideoUrl, "[video]"), (DocumentUrl, "[document]"))
REFUSED = ("failed", "retried")
MAX_TOGETHER = 100_000
"""Results with more characters are messages of their own: one message can be too long to be saved."""

Prompt = str | Sequence[UserContent] | None
IsAnswer = Callable[[BaseToolCallPart[Any] | BaseToolReturnPart[Any]], bool]
IsAside = Callable[[ModelRequest, UserPromptPart], bool]


def from_prompt(prompt: Prompt) -> list[Message]:
    """The user's words as one message; nothing for a run without a prompt."""
    if prompt is None:
        return []
    items = [prompt] if isinstance(prompt, str) else prompt
    return [Message("user", storable("\n".join(filter(None, map(_content_text, items)))))]


def from_model_messages(
    messages: Sequence[ModelMessage],
    output_tools: Collection[str] = (),
    prompt: Prompt = None,
    of_tools: Sequence[object] = (),
) -> list[Message]:
    """What was said, called and returned, in order; `output_tools` are the names of those that end a run.

    `prompt` is what the user says where it stands beside results, as in a run that goes on with them;
    `of_tools` are parts that are known to be words of tools wherever they stand.
    """
    theirs = {id(part) for part in of_tools}
    returned = [part for message in messages for part in message.parts if isinstance(part, BaseToolReturnPart)]
    refused = {part.tool_call_id for part in returned if part.outcome in REFUSED}

    def is_answer(part: BaseToolCallPart[Any] | BaseToolReturnPart[Any]) -> bool:
        return part.tool_name in output_tools and part.tool_call_id not in refused

    def is_aside(request: ModelRequest, part: UserPromptPart) -> bool:
        beside_results = any(isinstance(other, ToolReturnPart) for other in request.parts)
        return id(part) in theirs or (beside_results and part.content != prompt)

    return [ours for message in messages for ours in _converted(message, is_answer, is_aside)]


def without_given(messages: Sequence[Message], given: Sequence[Message]) -> list[Message]:
    """The messages without those of the user that were handed over before."""
    rest = list(messages)
    for known in given:
        found = (i for i, message in enumerate(rest) if message.role == "user" and message.text == known.text)
        if (position := next(found, None)) is not None:
            del rest[position]
    return rest


def last_prompt(messages: Sequence[ModelMessage]) -> list[Message]:
    """The user's words at the end of a history that is to be answered as it stands."""
    if not messages or not isinstance(messages[-1], ModelRequest):
        return []
    return [message for message in from_model_messages(messages[-1:]) if message.role == "user"]


def to_model_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    """A history to go on from: tool calls only together with their results, and no `system` messages."""
    return [message for _, message in history_of(messages)]


def history_of(messages: Sequence[Message]) -> list[tuple[Message, ModelMessage]]:
    """The same, each message behind the one that it was made of."""
    whole = list(without_broken_pairs(messages))
    names = {part.id: part.name for message in whole for part in message.parts if isinstance(part, ToolCall)}
    given = ((message, _model_message(message, names)) for message in whole)
    return [(ours, message) for ours, message in given if message.parts]


def shortened(messages: Sequence[Message], characters: int) -> list[Message]:
    """The messages with long texts and results cut and long arguments left out."""

    def short(part: Part) -> Part:
        if isinstance(part, ToolResult):
            return replace(part, content=_cut(part.content, characters))
        fits = len(json_text(part.arguments)) <= characters
        return part if fits else replace(part, arguments={"input": "[left out]"})

    return [
        replace(message, text=_cut(message.text, characters), parts=tuple(map(short, message.parts)))
        for message in messages
    ]


def _converted(message: ModelMessage, is_answer: IsAnswer, is_aside: IsAside) -> Iterator[Message]:
    if isinstance(message, ModelRequest):
        return _request(message, is_answer, is_aside)
    return _response(message, is_answer)


def _request(request: ModelRequest, is_answer: IsAnswer, is_aside: IsAside) -> Iterator[Message]:
    """Results come first, as they answer what was said before."""
    results = [_result(p) for p in request.parts if isinstance(p, ToolReturnPart) and not is_answer(p)]
    aside = [p for p in request.parts if isinstance(p, UserPromptPart) and is_aside(request, p)]
    yield from _tool_message(results, aside)
    for part in request.parts:
        if isinstance(part, UserPromptPart) and not is_aside(request, part):
            yield from from_prompt(part.content)
        elif isinstance(part, RetryFeedbackPart):
            yield Message("system", storable(part.model_response()))


def _tool_message(results: list[ToolResult], aside: Sequence[UserPromptPart]) -> Iterator[Message]:
    """Results and what tools said besides, which ends the last result: nobody says whose it is."""
    said = [message.text for part in aside for message in from_prompt(part.content)]
    if results and said:
        results[-1] = replace(results[-1], content="\n\n".join(filter(None, [results[-1].content, *said])))
    if sum(len(result.content) for result in results) > MAX_TOGETHER:
        yield from (Message("tool", "", parts=(result,)) for result in results)
    elif results or said:
        yield Message("tool", "" if results else "\n\n".join(said), parts=tuple(results))


def _response(response: ModelResponse, is_answer: IsAnswer) -> Iterator[Message]:
    """One message, or several around the results of tools that the provider itself has run."""
    said: list[str] = []
    calls: list[ToolCall] = []
    for part in response.parts:
        if isinstance(part, BaseToolReturnPart):
            yield from _assistant(said, calls)
            said, calls = [], []
            yield Message("tool", "", parts=(_result(part),))
        elif isinstance(part, BaseToolCallPart) and not is_answer(part):
            calls.append(
                ToolCall(part.tool_call_id, part.tool_name, _storable_value(call_arguments(part.args)))
            )
        else:
            said.append(_spoken(part))
    yield from _assistant(said, calls)


def _assistant(said: Sequence[str], calls: Sequence[ToolCall]) -> Iterator[Message]:
    text = "\n\n".join(filter(None, said))
    if text or calls:
        yield Message("assistant", storable(text), parts=tuple(calls))


def _spoken(part: object) -> str:
    if isinstance(part, TextPart):
        return part.content
    if isinstance(part, FilePart):
        return _content_text(part.content)
    if isinstance(part, BaseToolCallPart):  # an answer that was cut off is no JSON yet; what is there was said
        return part.args if isinstance(part.args, str) else part.args_as_json_str()
    return ""


def _result(part: BaseToolReturnPart[Any]) -> ToolResult:
    kept = [part.model_response_str(wrap_if_error=False), *map(_content_text, part.files)]
    return ToolResult(part.tool_call_id, storable("\n".join(filter(None, kept))), part.outcome in REFUSED)


def _content_text(item: object) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, TextContent):
        return item.content
    if isinstance(item, BinaryContent):
        kind = item.media_type.partition("/")[0]
        return f"[{kind}]" if kind in ("image", "audio", "video") else "[document]"
    found = (mark for kind, mark in MARKS if isinstance(item, kind))
    return "" if isinstance(item, CachePoint) else next(found, "[file]")


def _storable_value(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): _storable_value(item) for key, item in value.items()}
    return [_storable_value(item) for item in value] if isinstance(value, list | tuple) else value


def _cut(text: str, characters: int) -> str:
    left_out = len(text) - characters
    return text if left_out <= 0 else f"{text[:characters]}… [{left_out} characters left out]"


def _model_message(message: Message, names: Mapping[str, str]) -> ModelMessage:
    at = message.created_at or datetime.now(UTC)
    if message.role == "assistant":
        text = [TextPart(message.text)] if message.text.strip() else []
        calls = [p for p in message.parts if isinstance(p, ToolCall)]
        asked = [ToolCallPart(call.name, dict(call.arguments), call.id) for call in calls]
        return ModelResponse([*text, *asked], timestamp=at)
    if message.role == "user":
        return ModelRequest([UserPromptPart(message.text, timestamp=at)], timestamp=at)
    results = [p for p in message.parts if isinstance(p, ToolResult)]
    return ModelRequest([_returned(result, names, at) for result in results], timestamp=at)


def _returned(result: ToolResult, names: Mapping[str, str], at: datetime) -> ToolReturnPart:
    return ToolReturnPart(
        names[result.call_id],
        result.content,
        result.call_id,
        timestamp=at,
        outcome="failed" if result.is_error else "success",
    )
