"""Whether a model has a price that planctl can count with. The prices are those of genai-prices; it asks nobody."""

from __future__ import annotations

from pydantic_ai.models import Model

from planctl.agent.models import OFFLINE, behind
from planctl.errors import ModelError


def require_price(model: Model, *, option: str) -> None:
    """Raise `ModelError` when a request to the model, or to one that it falls back on, could not be priced.

    The offline model costs nothing.
    """
    for each in behind(model):
        if each.model_name != OFFLINE and not _has_price(each):
            raise ModelError(
                f'{option}: the price of model {each.model_name!r} is not known, so what it costs cannot be limited',
                hint='--max-tokens and --max-requests need no price',
            )


def _has_price(model: Model) -> bool:
    try:
        url = model.base_url
    except Exception:  # Some providers have no address, and each says so in a way of its own.
        url = None
    return (url is not None and _is_priced(model.model_name, url=url)) or _is_priced(
        model.model_name, provider=model.system
    )


def _is_priced(name: str, *, url: str | None = None, provider: str | None = None) -> bool:
    from genai_prices import Usage, calc_price

    try:
        calc_price(Usage(input_tokens=1, output_tokens=1), name, provider_id=provider, provider_api_url=url)  # pyright: ignore[reportCallIssue, reportArgumentType]
    except LookupError:
        return False
    return True
