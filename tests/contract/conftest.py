"""The fixtures for stores on servers."""

from __future__ import annotations

from servers import place, postgres, postgres_server, valkey, valkey_server

__all__ = ['place', 'postgres', 'postgres_server', 'valkey', 'valkey_server']
