"""The JSON Schema of what commands answer with `--json`, made of the tables that document its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planctl.cli.document import (
    COUNTS,
    ENTRY_FIELDS,
    ERROR_FIELDS,
    FIELDS,
    FILE_FIELDS,
    ITEM_FIELDS,
    LOG_FIELDS,
    MORE_FIELDS,
    SCHEMA,
    SESSION_FIELDS,
    SESSIONS_FIELDS,
    WHERE_FIELDS,
)
from planctl.plan import STATUSES

_TEXT: dict[str, Any] = {'type': 'string'}
_IDS: dict[str, Any] = {'type': 'array', 'items': _TEXT}
_MOMENT: dict[str, Any] = {'type': ['string', 'null'], 'format': 'date-time'}
_WHOLE: dict[str, Any] = {'type': 'integer', 'minimum': 0}
_TRUTH: dict[str, Any] = {'type': 'boolean'}
_RECORD: dict[str, Any] = {'type': ['object', 'null']}

_COUNTS: dict[str, Any] = {
    'type': 'object',
    'properties': dict.fromkeys(COUNTS, _WHOLE),
    'required': list(COUNTS),
}
_TYPES: Mapping[str, dict[str, Any]] = {
    'schema': {'const': SCHEMA},
    'revision': _WHOLE,
    'state': {'enum': ['open', 'finished', 'abandoned', 'empty']},
    'counts': _COUNTS,
    'changed': _IDS,
    'unblocked': _IDS,
    'status': {'enum': list(STATUSES)},
    'parent_id': {'type': ['string', 'null']},
    'depends_on': _IDS,
    'waits_for': _IDS,
    'ready': _TRUTH,
    'owner': {'type': ['string', 'null']},
    'lease': _MOMENT,
    'started_at': _MOMENT,
    'changed_at': _MOMENT,
    'at': {'type': 'string', 'format': 'date-time'},
    'before': _RECORD,
    'after': _RECORD,
    'renamed': {'type': 'object', 'additionalProperties': _TEXT},
    'dry_run': _TRUTH,
    'undone': _WHOLE,
    'ids': _IDS,
    'hint': {'type': ['string', 'null']},
}
"""What a field holds, wherever it stands; one that is not here is text."""

_PROBLEM_FIELDS = {'id': 'the step', 'message': 'what is wrong with it, on one line'}
_INIT_FIELDS = {
    'schema': FIELDS['schema'],
    'kind': 'init',
    'written': 'the files that were written',
    'kept': 'those that were there',
}


def schema() -> dict[str, Any]:
    """Return the schema of every answer on stdout and, as `error`, of the line that stderr gets instead of one."""
    plan = _object(
        {**FIELDS, **{name: meaning for fields in MORE_FIELDS.values() for name, meaning in fields.items()}},
        required=FIELDS,
        items=_list(ITEM_FIELDS),
        problems=_list(_PROBLEM_FIELDS),
    )
    error = _object(
        {'schema': FIELDS['schema'], 'error': 'what went wrong'}, error=_object(ERROR_FIELDS), schema={'const': SCHEMA}
    )
    return {
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': 'What planctl answers with --json',
        'anyOf': [
            {'$ref': f'#/$defs/{name}'}
            for name in ('plan', 'where', 'log', 'sessions', 'file', 'run', 'spec', 'init', 'version', 'error')
        ],
        '$defs': {
            'plan': plan,
            'where': _object(WHERE_FIELDS, kind={'const': 'where'}),
            'log': _object(LOG_FIELDS, kind={'const': 'log'}, entries=_list(ENTRY_FIELDS)),
            'sessions': _object(SESSIONS_FIELDS, sessions=_list(SESSION_FIELDS)),
            'file': _object(FILE_FIELDS, kind={'const': 'export'}),
            'run': _object({'kind': 'run, whose fields are its own'}, kind={'const': 'run'}),
            'spec': _object({'kind': 'spec, whose fields are its own'}, kind={'const': 'spec'}),
            'init': _object(_INIT_FIELDS, kind={'const': 'init'}, written=_IDS, kept=_IDS),
            'version': _object(
                {'schema': FIELDS['schema'], 'kind': 'version', 'version': 'of planctl'}, kind={'const': 'version'}
            ),
            'error': error,
        },
    }


def _list(fields: Mapping[str, str]) -> dict[str, Any]:
    return {'type': 'array', 'items': _object(fields)}


def _object(
    fields: Mapping[str, str], required: Mapping[str, str] | None = None, **types: dict[str, Any]
) -> dict[str, Any]:
    """Return the schema of an object with all of these fields; more may come without a new version."""
    properties = {
        name: {'description': meaning, **(types.get(name) or _TYPES.get(name, _TEXT))}
        for name, meaning in fields.items()
    }
    return {'type': 'object', 'properties': properties, 'required': list(fields if required is None else required)}
