"""The JSON Schema of what commands answer with `--json`, made of the tables that document its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planctl.cli.document import COUNTS, FIELDS, ITEM_FIELDS, SCHEMA
from planctl.plan import STATUSES

_TEXT: dict[str, Any] = {'type': 'string'}
_IDS: dict[str, Any] = {'type': 'array', 'items': _TEXT}
_MOMENT: dict[str, Any] = {'type': ['string', 'null'], 'format': 'date-time'}
_WHOLE: dict[str, Any] = {'type': 'integer', 'minimum': 0}

_ITEM_TYPES: Mapping[str, dict[str, Any]] = {
    'status': {'enum': list(STATUSES)},
    'parent_id': {'type': ['string', 'null']},
    'depends_on': _IDS,
    'waits_for': _IDS,
    'ready': {'type': 'boolean'},
    'owner': {'type': ['string', 'null']},
    'lease': _MOMENT,
    'started_at': _MOMENT,
}


def schema() -> dict[str, Any]:
    """Return the schema of the document that answers every command about a plan."""
    counts = dict.fromkeys(COUNTS, _WHOLE)
    types: Mapping[str, dict[str, Any]] = {
        'schema': {'const': SCHEMA},
        'revision': _WHOLE,
        'state': {'enum': ['open', 'finished', 'abandoned', 'empty']},
        'items': {'type': 'array', 'items': _object(ITEM_FIELDS, _ITEM_TYPES)},
        'counts': {'type': 'object', 'properties': counts, 'required': list(counts)},
        'changed': _IDS,
        'unblocked': _IDS,
    }
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'The answer of a planctl command about a plan',
        **_object(FIELDS, types),
    }


def _object(fields: Mapping[str, str], types: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of an object with all of these fields; more may come without a new version."""
    properties = {name: {'description': meaning, **types.get(name, _TEXT)} for name, meaning in fields.items()}
    return {'type': 'object', 'properties': properties, 'required': list(fields)}
