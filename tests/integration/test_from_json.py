"""A memory from JSON: its database, keys and parts are those of the object, and of nothing else."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from conversation import proposes
from provider_server import Provider, provider

from casenotes import Memory, Scope, Secret, Settings, sync
from casenotes.config import EpisodicSettings, ObservationalSettings, StorageSettings, WorkerModel, effective
from casenotes.credentials import EnvironmentCredentials
from casenotes.errors import ModelError, SettingsError, UsageError
from casenotes.integrations.pydantic_ai import MemoryCapability
from casenotes.models.keys import look_up
from casenotes.testing import HashEmbedder
from casenotes.types import Message

ANNA, BEN = Scope("a", "anna", "t"), Scope("a", "ben", "t")
LOCAL = {"enabled": True, "credential": "local"}
HOSTED = "openai:text-embedding-3-small"
ENVIRONMENT_KEY = "sk-environment-0001"
SECRETS = {"embed": "sk-embed-0001", "watch": "sk-watch-0001", "extract": "sk-extract-0001"}
KEYED: dict[str, Any] = {
    "memory": {
        "observationalMemory": {
            "observerThresholdTokens": 50,
            "observerModel": {"model": "openai/gpt-4o-mini", "credential": "watch"},
        },
        "episodicMemory": {
            "credential": "embed",
            "extractorModel": {"model": "openai-chat/gpt-4o", "credential": "extract"},
            "reflectorModel": {"model": "openai-chat/gpt-4o", "credential": "extract"},
        },
    }
}


class Noting:
    """A resolver that notes what it is asked for."""

    def __init__(self, secrets: dict[str, str]) -> None:
        self.secrets = secrets
        self.asked: list[str] = []

    async def resolve(self, credential_id: str) -> str | None:
        self.asked.append(credential_id)
        return self.secrets.get(credential_id)


@pytest.fixture
async def openai(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Provider]:
    async with provider() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", ENVIRONMENT_KEY)
        yield server


async def talk(memory: Memory, scope: Scope, said: str, answer: str = "I see.") -> str:
    turn = await memory.begin(scope, said)
    return (await memory.complete(turn, answer, sync=True)).status


async def test_r11_08_each_part_is_asked_with_its_own_key(openai: Provider, sqlite_url: str) -> None:
    async with Memory.from_json(KEYED, SECRETS, url=sqlite_url) as memory:
        for number in range(4):
            await talk(
                memory, ANNA, f"The valve of line {number} is open, and that took us a long time to see."
            )
        await memory.finish(ANNA)
    used = {(asked.path, asked.key) for asked in openai.asked}
    assert ("embeddings", SECRETS["embed"]) in used
    assert ("completions", SECRETS["extract"]) in used
    assert {key for path, key in used if path != "embeddings"} == {SECRETS["watch"], SECRETS["extract"]}
    assert {key for path, key in used if path == "embeddings"} == {SECRETS["embed"]}
    models = {asked.model for asked in openai.asked if asked.path == "embeddings"}
    assert models == {"text-embedding-3-small"}


class TestEmbeddings:
    async def test_r11_09_take_no_key_of_the_environment(
        self, openai: Provider, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CASENOTES_EMBEDDER_MODEL", "openai:text-embedding-3-small")
        for memory in ({}, {"episodicMemory": {"enabled": False}}, {"episodicMemory": LOCAL}):
            async with Memory.from_json({"memory": memory}, url=sqlite_url) as opened:
                await talk(opened, ANNA, "The pump is loud.")
        assert openai.asked == []

    async def test_r11_09_a_name_in_the_call_is_refused_and_an_object_is_taken(self, sqlite_url: str) -> None:
        with pytest.raises(SettingsError) as caught:
            async with Memory.from_json(
                {"memory": {}}, url=sqlite_url, embedder="openai:text-embedding-3-small"
            ):
                pass
        assert "embedder is 'openai:text-embedding-3-small' and config is JSON" in str(caught.value)
        on = {"memory": {"episodicMemory": {"enabled": True}}}
        async with Memory.from_json(on, url=sqlite_url, embedder=HashEmbedder(16), model=proposes()) as memory:
            assert await talk(memory, ANNA, "The pump is loud.") == "learned"

    async def test_r11_09_a_space_of_another_process_takes_no_key_of_the_environment(
        self, openai: Provider
    ) -> None:
        keys = await look_up(effective(KEYED), SECRETS)
        known = keys.embedder_of_label("openai:text-embedding-3-small")
        assert known is not None
        await known.embed(["x"])
        assert [asked.key for asked in openai.asked] == [SECRETS["embed"]]
        assert keys.embedder_of_label("openai:text-embedding-3-large") is None
        python = await look_up(effective(Settings()), None)
        assert python.embedder_of_label("openai:text-embedding-3-large") is not None

    async def test_r11_09_settings_that_came_from_json_take_none_either(
        self, openai: Provider, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CASENOTES_EMBEDDER_MODEL", HOSTED)
        for given in ({"memory": {"semanticRecall": True}}, '{"memory": {}}'):
            settings = Settings.from_json(given)
            copied = pickle.loads(pickle.dumps(settings))
            async with Memory.open(sqlite_url, config=copied) as memory:
                await talk(memory, ANNA, "The pump is loud.")
                assert not memory._settings.episodic.enabled
                with pytest.raises(SettingsError, match="takes no keys from the environment"):
                    await memory.reembed(HOSTED)
        with pytest.raises(SettingsError, match="EnvironmentCredentials"):
            async with Memory.open(sqlite_url, config=settings, credentials=EnvironmentCredentials()):
                pass
        assert openai.asked == []

    async def test_in_python_a_credential_names_the_embedder_too(
        self, openai: Provider, sqlite_url: str
    ) -> None:
        settings = Settings(episodic=EpisodicSettings(credential="my-key"))
        variables = {"CASENOTES_CREDENTIAL_MY_KEY": "sk-by-prefix-0001"}
        credentials = EnvironmentCredentials(variables=variables)
        async with Memory.open(sqlite_url, config=settings, credentials=credentials) as memory:
            await talk(memory, ANNA, "The pump is loud.")
        assert {asked.key for asked in openai.asked} == {"sk-by-prefix-0001"}


class TestCredentials:
    @pytest.mark.parametrize(
        ("credentials", "told"),
        [
            (
                None,
                "memory.episodicMemory.credential is 'embed', but there are no credentials; pass credentials=",
            ),
            ({}, "memory.episodicMemory.credential is 'embed', which is not among the credentials"),
            ({"embed": ""}, "credential 'embed': a secret must be a text, but it is blank"),
            (EnvironmentCredentials(), "credentials is EnvironmentCredentials and config is JSON"),
            (7, "credentials is a int; pass a mapping"),
        ],
    )
    async def test_r11_07_what_is_missing_is_told_with_its_field(
        self, credentials: Any, told: str, sqlite_url: str
    ) -> None:
        with pytest.raises(SettingsError, match=told.replace("(", r"\(")):
            async with Memory.from_json(KEYED, credentials, url=sqlite_url):
                pass

    async def test_r11_07_the_field_of_a_worker_is_named(self, sqlite_url: str) -> None:
        with pytest.raises(SettingsError) as caught:
            async with Memory.from_json(KEYED, {"embed": "sk-1234567"}, url=sqlite_url):
                pass
        assert str(caught.value).startswith("memory.observationalMemory.observerModel.credential is 'watch'")

    async def test_an_unknown_provider_is_refused_before_anything_is_opened(self, tmp_path: Path) -> None:
        config = {
            "memory": {"observationalMemory": {"observerModel": {"model": "nobody/x", "credential": "c"}}}
        }
        with pytest.raises(SettingsError, match="'nobody:x' cannot be used: Unknown provider: nobody"):
            async with Memory.from_json(config, {"c": "sk-1234567"}, url=f"sqlite:///{tmp_path}/x.db"):
                pass

    async def test_a_function_may_find_them(self, openai: Provider, sqlite_url: str) -> None:
        async def find(credential_id: str) -> str:
            return SECRETS[credential_id]

        async with Memory.from_json(KEYED, find, url=sqlite_url) as memory:
            await talk(memory, ANNA, "The pump is loud.")
        assert SECRETS["embed"] in {asked.key for asked in openai.asked}

    async def test_only_what_is_on_is_looked_up(self, sqlite_url: str) -> None:
        config = deepcopy(KEYED)
        config["memory"]["observationalMemory"]["enabled"] = False
        config["memory"]["episodicMemory"]["enabled"] = False
        resolver = Noting(SECRETS)
        async with Memory.from_json(config, resolver, url=sqlite_url, model=proposes()) as memory:
            turn = await memory.begin(ANNA, "hello")
            receipt = await memory.complete(turn, "hi", sync=True)
        assert resolver.asked == []
        assert receipt.reason == "episodic memory is off"

    async def test_a_key_that_the_provider_repeats_is_not_told_on(
        self, openai: Provider, sqlite_url: str
    ) -> None:
        openai.status = 401
        secrets = SECRETS | {"embed": "short-key"}
        with pytest.raises(Exception, match=r"status 401") as caught:
            async with Memory.from_json(KEYED, secrets, url=sqlite_url):
                pass
        assert "short-key" not in str(caught.value)
        assert openai.asked[0].key == "short-key"

    async def test_r11_07_a_wrong_model_is_told_with_its_field_before_anything_is_made(
        self, tmp_path: Path
    ) -> None:
        observer = {"model": "nobody/x", "credential": "c"}
        config = {"memory": {"observationalMemory": {"observerModel": observer}}}
        with pytest.raises(SettingsError, match=r"observationalMemory\.observerModel: chat model 'nobody:x'"):
            async with Memory.from_json(config, {"c": "sk-1234567"}, url=f"sqlite:///{tmp_path}/x.db"):
                pass
        assert list(tmp_path.glob("x.db*")) == []

    async def test_no_key_goes_to_a_gateway(self) -> None:
        observer = {"model": "gateway/openai:gpt-5", "credential": "c"}
        config = {"memory": {"observationalMemory": {"observerModel": observer}}}
        with pytest.raises(SettingsError, match="'gateway/openai' is a gateway"):
            async with Memory.from_json(config, {"c": "sk-1234567"}, url="sqlite:///:memory:"):
                pass

    async def test_the_agents_model_may_have_a_credential(self, openai: Provider, sqlite_url: str) -> None:
        options = {"model": WorkerModel("openai-chat/gpt-4o", "c"), "credentials": {"c": "sk-agents-0001"}}
        async with Memory.open(sqlite_url, embedder="static", **options) as memory:
            await talk(memory, ANNA, "The valve of line 3 was open all night.")
        assert {asked.key for asked in openai.asked} == {"sk-agents-0001"}

    async def test_no_error_leads_to_one_that_tells_the_key(self, openai: Provider, sqlite_url: str) -> None:
        openai.status = 401
        with pytest.raises(Exception, match="status 401") as caught:
            async with Memory.from_json(KEYED, SECRETS, url=sqlite_url):
                pass
        error: BaseException | None = caught.value
        while error is not None:
            assert SECRETS["embed"] not in str(error) + repr(vars(error))
            error = error.__cause__ or error.__context__


class TestStorage:
    async def test_r11_05_the_backend_follows_the_database(
        self, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        by_url = {"memory": {"storage": store_url, "episodicMemory": LOCAL}}
        async with Memory.from_json(by_url) as memory:
            await talk(memory, ANNA, "The pump of hall 3 is loud.")
            kind = memory.location.partition(":")[0]
        assert kind == store_url.partition(":")[0]
        monkeypatch.setenv("CASENOTES_DATABASE_URL", store_url)
        for name in ("n8n", "default"):
            async with Memory.from_json({"memory": {"storage": name, "episodicMemory": LOCAL}}) as memory:
                assert [message.text for message in await memory.history(ANNA)][:1] == [
                    "The pump of hall 3 is loud."
                ]

    async def test_r11_05_a_password_comes_from_a_credential(self, postgres_url: str) -> None:
        config = {"memory": {"storage": {"url": postgres_url, "credential": "db"}}}
        async with Memory.from_json(config, {"db": "p@ss/w:rd"}) as memory:
            await talk(memory, ANNA, "hello")
            assert "p@ss" not in memory.location
        keys = await look_up(
            effective({"memory": {"storage": {"url": "postgresql://me@db/x?a=b", "credential": "db"}}}),
            {"db": "p@ss/w:rd"},
        )
        assert keys.database_url == "postgresql://me:p%40ss%2Fw%3Ard@db/x?a=b"

    async def test_a_url_of_the_call_needs_no_password_of_the_settings(self, sqlite_url: str) -> None:
        storage = StorageSettings(database="postgresql://me@db/x", credential="db")
        async with Memory.open(sqlite_url, config=Settings(storage=storage)) as memory:
            assert memory.location.startswith("sqlite:")

    async def test_a_host_that_names_the_database_has_names_of_its_own(self, sqlite_url: str) -> None:
        async with Memory.from_json({"memory": {"storage": "acme"}}, url=sqlite_url) as memory:
            assert memory.location.startswith("sqlite:")
        with pytest.raises(SettingsError, match=r"memory\.storage is 'acme'"):
            Memory.from_json({"memory": {"storage": "acme"}})


OFF = {"memory": {**KEYED["memory"], "enabled": False, "storage": "default"}}


class TestSwitchedOff:
    async def test_r11_06_nothing_is_kept_shown_or_asked_for(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.chdir(tmp_path)
        resolver = Noting({})
        async with Memory.from_json(OFF, resolver, model=proposes()) as memory:
            turn = await memory.begin(ANNA, "My name is Anna.")
            context = await memory.step(turn, "Hello Anna.")
            receipt = await memory.complete(turn, "Bye.", sync=True)
            await memory.finish(ANNA)
            again = await memory.begin(ANNA, "Who am I?")
            assert await memory.history(ANNA) == []
            assert await memory.recall(ANNA, "Anna") == []
        assert (turn.tools, again.tools, context.text) == ((), (), "")
        assert [message.text for message in context.messages] == ["My name is Anna.", "Hello Anna."]
        assert [message.text for message in again.context.messages] == ["Who am I?"]
        assert (receipt.status, receipt.reason) == ("skipped", "memory is switched off")
        assert resolver.asked == []
        assert list(tmp_path.rglob("*.db*")) == []

    async def test_r11_06_what_would_be_kept_is_refused(self) -> None:
        async with Memory.open(config=Settings(enabled=False)) as memory:
            for kept in (
                memory.append(ANNA, "x"),
                memory.remember(ANNA, "x"),
                memory.update_profile(ANNA, "Name", "set", "x"),
                memory.update_plan(ANNA, goal="x"),
                memory.record_attempt(ANNA, "x", "y", "z"),
            ):
                with pytest.raises(UsageError, match="memory is switched off; set enabled to true"):
                    await kept

    async def test_r11_06_an_agent_runs_without(self) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
        from pydantic_ai.models.function import AgentInfo, FunctionModel

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            assert info.function_tools == []
            return ModelResponse([TextPart(f"{len(messages)} messages")])

        async with Memory.from_json(OFF) as memory:
            agent = Agent(FunctionModel(answer), capabilities=[MemoryCapability(memory, scope=ANNA)])
            assert (await agent.run("hello")).output == "1 messages"
            assert (await agent.run("hello again")).output == "1 messages"


class TestDoors:
    async def test_r11_01_two_users_at_once_on_either_store(self, shared_url: str, scope: Scope) -> None:
        config = {"memory": {"storage": shared_url, "lastMessages": 2, "episodicMemory": LOCAL}}
        async with Memory.from_json(config, embedder=HashEmbedder(256)) as memory:

            async def say(name: str) -> list[str]:
                own = Scope(scope.agent_id, name, "t")
                for number in range(3):
                    await talk(memory, own, f"{name} {number}")
                turn = await memory.begin(own, f"{name} again")
                return [message.text for message in turn.context.messages]

            anna, ben = await asyncio.gather(say("anna"), say("ben"))
        assert anna[-1] == "anna again"
        assert not [text for text in anna if "ben" in text]
        assert not [text for text in ben if "anna" in text]

    async def test_r11_01_open_takes_the_object_or_its_text(self, sqlite_url: str) -> None:
        for config in ({"memory": {"lastMessages": 3}}, '{"memory": {"lastMessages": 3}}'):
            async with Memory.open(sqlite_url, config=config) as memory:
                assert memory._settings.last_messages == 3
                assert not memory._settings.episodic.enabled

    def test_r11_03_wrong_objects_are_refused_when_the_call_is_made(self) -> None:
        for opener in (Memory, sync.Memory):
            with pytest.raises(SettingsError, match=r"memory.lastMessages is 0; .*\nmemory.x is unknown"):
                opener.from_json({"memory": {"lastMessages": 0, "x": 1}})
            with pytest.raises(SettingsError, match="config is a int; pass a JSON object"):
                opener.from_json(7)  # type: ignore[arg-type]

    def test_the_synchronous_memory_opens_from_json_too(self, sqlite_url: str) -> None:
        with sync.Memory.from_json({"memory": {"episodicMemory": LOCAL}}, url=sqlite_url) as memory:
            turn = memory.begin(ANNA, [Message("user", "hello")])
            assert turn.context.messages[0].text == "hello"

    async def test_in_python_a_worker_may_have_a_credential(self, openai: Provider, sqlite_url: str) -> None:
        watcher = WorkerModel("openai/gpt-4o-mini", "watch")
        settings = Settings(
            observational=ObservationalSettings(observer_model=watcher, observer_threshold_tokens=50)
        )
        async with Memory.open(
            sqlite_url, config=settings, credentials={"watch": Secret("sk-w-0001")}
        ) as memory:
            await talk(memory, ANNA, "The valve of line 7 is open, and that took us a long time to see. " * 3)
            await memory.observe(ANNA)
        assert {asked.key for asked in openai.asked} == {"sk-w-0001"}
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(Secret("sk-w-0001"))

    async def test_a_model_that_refuses_the_key_is_an_error_without_it(self, openai: Provider) -> None:
        from casenotes.models.chat import ChatRequest
        from casenotes.models.workers import Workers

        openai.status = 401
        workers = Workers(None, Settings().models, {"c": Secret("tiny-key")})
        worker = workers.model(WorkerModel("openai/gpt-4o", "c"))
        del workers
        assert worker is not None
        with pytest.raises(ModelError) as caught:
            await worker.ask(ChatRequest("extract", "s", "p", {"type": "object"}))
        assert "tiny-key" not in repr(caught.value) + str(caught.value)
        await worker.close()
