"""What tokens cost, by a table of prices. What is not in the table has no price: unknown, never nothing."""

from __future__ import annotations

import asyncio
import sys
import warnings
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from gateway.config import AgentConfig, OpenAIAgent
from store.records import Usage

_MILLION = Decimal(1_000_000)
_TABLE = "genai_prices"


@dataclass(frozen=True, slots=True)
class Seller:
    """Who asks for money: OpenAI, or whoever has this address."""

    base_url: str | None = None


def seller(config: AgentConfig) -> Seller | None:
    """None: nobody does, or nobody knows."""
    return Seller(config.base_url) if isinstance(config, OpenAIAgent) else None


async def cost(who: Seller | None, model: str | None, usage: Usage) -> int | None:
    """In millionths of a US dollar. The table takes a while to be read, once."""
    if who is None or model is None or usage.total is None:
        return None
    if _TABLE in sys.modules:
        return cost_now(who, model, usage)
    return await asyncio.to_thread(cost_now, who, model, usage)


def cost_now(who: Seller | None, model: str | None, usage: Usage) -> int | None:
    if who is None or model is None or usage.total is None:
        return None
    # Imported on use: a quarter of a second and 36 MB.
    import genai_prices

    # Its counts are sums: all that was read, and what of it came from the cache.
    counted = genai_prices.Usage(
        input_tokens=usage.total_input or 0, cache_read_tokens=usage.cached or 0, output_tokens=usage.total_output or 0
    )
    where = {"provider_id": "openai"} if who.base_url is None else {"provider_api_url": who.base_url}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = genai_prices.calc_price(counted, model, **where)  # type: ignore[call-overload]
    except (LookupError, ValueError):
        return None
    return int((found.total_price * _MILLION).to_integral_value(ROUND_HALF_UP))
