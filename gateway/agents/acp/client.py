"""What an agent may ask of us: a permission, and nothing else. Files and terminals are its own business."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, cast

import acp
from acp.exceptions import RequestError
from acp.interfaces import Client as SdkClient
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from gateway.agents.acp.transport import Transport

#: Gives the id of the chosen option; None if the turn is over.
Decide = Callable[[ToolCallUpdate, list[PermissionOption]], Awaitable[str | None]]


class _Client:
    """The SDK's handlers. Updates never come here: the transport takes them, because their order matters."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        chosen = await self._decide(tool_call, options)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def _not_offered(self, **_: Any) -> NoReturn:
        raise RequestError(-32601, "Not offered by this client")

    # The SDK would answer null where there is no handler, and an agent could take that for a success.
    session_update = read_text_file = write_text_file = _not_offered
    create_terminal = terminal_output = release_terminal = _not_offered
    wait_for_terminal_exit = kill_terminal = create_elicitation = _not_offered


def connect(transport: Transport, decide: Decide) -> acp.ClientSideConnection:
    client = cast(SdkClient, _Client(decide))
    return acp.connect_to_agent(client, transport, use_unstable_protocol=True)
