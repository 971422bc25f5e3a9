"""Put the parts of a memory together: the built-in layers as the settings want them, and those of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from casenotes.clock import Clock
from casenotes.config import SemanticRecallSettings, Settings
from casenotes.curate.curator import Curator
from casenotes.curate.desk import Desk
from casenotes.event_log import EventLog
from casenotes.events import Events
from casenotes.layers.assemble import ContextMaker
from casenotes.layers.base import Layer
from casenotes.layers.episodes import EpisodesLayer
from casenotes.layers.episodic import EpisodicLayer
from casenotes.layers.gather import Gatherer
from casenotes.layers.keeper import Keeper
from casenotes.layers.learning import Learning
from casenotes.layers.observations import ObservationsLayer, SessionLayer
from casenotes.layers.observing import SessionMemory
from casenotes.layers.plan import PlanLayer
from casenotes.layers.profile import ProfileLayer
from casenotes.layers.registered import registered
from casenotes.layers.semantic import SemanticRecallLayer
from casenotes.layers.stored_state import States
from casenotes.layers.subagents import LOG
from casenotes.layers.titles import TitleLayer
from casenotes.learn.ask import Asker
from casenotes.learn.pipeline import Tools
from casenotes.learn.speakers import shown_name
from casenotes.models.embed import Embedder
from casenotes.models.workers import Workers
from casenotes.observe.breaker import Breaker
from casenotes.observe.limits import Limits
from casenotes.observe.tools import ObservingTools
from casenotes.recall.recent import MessageTokens
from casenotes.recall.search import Searcher
from casenotes.recall.space import EmbedderOf, SpaceInUse, open_space
from casenotes.recall.vectors import VectorFiller
from casenotes.stores.base import Store
from casenotes.tokens import CountedOnce, ForgivingCounter, TokenCounter

OUR_LAYERS = (
    ProfileLayer,
    ObservationsLayer,
    SessionLayer,
    PlanLayer,
    EpisodicLayer,
    EpisodesLayer,
    SemanticRecallLayer,
    TitleLayer,
)
RESERVED = frozenset((LOG, *(layer.name for layer in OUR_LAYERS)))


@dataclass(frozen=True, slots=True)
class Parts:
    """What a memory consists of."""

    space: SpaceInUse
    searcher: Searcher
    filler: VectorFiller
    layers: Sequence[Layer]
    states: States
    contexts: ContextMaker
    learning: Learning
    curator: Curator
    keeper: Keeper
    event_log: EventLog
    session: SessionMemory
    size: MessageTokens


class Builder:
    """Makes the parts; all of them share one store, one clock and one listener."""

    def __init__(
        self,
        store: Store,
        workers: Workers,
        settings: Settings,
        clock: Clock,
        events: Events,
        count_tokens: TokenCounter,
    ) -> None:
        self._store = store
        self._workers = workers
        self._settings = settings
        self._clock = clock
        self._events = events
        self._measure = count_tokens
        self._count = CountedOnce(ForgivingCounter(count_tokens, self._tell_of_counter))

    async def build(self, embedder: str | Embedder, embedder_of: EmbedderOf, given: Sequence[Any]) -> Parts:
        """All parts; every layer has been initialised."""
        settings, store = self._settings, self._store
        space = SpaceInUse(store, await open_space(store, embedder), self._events, embedder_of)
        filler = VectorFiller(store, space, self._events)
        searcher = Searcher(store, space, filler, settings.search, self._clock, self._events, shown_name)
        tools = self._extraction(searcher, space)
        own = [layer for layer in self._own(searcher, tools) if layer is not None]
        layers = registered(given, own, RESERVED)
        for layer in layers:
            await layer.init()
        states = States(store, self._clock)
        gatherer = Gatherer(states, settings.recall_deadline_seconds, self._count, self._events)
        size = MessageTokens(self._count)
        session = SessionMemory(store, settings, self._clock, self._events, self._observing(size))
        desk = Desk(store, searcher, space, settings.episodic, self._clock, self._events)
        return Parts(
            space,
            searcher,
            filler,
            layers,
            states,
            ContextMaker(store, layers, gatherer, settings, self._clock, size, session),
            Learning(store, layers, states, settings.jobs, self._events, self._left_to_workers()),
            Curator(desk, tools),
            self._keeper(states, layers),
            EventLog(store),
            session,
            size,
        )

    def _tell_of_counter(self, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}"
        self._events.emit("counting.failed", source="count_tokens", error=problem)

    def _asker(self, own: Any = None) -> Asker | None:
        model = self._workers.model(own)
        if model is None:
            return None
        limit = self._settings.models.max_output_tokens
        return Asker(model, self._store, self._settings.jobs, limit, self._clock, self._events)

    def _observing(self, size: MessageTokens) -> ObservingTools | None:
        """What long threads are observed with, if there is a model."""
        settings = self._settings.observational
        if not settings.enabled:
            return None
        observer = self._asker(settings.observer_model)
        reflector = self._asker(settings.reflector_model or settings.observer_model)
        if not (observer and reflector):
            return None
        return ObservingTools(
            self._store,
            observer,
            reflector,
            settings,
            Limits.of(self._settings),
            self._clock,
            self._events,
            self._count,
            size,
            Breaker(settings.breaker_failures, settings.breaker_seconds),
        )

    def _extraction(self, searcher: Searcher, space: SpaceInUse) -> Tools | None:
        """What entries are learned with, if there is a model."""
        if not self._has_entries:
            return None
        episodic = self._settings.episodic
        extractor, reflector = self._asker(episodic.extractor_model), self._asker(episodic.reflector_model)
        if not (extractor and reflector):
            return None
        return Tools(
            self._store,
            searcher,
            space,
            extractor,
            reflector,
            episodic,
            self._settings.episodes,
            self._clock,
            self._events,
            self._count,
        )

    @property
    def _has_entries(self) -> bool:
        return self._settings.episodic.enabled and self._store.supports_entries

    def _own(self, searcher: Searcher, tools: Tools | None) -> list[Layer | None]:
        """The built-in layers, None where one is switched off."""
        settings, count = self._settings, self._count
        similar = settings.semantic_recall
        assert isinstance(similar, SemanticRecallSettings)  # noqa: S101
        return [
            self._profile() if settings.profile.enabled else None,
            *self._session_layers(),
            PlanLayer(settings.plan, count) if settings.plan.enabled else None,
            EpisodicLayer(searcher, settings.episodic, count, tools) if self._has_entries else None,
            self._episodes() if settings.episodes.enabled else None,
            SemanticRecallLayer(self._store, searcher, similar, count) if similar.enabled else None,
            self._titles() if settings.titles == "model" else None,
        ]

    def _session_layers(self) -> list[Layer | None]:
        settings = self._settings.observational
        if not settings.enabled:
            return []
        limits = Limits.of(self._settings)
        return [
            ObservationsLayer(self._store, settings, limits, self._count),
            SessionLayer(self._store, settings, self._count),
        ]

    def _profile(self) -> ProfileLayer:
        settings = self._settings.profile
        asker = self._asker(settings.model) if settings.learn else None
        return ProfileLayer(settings, self._count, self._clock, self._events, asker)

    def _episodes(self) -> EpisodesLayer:
        settings = self._settings.episodes
        asker = self._asker(settings.model) if settings.summariser in ("auto", "model") else None
        seconds = self._settings.jobs.hook_seconds / 2  # the other half is for saving another summary
        return EpisodesLayer(self._store, settings, self._count, self._measure, self._events, asker, seconds)

    def _titles(self) -> TitleLayer | None:
        asker = self._asker()
        return TitleLayer(self._store, asker, self._count) if asker else None

    def _left_to_workers(self) -> list[str]:
        """Layers that learn with a model: a worker may have one where this process has none."""
        wanted = {
            EpisodicLayer.name: self._has_entries,
            ProfileLayer.name: self._settings.profile.enabled and self._settings.profile.learn,
            TitleLayer.name: self._settings.titles == "model",
        }
        return [name for name, is_on in wanted.items() if is_on]

    def _keeper(self, states: States, layers: Sequence[Layer]) -> Keeper:
        profile = next((layer for layer in layers if isinstance(layer, ProfileLayer)), None)
        plan = next((layer for layer in layers if isinstance(layer, PlanLayer)), None)
        return Keeper(self._store, states, self._clock, self._count, profile, plan)
