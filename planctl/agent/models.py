"""Models by name, with errors that say what is missing, and what is behind one. An SDK is imported when it is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from planctl.errors import ExtraMissing, ModelError

if TYPE_CHECKING:
    from pydantic_ai.models import Model

OFFLINE = 'offline'
"""The name of the model that needs no key and no network."""

_EXTRA = re.compile(r'pydantic-ai-slim\[([\w-]+)\]')
_VARIABLE = re.compile(r'`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`')


def model_of(name: str, *, where: str) -> Model:
    """Return the model of this name. `where` says who named it, for the message.

    Raises `ExtraMissing` when its SDK is not installed and `ModelError` when there is no such model or no key for it.
    """
    if name == OFFLINE:
        from planctl.agent.offline import offline_model

        return offline_model()
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        return infer_model(name)
    except ImportError as error:
        extra = _EXTRA.search(str(error))
        if extra is None:
            raise ModelError(f'{where}: model {name!r} cannot be loaded: {one_line(error)}') from error
        raise ExtraMissing(
            f'{where}: model {name!r} needs the extra {extra[1]!r}', hint=f"pip install 'planctl[{extra[1]}]'"
        ) from error
    except (UserError, ValueError) as error:
        variables = list(dict.fromkeys(_VARIABLE.findall(str(error))))
        if variables:
            raise ModelError(
                f'{where}: model {name!r} needs {" or ".join(variables)} in the environment',
                hint='`--model offline` needs no key',
            ) from error
        unknown = one_line(error) if 'nknown model' in str(error) else f'{name!r}: {one_line(error)}'
        raise ModelError(
            f'{where}: {unknown[0].lower()}{unknown[1:]}', hint='a model is named provider:model, or `offline`'
        ) from error


def behind(model: Model) -> Iterator[Model]:
    """Yield the models that really answer, behind wrappers and fallbacks."""
    from pydantic_ai.models.fallback import FallbackModel
    from pydantic_ai.models.wrapper import WrapperModel

    if isinstance(model, WrapperModel):
        yield from behind(model.wrapped)
    elif isinstance(model, FallbackModel):
        for each in model.models:
            yield from behind(each)
    else:
        yield model


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line of at most 300 characters; its type when it has none."""
    from planctl.sanitize import clean

    return _cut(clean(str(error)) or type(error).__name__)


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f'{text[:299]}…'


def in_words(error: BaseException) -> str:
    """Return what a failed call of an agent came to, on one line: of a provider's answer the words, not the body."""
    from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, ModelHTTPError

    if isinstance(error, ContentFilterError):
        return f'the model refused: {one_line(error).partition(", body: ")[0]}'
    if isinstance(error, ModelHTTPError):
        said = _message_in(error.body)
        return f'the provider answered {error.status_code}' + (f': {_cut(said)}' if said else '')
    if isinstance(error, ModelAPIError):
        return one_line(error)
    return f'{type(error).__name__}: {one_line(error)}'


def _message_in(body: object) -> str:
    """Return the message of an error body, wherever providers put it; the body itself when there is none."""
    from planctl.sanitize import clean

    if isinstance(body, dict):
        fields = cast('dict[str, Any]', body)
        inside: Any = fields.get('error')
        if isinstance(inside, dict):
            return _message_in(cast('object', inside))
        return clean(str(fields.get('message') or inside or fields))
    return clean(str(body or ''))
