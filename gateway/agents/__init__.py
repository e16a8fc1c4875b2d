"""Agents: what answers. Each kind is one module; the turn knows only the protocol and the events."""
