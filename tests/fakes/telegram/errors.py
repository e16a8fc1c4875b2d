"""How the Bot API says no."""

from __future__ import annotations

from collections.abc import Mapping


class ApiError(Exception):
    def __init__(self, code: int, description: str, parameters: Mapping[str, int] | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


def bad(description: str) -> ApiError:
    return ApiError(400, f"Bad Request: {description}")
