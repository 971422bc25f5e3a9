"""Messages of Pydantic AI become ours and the other way round, with nothing lost that somebody said."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic_ai import messages as m

from casenotes.integrations.pydantic_ai_messages import (
    from_model_messages,
    from_prompt,
    last_prompt,
    shortened,
    to_model_messages,
    without_given,
)
from casenotes.types import Message, ToolCall, ToolResult

AT = datetime(2026, 11, 2, 9, tzinfo=UTC)
PICTURE = m.BinaryContent(b"abc", media_type="image/png")


def said(*messages: m.ModelMessage, output_tools: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in from_model_messages(messages, output_tools)]


class TestPrompts:
    def test_text_stays_as_it_is(self) -> None:
        assert from_prompt("Is the fan loud?") == [Message("user", "Is the fan loud?")]
        assert from_prompt(None) == []

    def test_media_leave_a_mark(self) -> None:
        given = [
            "Look:",
            PICTURE,
            m.ImageUrl("https://x/y.png"),
            m.TextContent("and"),
            m.CachePoint(),
            m.AudioUrl("https://x/y.mp3"),
            m.VideoUrl("https://x/y.mp4"),
            m.BinaryContent(b"%PDF", media_type="application/pdf"),
            m.UploadedFile("file-1", provider_name="openai"),
        ]
        (message,) = from_prompt(given)
        assert message.text.split("\n") == [
            *("Look:", "[image]", "[image]", "and"),
            *("[audio]", "[video]", "[document]", "[file]"),
        ]

    def test_what_no_database_takes_is_replaced(self) -> None:
        assert from_prompt("a\x00b\ud800c")[0].text == "a\ufffdb\ufffdc"

    def test_the_end_of_a_history_may_be_the_prompt(self) -> None:
        request = m.ModelRequest([m.SystemPromptPart("Be kind."), m.UserPromptPart("Hello")])
        assert last_prompt([request]) == [Message("user", "Hello")]
        assert last_prompt([request, m.ModelResponse([m.TextPart("Hi")])]) == []
        assert last_prompt([]) == []


class TestFromTheFramework:
    def test_a_loop_with_tools(self) -> None:
        messages = from_model_messages(
            [
                m.ModelRequest([m.SystemPromptPart("Be kind."), m.UserPromptPart("Which rows?")]),
                m.ModelResponse(
                    [
                        m.ThinkingPart("hm"),
                        m.TextPart("I look."),
                        m.ToolCallPart("shelf", '{"row": 3}', "a"),
                        m.ToolCallPart("clock", None, "b"),
                    ]
                ),
                m.ModelRequest(
                    [
                        m.ToolReturnPart("shelf", {"loaves": 7}, "a"),
                        m.ToolReturnPart("clock", ["6:00", PICTURE], "b", outcome="failed"),
                    ]
                ),
                m.ModelResponse([m.TextPart("Seven."), m.FilePart(PICTURE)]),
            ]
        )
        assert messages == [
            Message("user", "Which rows?"),
            Message("assistant", "I look.", parts=(ToolCall("a", "shelf", {"row": 3}), ToolCall("b", "clock"))),
            Message(
                "tool", "", parts=(ToolResult("a", '{"loaves":7}'), ToolResult("b", "6:00\n[image]", True))
            ),
            Message("assistant", "Seven.\n\n[image]"),
        ]

    def test_arguments_that_are_no_object_are_kept(self) -> None:
        (message,) = from_model_messages([m.ModelResponse([m.ToolCallPart("shelf", "{nope\x00", "a")])])
        assert message.parts == (ToolCall("a", "shelf", {"input": "{nope\ufffd"}),)

    def test_feedback_of_the_framework_is_nobodys_words(self) -> None:
        feedback = m.RetryFeedbackPart(
            "Too long.", retry=m.RetryInfo(cause="model_retry", attempt=1, max_retries=1)
        )
        ((role, text),) = said(m.ModelRequest([feedback]))
        assert role == "system"
        assert "Too long." in text

    def test_the_call_of_an_output_tool_is_the_answer(self) -> None:
        answer = m.ModelResponse([m.ToolCallPart("final_result", {"loaves": 7}, "a")])
        done = m.ModelRequest([m.ToolReturnPart("final_result", "Final result processed.", "a")])
        assert said(answer, done, output_tools=("final_result",)) == [("assistant", '{"loaves":7}')]
        assert said(answer, output_tools=("final_result",)) == [("assistant", '{"loaves":7}')]

    def test_an_answer_that_was_cut_off_stays_as_far_as_it_came(self) -> None:
        for cut in ('{"loaves": 7, "row', '{"loaves": 7}'):
            answer = m.ModelResponse([m.ToolCallPart("final_result", cut, "a")])
            assert said(answer, output_tools=("final_result",)) == [("assistant", cut)]

    def test_a_refused_answer_stays_a_call_with_its_result(self) -> None:
        first = m.ModelResponse([m.ToolCallPart("final_result", {"loaves": -7}, "a")])
        again = m.ModelRequest([m.ToolReturnPart("final_result", "no loaves?", "a", outcome="retried")])
        messages = from_model_messages([first, again], ("final_result",))
        assert [message.parts for message in messages] == [
            (ToolCall("a", "final_result", {"loaves": -7}),),
            (ToolResult("a", "no loaves?", True),),
        ]

    def test_what_a_tool_says_beside_its_result_is_never_the_users(self) -> None:
        request = m.ModelRequest(
            [
                m.ToolReturnPart("shelf", "fetched", "a"),
                m.ToolReturnPart("web", "", "b"),
                m.UserPromptPart(["The door is open.", PICTURE]),
                m.UserPromptPart("Go on"),
            ]
        )
        aside = (ToolResult("a", "fetched"), ToolResult("b", "The door is open.\n[image]\n\nGo on"))
        assert from_model_messages([request]) == [Message("tool", "", parts=aside)]
        assert last_prompt([request]) == []
        tool, user = from_model_messages([request], prompt="Go on")
        assert tool.parts[1] == ToolResult("b", "The door is open.\n[image]")
        assert user == Message("user", "Go on")
        done = m.ModelRequest([m.ToolReturnPart("final", "processed", "c"), m.UserPromptPart("Sent.")])
        assert said(done, output_tools=("final",)) == [("tool", "Sent.")]

    def test_words_that_are_known_to_be_of_tools_are_theirs_wherever_they_stand(self) -> None:
        told, asked = m.UserPromptPart("Rack nine."), m.UserPromptPart("Rack nine.", timestamp=AT)
        (first, second) = from_model_messages([m.ModelRequest([asked, told])], of_tools=[told])
        assert (first.role, second.role) == ("tool", "user")

    def test_what_was_given_before_is_left_out_once(self) -> None:
        again = [Message("user", "Go"), Message("assistant", "Go"), Message("user", "Go")]
        assert without_given(again, [Message("user", "Go"), Message("user", "Stop")]) == again[1:]

    def test_tools_of_the_provider_stand_between_words(self) -> None:
        response = m.ModelResponse(
            [
                m.TextPart("I search."),
                m.NativeToolCallPart("web_search", {"query": "fan"}, "n", provider_name="p"),
                m.NativeToolReturnPart("web_search", "three results", "n", provider_name="p"),
                m.TextPart("It is loud."),
            ]
        )
        assert said(response) == [("assistant", "I search."), ("tool", ""), ("assistant", "It is loud.")]

    def test_an_empty_answer_is_nothing(self) -> None:
        assert said(m.ModelResponse([])) == []


class TestToTheFramework:
    def test_a_loop_with_tools_comes_back(self) -> None:
        messages = [
            Message("user", "Which rows?", created_at=AT),
            Message("assistant", "I look.", created_at=AT, parts=(ToolCall("a", "shelf", {"row": 3}),)),
            Message("tool", "", created_at=AT, parts=(ToolResult("a", "7", True),)),
            Message("assistant", "Seven.", created_at=AT),
        ]
        assert to_model_messages(messages) == [
            m.ModelRequest([m.UserPromptPart("Which rows?", timestamp=AT)], timestamp=AT),
            m.ModelResponse([m.TextPart("I look."), m.ToolCallPart("shelf", {"row": 3}, "a")], timestamp=AT),
            m.ModelRequest([m.ToolReturnPart("shelf", "7", "a", timestamp=AT, outcome="failed")], timestamp=AT),
            m.ModelResponse([m.TextPart("Seven.")], timestamp=AT),
        ]
        assert from_model_messages(to_model_messages(messages)) == [
            Message(message.role, message.text, parts=message.parts) for message in messages
        ]

    def test_only_whole_pairs_and_nothing_of_the_system(self) -> None:
        messages = [
            Message("tool", "", parts=(ToolResult("cut", "its call is out of sight"),)),
            Message("system", "Obey me."),
            Message("user", "Go on"),
            Message("assistant", "", parts=(ToolCall("open", "shelf"),)),
        ]
        (request,) = to_model_messages(messages)
        assert [part.content for part in request.parts] == ["Go on"]


def test_long_messages_are_cut() -> None:
    call = ToolCall("a", "write", {"text": "x" * 50})
    messages = [
        Message("assistant", "y" * 50, parts=(call,)),
        Message("tool", "", parts=(ToolResult("a", "z" * 9),)),
    ]
    first, second = shortened(messages, 10)
    assert first.text == "y" * 10 + "… [40 characters left out]"
    assert first.parts == (ToolCall("a", "write", {"input": "[left out]"}),)
    assert second == messages[1]
