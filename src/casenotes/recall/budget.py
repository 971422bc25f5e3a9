"""Divide a token budget between layers: minimums first, then the rest by weight, none of it wasted.

Each round is a water filling in whole tokens by Jefferson's method: the next token goes to the layer that
would then have the least by its weight. Rounding fair shares down and giving the rest to the largest
remainders would be simpler, but now and then a larger budget would leave a layer with less (the Alabama
paradox). Here a larger total only continues a sequence that stays the same, so that no layer loses by it,
nor by needing more; and none gets less than the whole part of its fair share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from casenotes.errors import UsageError

Weights = Sequence[int | Fraction]


@dataclass(frozen=True, slots=True)
class Demand:
    """How many tokens a layer should get at least and gets at most, and how many it could use now.

    `weight` decides about what is left when all have their minimum; None means max - min. Layers of weight 0
    share equally what those with a weight cannot use.
    """

    name: str
    min: int
    max: int
    need: int
    weight: float | None = None

    def __post_init__(self) -> None:
        for field in ("min", "max", "need"):
            if (value := getattr(self, field)) < 0:
                raise UsageError(f"budget of {self.name!r}: {field} {value!r} is negative; give 0 or more")
        if self.min > self.max:
            raise UsageError(f"budget of {self.name!r}: min {self.min!r} is greater than max {self.max!r}")
        if self.weight is not None and not (math.isfinite(self.weight) and self.weight >= 0):
            raise UsageError(f"budget of {self.name!r}: weight {self.weight!r} is no number from 0 upwards")

    @property
    def cap(self) -> int:
        """The most that it can use."""
        return min(self.need, self.max)


def allocate(total: int, demands: Sequence[Demand]) -> dict[str, int]:
    """How many tokens each layer gets; ties go to the demand that stands first.

    Minimums that do not fit are scaled down together. All of the total is given out unless every layer has
    as much as it can use; a negative total counts as 0.
    """
    _refuse_duplicates(demands)
    caps = [demand.cap for demand in demands]
    if sum(caps) <= total:
        return {demand.name: cap for demand, cap in zip(demands, caps, strict=True)}
    minimums = [min(demand.min, demand.cap) for demand in demands]
    weights = [_weight(demand) for demand in demands]
    total = max(total, 0)
    given = _share(total, minimums, minimums)
    for round_weights in (weights, [1] * len(demands)):
        missing = [cap - tokens for cap, tokens in zip(caps, given, strict=True)]
        more = _share(total - sum(given), round_weights, missing)
        given = [tokens + extra for tokens, extra in zip(given, more, strict=True)]
    return {demand.name: tokens for demand, tokens in zip(demands, given, strict=True)}


def _refuse_duplicates(demands: Sequence[Demand]) -> None:
    counts = Counter(demand.name for demand in demands)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise UsageError(f"more than one budget for {', '.join(map(repr, repeated))}; names must differ")


def _weight(demand: Demand) -> Fraction:
    return Fraction(demand.max - demand.min if demand.weight is None else demand.weight)


def _share(total: int, weights: Weights, limits: Sequence[int]) -> list[int]:
    """The total divided by weight, each share up to its limit; nobody without weight gets any.

    The water level gives all but a few tokens at once: fewer are left than there are shares below their limit.
    """
    limits = [limit if weight else 0 for weight, limit in zip(weights, limits, strict=True)]
    if total >= sum(limits):
        return limits
    level = _level(total, weights, limits)
    given = [min(limit, math.floor(level * weight)) for weight, limit in zip(weights, limits, strict=True)]
    for _ in range(total - sum(given)):
        given[_next(given, weights, limits)] += 1
    return given


def _level(total: int, weights: Weights, limits: Sequence[int]) -> Fraction:
    """How much each unit of weight gets when shares may be broken; the total must not reach all limits."""
    full_at = {i: limit / Fraction(weights[i]) for i, limit in enumerate(limits) if limit}
    weight = sum((Fraction(weights[i]) for i in full_at), Fraction())
    rest = total
    for i in sorted(full_at, key=full_at.__getitem__):
        if full_at[i] * weight > rest:
            break
        rest -= limits[i]
        weight -= weights[i]
    return rest / weight


def _next(given: Sequence[int], weights: Weights, limits: Sequence[int]) -> int:
    """Whose turn it is: the share that would have the least by its weight with one more token."""
    growing = [i for i, limit in enumerate(limits) if given[i] < limit]
    return min(growing, key=lambda i: (given[i] + 1) / Fraction(weights[i]))
