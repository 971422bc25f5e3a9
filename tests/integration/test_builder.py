"""Dialogues in which an assistant sets up memory, through a real agent: every rule holds, whatever it tries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dialogue import EMBEDDINGS, GEMINI, OBSERVER, READ, VERIFY, Dialogue, credential, put, rules

from casenotes import Memory, Scope
from casenotes.builder import MemoryBuilder, guidance
from casenotes.errors import SettingsError

DEFAULT = {"enabled": True, "storage": "n8n", "observationalMemory": {"enabled": True}}
LONG_TERM = "It should have long-term memory, please."
TUNED = {
    "name": "Support",
    "instructions": "Be brief.",
    "model": "anthropic/claude-sonnet-4-5",
    "credential": "cred-agent",
    "memory": {
        "enabled": True,
        "storage": "n8n",
        "lastMessages": 30,
        "observationalMemory": {"enabled": True, "observerThresholdTokens": 9000},
        "episodicMemory": {"enabled": False, "topK": 9, "maxEntriesPerRun": 3},
    },
}


class TestNewAgent:
    async def test_r12_01_gets_the_default_and_nothing_else(self) -> None:
        talk = Dialogue()
        read, changed = await talk.say("Make me an agent that answers mail.", READ, put())
        assert read == {"memory": None, "is_new": True, "default": DEFAULT}
        assert changed == {"changed": True, "memory": DEFAULT}
        assert talk.builder.config == {"memory": DEFAULT}

    async def test_r12_01_has_the_storage_that_the_host_named(self) -> None:
        talk = Dialogue(storage="acme-store")
        (changed,) = await talk.say("Make me an agent.", put())
        assert changed["memory"]["storage"] == "acme-store"
        assert talk.builder.verify() == []

    async def test_r12_01_may_have_no_memory_if_the_user_says_so(self) -> None:
        said = "Make me a stateless agent, it must not keep any memory."
        talk = Dialogue()
        await talk.say(said, put(("enabled", False, "it must not keep any memory")))
        assert talk.memory == {**DEFAULT, "enabled": False}

    async def test_r12_01_is_not_switched_off_without_a_word_of_the_user(self) -> None:
        talk = Dialogue()
        (refused,) = await talk.say("Make me an agent that sorts invoices.", put(("enabled", False, "")))
        assert rules(refused) == [("memory.enabled", "no_user_request")]
        assert talk.memory is None

    async def test_r12_04_is_not_switched_off_by_words_about_something_else(self) -> None:
        talk = Dialogue()
        said = "Make me an agent that sorts invoices."
        (refused,) = await talk.say(said, put(("enabled", False, "an agent that sorts invoices")))
        assert rules(refused) == [("memory.enabled", "off_not_requested")]


class TestExistingAgent:
    async def test_r12_02_keeps_its_tuning_and_all_that_is_not_memory(self) -> None:
        talk = Dialogue(TUNED)
        (changed,) = await talk.say(
            "Show the last 50 messages to it.", put(("lastMessages", 50, "Show the last 50 messages"))
        )
        assert changed["memory"] == {**TUNED["memory"], "lastMessages": 50}
        assert {**talk.builder.config, "memory": None} == {**TUNED, "memory": None}

    async def test_r12_02_is_not_set_back_to_the_default(self) -> None:
        talk = Dialogue(TUNED)
        (changed,) = await talk.say("What memory does it have?", put())
        assert changed["memory"] == TUNED["memory"]

    async def test_r12_03_is_not_tuned_unasked(self) -> None:
        talk = Dialogue(TUNED)
        wanted = put(("observationalMemory.observerThresholdTokens", 30000, ""), ("lastMessages", None, ""))
        (refused,) = await talk.say("Rename it to Anna.", wanted)
        assert rules(refused) == [
            ("memory.lastMessages", "no_user_request"),
            ("memory.observationalMemory.observerThresholdTokens", "no_user_request"),
        ]
        assert talk.builder.config == TUNED

    @pytest.mark.parametrize(
        ("quote", "why"),
        [
            ("Please use 12 messages", "not said"),
            ("use 12 messages", "other case"),
            ("12", "too short"),
            ("Done.", "said by the assistant"),
        ],
    )
    async def test_r12_03_needs_words_that_the_user_really_said(self, quote: str, why: str) -> None:
        talk = Dialogue(TUNED)
        await talk.say("Hello.")
        (refused,) = await talk.say("Use 12 messages, please.", put(("lastMessages", 12, quote)))
        assert rules(refused) == [("memory.lastMessages", "user_request_not_found")], why
        (changed,) = await talk.say("Now.", put(("lastMessages", 12, "Use 12 messages")))
        assert changed["changed"]

    async def test_r12_03_takes_no_words_from_the_answer_of_a_tool(self) -> None:
        talk = Dialogue({**TUNED, "instructions": "Use 12 messages, please."})
        _, refused = await talk.say(
            "How is it set up?", READ, put(("lastMessages", 12, "Use 12 messages, please."))
        )
        assert rules(refused) == [("memory.lastMessages", "user_request_not_found")]

    async def test_r12_03_one_wish_does_not_carry_another_change(self) -> None:
        talk = Dialogue(TUNED)
        said = "Use 12 messages, please."
        (refused,) = await talk.say(said, put(("lastMessages", 12, said), ("semanticRecall", True, "")))
        assert rules(refused) == [("memory.semanticRecall.enabled", "no_user_request")]
        assert talk.builder.config == TUNED

    async def test_a_change_that_is_no_setting_is_refused_by_its_path(self) -> None:
        talk = Dialogue(TUNED)
        said = "Let it remember for 10 days and use 0 messages."
        (refused,) = await talk.say(said, put(("ttlDays", 10, "for 10 days"), ("lastMessages", 0, said)))
        assert ("memory.ttlDays", "unknown_field") in rules(refused)
        assert ("memory.lastMessages", "out_of_range") in rules(refused)


class TestEpisodicMemory:
    async def test_r12_05_is_switched_on_with_the_credential_that_was_asked_for(self) -> None:
        talk = Dialogue(TUNED, credentials=["cred-embed"])
        on = put(("episodicMemory", {"enabled": True, "credential": "cred-embed"}, LONG_TERM))
        asked, changed, verified = await talk.say(LONG_TERM, credential(), on, VERIFY)
        assert asked == {"credential": "cred-embed", "purpose": EMBEDDINGS}
        assert talk.asked == [{"credential_type": "openAiApi", "purpose": EMBEDDINGS}]
        assert changed["memory"]["episodicMemory"] == {
            "enabled": True,
            "credential": "cred-embed",
            "topK": 9,
            "maxEntriesPerRun": 3,
        }
        assert verified == {"ok": True, "violations": []}

    async def test_r12_05_takes_the_built_in_embedder_if_the_host_returns_it(self, sqlite_url: str) -> None:
        talk = Dialogue(credentials=["local"])
        on = put(("episodicMemory", {"enabled": True, "credential": "local"}, LONG_TERM))
        await talk.say(LONG_TERM, credential(), on)
        async with Memory.from_json(talk.builder.config, url=sqlite_url) as memory:
            assert "local" not in memory.location
            turn = await memory.begin(Scope("a", "u", "t"), "hello")
            assert [tool.name for tool in turn.tools if tool.name == "recall_memory"]

    async def test_r12_06_without_asking_for_a_credential_it_is_refused(self) -> None:
        talk = Dialogue()
        (refused,) = await talk.say(LONG_TERM, put(("episodicMemory.enabled", True, LONG_TERM)))
        assert rules(refused) == [("memory.episodicMemory.credential", "missing_credential")]
        assert talk.memory is None

    async def test_r12_06_a_skipped_credential_leaves_it_off_and_says_why(self) -> None:
        talk = Dialogue(TUNED, credentials=[None])
        asked, refused = await talk.say(
            LONG_TERM, credential(), put(("episodicMemory.enabled", True, LONG_TERM))
        )
        assert asked["skipped"]
        assert "needs a credential" in asked["note"]
        assert ("memory.episodicMemory.credential", "credential_skipped") in rules(refused)
        assert "stays switched off" in refused["refused"][-1]["message"] + refused["refused"][0]["message"]
        assert talk.builder.config == TUNED

    async def test_r12_06_a_credential_that_is_given_after_all_will_do(self) -> None:
        talk = Dialogue(credentials=[None, "cred-embed"])
        await talk.say(LONG_TERM, credential())
        on = put(("episodicMemory", {"enabled": True, "credential": "cred-embed"}, LONG_TERM))
        _, changed = await talk.say("I have added one now.", credential(), on)
        assert changed["changed"]

    async def test_r12_07_an_invented_id_is_refused(self) -> None:
        talk = Dialogue(TUNED)
        on = put(("episodicMemory", {"enabled": True, "credential": "openai-1"}, LONG_TERM))
        (refused,) = await talk.say(LONG_TERM, on)
        assert rules(refused) == [("memory.episodicMemory.credential", "credential_not_returned")]
        assert "ask_credential" in refused["refused"][0]["message"]

    async def test_r12_07_the_agents_own_credential_is_refused_unless_it_was_returned(self) -> None:
        on = put(("episodicMemory", {"enabled": True, "credential": "cred-agent"}, LONG_TERM))
        (refused,) = await Dialogue(TUNED).say(LONG_TERM, on)
        assert rules(refused) == [("memory.episodicMemory.credential", "credential_not_returned")]
        talk = Dialogue(TUNED, credentials=["cred-agent"])
        _, changed = await talk.say(LONG_TERM, credential(), on)
        assert changed["changed"]

    async def test_r12_07_an_id_of_an_earlier_conversation_has_to_be_asked_for_again(self) -> None:
        before = {**TUNED, "memory": {"episodicMemory": {"enabled": False, "credential": "cred-old"}}}
        talk = Dialogue(before, credentials=["cred-old"])
        on = put(("episodicMemory.enabled", True, LONG_TERM))
        (refused,) = await talk.say(LONG_TERM, on)
        assert rules(refused) == [("memory.episodicMemory.credential", "credential_not_returned")]
        _, changed = await talk.say("Go on.", credential(), on)
        assert changed["changed"]

    async def test_r12_07_a_credential_for_something_else_is_refused(self) -> None:
        talk = Dialogue(llms={"gemini": GEMINI})
        on = put(("episodicMemory", {"enabled": True, "credential": "cred-google"}, LONG_TERM))
        resolve = ("resolve_llm", {"model": "gemini", "purpose": OBSERVER})
        _, refused = await talk.say(f"{LONG_TERM} And gemini for the observer.", resolve, on)
        assert rules(refused) == [("memory.episodicMemory.credential", "credential_for_another_purpose")]

    async def test_r12_07_embeddings_take_no_key_of_another_provider(self) -> None:
        talk = Dialogue(credentials=["cred-claude"])
        on = put(("episodicMemory", {"enabled": True, "credential": "cred-claude"}, LONG_TERM))
        _, refused = await talk.say(LONG_TERM, credential(credential_type="anthropicApi"), on)
        assert rules(refused) == [("memory.episodicMemory.credential", "credential_of_another_provider")]

    @pytest.mark.parametrize(
        "wish",
        [
            "It should know what we talked about in earlier conversations.",
            "I want it to remember the decisions we made last week.",
            "It has to find exact error messages again.",
            "Memory across sessions would be great.",
            "Turn on episodic memory.",
            "Er soll sich an frühere Gespräche erinnern.",
            "Quiero que recuerde conversaciones anteriores.",
            "Je veux une mémoire à long terme.",
        ],
    )
    async def test_r12_05_is_for_those_who_ask_for_it_in_their_words(self, wish: str) -> None:
        talk = Dialogue(credentials=["c"])
        on = put(("episodicMemory", {"enabled": True, "credential": "c"}, wish))
        _, changed = await talk.say(wish, credential(), on)
        assert changed["changed"], changed

    @pytest.mark.parametrize(
        "wish",
        [
            "Make it friendly and give it a good memory.",
            "It should answer questions about our products.",
            "Tell it to remember everything.",
            "It must cope with very long conversations.",
            "Create a new chat agent for our shop.",
        ],
    )
    async def test_r12_05_is_not_for_others(self, wish: str) -> None:
        talk = Dialogue(credentials=["c"])
        on = put(("episodicMemory", {"enabled": True, "credential": "c"}, wish))
        _, refused = await talk.say(wish, credential(), on)
        assert ("memory.episodicMemory.enabled", "episodic_not_requested") in rules(refused)

    async def test_r12_05_a_yes_to_the_question_is_a_request(self) -> None:
        talk = Dialogue(credentials=["c"])
        question = "Shall I turn on episodic memory, so that it knows earlier conversations?"
        await talk.say("Tell it to remember everything.", reply=question)
        on = put(("episodicMemory", {"enabled": True, "credential": "c"}, "Yes, please."))
        _, changed = await talk.say("Yes, please.", credential(), on)
        assert changed["changed"], changed

    async def test_r12_05_a_yes_to_another_question_is_none(self) -> None:
        talk = Dialogue(credentials=["c"])
        await talk.say("Make me an agent.", reply="Shall I call it Anna?")
        on = put(("episodicMemory", {"enabled": True, "credential": "c"}, "Yes, please."))
        _, refused = await talk.say("Yes, please.", credential(), on)
        assert ("memory.episodicMemory.enabled", "episodic_not_requested") in rules(refused)

    async def test_r12_08_does_not_take_the_place_of_session_memory(self) -> None:
        talk = Dialogue(credentials=["c"])
        both = put(
            ("episodicMemory", {"enabled": True, "credential": "c"}, LONG_TERM),
            ("observationalMemory.enabled", False, LONG_TERM),
        )
        _, refused = await talk.say(LONG_TERM, credential(), both)
        assert ("memory.observationalMemory.enabled", "off_not_requested") in rules(refused)
        assert talk.memory is None

    async def test_r12_08_is_not_given_by_tuning_session_memory(self) -> None:
        talk = Dialogue(TUNED)
        more = put(("observationalMemory.observerThresholdTokens", 90000, LONG_TERM))
        (refused,) = await talk.say(LONG_TERM, more)
        assert ("memory.observationalMemory.observerThresholdTokens", "session_is_not_episodic") in rules(
            refused
        )

    async def test_it_can_be_switched_off_again(self) -> None:
        on = {"enabled": True, "credential": "c", "topK": 4}
        talk = Dialogue({"memory": {**DEFAULT, "episodicMemory": on}})
        said = "It should no longer remember earlier conversations."
        (changed,) = await talk.say(said, put(("episodicMemory.enabled", False, said)))
        assert changed["memory"]["episodicMemory"] == {**on, "enabled": False}


class TestWorkerModels:
    async def test_r12_09_a_model_that_the_user_named_is_resolved(self) -> None:
        talk = Dialogue(llms={"gemini flash": GEMINI})
        said = "Use gemini flash for the observer."
        resolve = ("resolve_llm", {"model": "gemini flash", "purpose": OBSERVER})
        found, changed, verified = await talk.say(said, resolve, put((OBSERVER, GEMINI, said)), VERIFY)
        assert found == {**GEMINI, "purpose": OBSERVER}
        assert changed["memory"]["observationalMemory"] == {"enabled": True, "observerModel": GEMINI}
        assert verified["ok"]

    async def test_r12_09_the_user_may_choose_one(self) -> None:
        talk = Dialogue(chosen=GEMINI)
        said = "I want to pick a cheaper model for that."
        choose = ("ask_llm", {"purpose": OBSERVER})
        _, changed = await talk.say(said, choose, put((OBSERVER, GEMINI, said)))
        assert changed["changed"]

    async def test_r12_09_without_a_wish_there_is_none(self) -> None:
        talk = Dialogue(llms={"gemini": GEMINI})
        resolve = ("resolve_llm", {"model": "gemini", "purpose": OBSERVER})
        said = "Make me an agent that answers mail about gemini."
        _, refused, again = await talk.say(
            said, resolve, put((OBSERVER, GEMINI, "")), put((OBSERVER, GEMINI, "an agent that answers mail"))
        )
        assert rules(refused) == [(f"memory.{OBSERVER}", "no_user_request")]
        assert rules(again) == [(f"memory.{OBSERVER}", "model_not_requested")]

    async def test_r12_07_the_credential_of_one_model_is_not_for_another(self) -> None:
        talk = Dialogue(llms={"gemini": GEMINI})
        said = "Use gemini or claude for the observer."
        resolve = ("resolve_llm", {"model": "gemini", "purpose": OBSERVER})
        other = {"model": "anthropic/claude-haiku-4-5", "credential": "cred-google"}
        _, refused = await talk.say(said, resolve, put((OBSERVER, other, said)))
        assert rules(refused) == [(f"memory.{OBSERVER}", "credential_of_another_provider")]

    async def test_r12_07_a_model_for_one_worker_is_not_for_another(self) -> None:
        talk = Dialogue(llms={"gemini": GEMINI})
        said = "Use gemini for the observer."
        resolve = ("resolve_llm", {"model": "gemini", "purpose": OBSERVER})
        extractor = "observationalMemory.reflectorModel"
        _, refused = await talk.say(said, resolve, put((extractor, GEMINI, said)))
        assert rules(refused) == [
            (f"memory.{extractor}", "credential_for_another_purpose"),
            (f"memory.{extractor}", "model_not_requested"),
        ]

    async def test_r12_07_a_credential_of_its_provider_may_be_asked_for(self) -> None:
        talk = Dialogue(credentials=["cred-claude"])
        said = "The observer should use anthropic/claude-haiku-4-5."
        model = {"model": "anthropic/claude-haiku-4-5", "credential": "cred-claude"}
        _, changed = await talk.say(said, credential(OBSERVER, "anthropicApi"), put((OBSERVER, model, said)))
        assert changed["changed"], changed

    async def test_a_model_that_is_not_found_is_told(self) -> None:
        talk = Dialogue()
        (answer,) = await talk.say("Use foo.", ("resolve_llm", {"model": "foo", "purpose": OBSERVER}))
        assert answer["found"] is None
        assert "ask_llm" in answer["note"]


class TestInstructions:
    async def test_r12_10_orders_to_save_are_refused(self) -> None:
        talk = Dialogue(TUNED)
        said = "Tell it to remember everything."
        text = "Be brief. Remember everything the user says and save it to memory."
        (refused,) = await talk.say(said, put(instructions=text, asked=said))
        assert rules(refused) == [("instructions", "memory_writing")]
        assert talk.builder.config["instructions"] == "Be brief."

    async def test_r12_10_observations_are_none_of_their_business(self) -> None:
        talk = Dialogue(TUNED)
        (refused,) = await talk.say("Hm.", put(instructions="Write down observations about the user."))
        assert ("instructions", "observations") in rules(refused)

    async def test_r12_10_using_what_is_recalled_is_fine(self) -> None:
        talk = Dialogue(TUNED)
        text = (
            "Be brief. Use what is recalled from earlier conversations where it helps, and say when it is old."
        )
        said = "It should use its memory."
        (changed,) = await talk.say(said, put(instructions=text, asked=said))
        assert changed["changed"]
        assert talk.builder.config["instructions"] == text
        assert talk.memory == TUNED["memory"]

    async def test_r12_11_verification_names_every_violation_and_its_place(self) -> None:
        talk = Dialogue(TUNED)
        talk.builder.replace_config(
            {
                **TUNED,
                "instructions": "Save all facts to memory.",
                "memory": {
                    **TUNED["memory"],
                    "lastMessages": 0,
                    "surprise": 1,
                    "episodicMemory": {"enabled": True, "credential": "made-up"},
                },
            }
        )
        (verified,) = await talk.say("Is it all right?", VERIFY)
        assert not verified["ok"]
        assert set(rules(verified)) == {
            ("memory.lastMessages", "out_of_range"),
            ("memory.lastMessages", "no_user_request"),
            ("memory.surprise", "unknown_field"),
            ("memory.surprise", "no_user_request"),
            ("memory.episodicMemory.credential", "credential_not_returned"),
            ("memory.episodicMemory.credential", "no_user_request"),
            ("memory.episodicMemory.enabled", "no_user_request"),
            ("memory.episodicMemory.topK", "no_user_request"),
            ("memory.episodicMemory.maxEntriesPerRun", "no_user_request"),
            ("instructions", "memory_writing"),
        }


class TestTools:
    async def test_the_model_is_given_the_guidance_and_six_tools(self) -> None:
        talk = Dialogue()
        await talk.say("Hello.")
        assert guidance() in (talk.instructions[0] or "")
        assert [tool.name for tool in talk.builder.tools] == [
            "read_memory_config",
            "set_memory_config",
            "ask_credential",
            "resolve_llm",
            "ask_llm",
            "verify_memory_config",
        ]
        assert all(tool.parameters["type"] == "object" and tool.description for tool in talk.builder.tools)

    @pytest.mark.parametrize(
        ("tool", "arguments", "told"),
        [
            ("set_memory_config", {"changes": "all"}, "changes is 'all'; it must be a list"),
            ("set_memory_config", {"changes": [{"field": "enabled"}]}, "is not understood"),
            ("set_memory_config", {"changes": [{"field": "a", "value": 1, "why": 2}]}, "change has 'why'"),
            ("set_memory_config", {"instructions": 7}, "instructions is 7; it must be a text"),
            ("set_memory_config", {"memory": {}}, "argument 'memory' is unknown"),
            ("ask_credential", {"purpose": EMBEDDINGS}, "credential_type is None; it must be a text"),
            ("ask_credential", {"credential_type": "openAiApi", "purpose": "fun"}, "purpose is 'fun'"),
            ("resolve_llm", {"model": "", "purpose": OBSERVER}, "model is ''; it must be a text"),
            ("ask_llm", {"purpose": EMBEDDINGS}, "purpose is 'episodicMemory.credential'"),
        ],
    )
    async def test_wrong_calls_are_answered(self, tool: str, arguments: dict[str, Any], told: str) -> None:
        builder = Dialogue().builder
        call = next(item.call for item in builder.tools if item.name == tool)
        assert told in (await call(**arguments))["error"]

    async def test_a_host_that_fails_or_returns_a_key_tells_the_model_nothing_of_it(self) -> None:
        key = "sk-proj-abcdEFGH1234567890abcdEFGH1234567890"

        def fail(**_: str) -> str:
            raise RuntimeError(key)

        builder = MemoryBuilder(
            ask_credential=fail,
            resolve_llm=lambda **_: {"model": "openai/gpt-5-mini", "credential": key},
            ask_llm=lambda **_: {"model": 3},
        )
        _, _, ask, resolve, choose, _ = builder.tools
        answers = [
            await ask.call(credential_type="openAiApi", purpose=EMBEDDINGS),
            await resolve.call(model="x", purpose=OBSERVER),
            await choose.call(purpose=OBSERVER),
        ]
        assert all("error" in answer for answer in answers)
        assert key not in json.dumps(answers)

    def test_a_storage_with_a_password_is_refused(self) -> None:
        with pytest.raises(SettingsError, match="storage is a URL with a password") as caught:
            Dialogue(storage="postgresql://u:hunter2@h/d")
        assert "hunter2" not in str(caught.value)

    async def test_the_host_is_told_of_changes_and_shares_nothing(self) -> None:
        seen: list[dict[str, Any]] = []
        config: dict[str, Any] = {"memory": None, "name": "x"}
        talk = Dialogue(config, on_change=seen.append)
        await talk.say("Hello.", put())
        assert seen == [{"memory": DEFAULT, "name": "x"}]
        seen[0]["memory"]["enabled"] = False
        assert talk.memory["enabled"]
        assert config == {"memory": None, "name": "x"}
