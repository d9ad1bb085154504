"""Spans of a run, by pydantic-ai's own instrumentation, when somebody collects them; it costs nothing otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

_ENDPOINTS = ('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT')
_EXPORTER = 'opentelemetry.exporter.otlp.proto.http.trace_exporter'


def start_tracing(say: Callable[[str], None]) -> Callable[[], None]:
    """Have every agent of this process traced when tracing is configured; return what sends the last spans.

    Configured is: a tracer provider that somebody set for the process, as logfire and `opentelemetry-instrument` do,
    or an OTLP endpoint in the environment, for which one is made here. `say` is told what is missing for that.
    """
    from opentelemetry import trace

    if os.environ.get('OTEL_SDK_DISABLED', '').strip().lower() == 'true':
        return _nothing
    finish = _nothing
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        if not any(os.environ.get(name) for name in _ENDPOINTS):
            return _nothing
        try:
            provider = _provider()
        except ImportError:
            say("no traces are sent, OpenTelemetry's SDK is not installed (pip install 'planctl[logfire]')")
            return _nothing
        trace.set_tracer_provider(provider)
        finish = provider.shutdown
    from pydantic_ai import Agent

    Agent.instrument_all()
    return finish


def _provider() -> Any:
    """Return a provider that sends to the endpoint of the environment. Raises `ImportError`."""
    sdk, export = import_module('opentelemetry.sdk.trace'), import_module('opentelemetry.sdk.trace.export')
    resources = import_module('opentelemetry.sdk.resources')
    is_named = 'OTEL_SERVICE_NAME' in os.environ or 'service.name=' in os.environ.get('OTEL_RESOURCE_ATTRIBUTES', '')
    provider = sdk.TracerProvider(resource=resources.Resource.create({} if is_named else {'service.name': 'planctl'}))
    provider.add_span_processor(export.BatchSpanProcessor(import_module(_EXPORTER).OTLPSpanExporter()))
    return provider


def _nothing() -> None:
    pass
