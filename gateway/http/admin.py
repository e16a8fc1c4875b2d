"""For operators: health, explanations, parked deliveries, refusals; and the door of the web channel."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from gateway.http import views
from gateway.http.errors import problem
from gateway.http.sessions import API, CALLER, Said, Strict, read
from routing.access import Reason
from routing.keys import PeerKind
from routing.messages import Address, Addressed, Inbound, Sender

routes = web.RouteTableDef()


class Question(Strict):
    """A message to explain, as a channel would hand it in."""

    channel: str
    account: str
    chat: str
    sender: str
    peerKind: PeerKind = PeerKind.DM
    thread: str | None = None
    guild: str | None = None
    roles: list[str] = []
    addressed: Addressed = Addressed.MENTION
    text: str = "hello"
    bot: bool = False


class WebMessage(Strict):
    text: Said
    id: str = Field(min_length=1, max_length=200)


@routes.get("/healthz")
async def healthz(request: web.Request) -> web.Response:
    """The process lives and its loop turns."""
    return web.json_response({"status": "ok"})


@routes.get("/readyz")
async def readyz(request: web.Request) -> web.Response:
    """Every component, true as of now; 503 while one is in trouble, and while the daemon starts or stops."""
    api = request.app[API]
    closed = api.intake.closed
    components = {
        name: {"ok": component.ok, "detail": component.detail} for name, component in api.health.components.items()
    }
    components["intake"] = {"ok": not closed, "detail": "starting or stopping" if closed else ""}
    ready = api.health.ok and not closed
    body = {"status": "ready" if ready else "not_ready", "components": components}
    return web.json_response(body, status=200 if ready else 503)


@routes.post("/api/admin/explain")
async def explain(request: web.Request) -> web.Response:
    asked = await read(request, Question)
    message = Inbound(
        external_id="explain",
        address=Address(channel=asked.channel, account=asked.account, chat=asked.chat, thread=asked.thread),
        peer_kind=asked.peerKind,
        sender=Sender(id=asked.sender, is_bot=asked.bot),
        text=asked.text,
        guild=asked.guild,
        roles=frozenset(asked.roles),
        addressed=asked.addressed,
    )
    return web.json_response(views.explanation(await request.app[API].explain(message)))


@routes.get("/api/admin/outbox")
async def parked(request: web.Request) -> web.Response:
    rows = await request.app[API].parked()
    return web.json_response({"parked": [views.delivery(row) for row in rows]})


@routes.post("/api/admin/outbox/{delivery:[0-9]{1,15}}/resend")
async def resend(request: web.Request) -> web.Response:
    row = await request.app[API].resend(int(request.match_info["delivery"]))
    return web.json_response(views.delivery(row))


@routes.get("/api/admin/refusals")
async def refusals(request: web.Request) -> web.Response:
    rows = await request.app[API].refusals()
    return web.json_response({"refusals": [views.refusal(row) for row in rows]})


@routes.post("/api/web/{account}/messages")
async def receive(request: web.Request) -> web.Response:
    """The owner writes on the page: routed, gated and answered like a message of any other channel."""
    body = await read(request, WebMessage)
    account = request.match_info["account"]
    message = Inbound(
        external_id=f"{account}/{body.id}",
        address=Address(channel="web", account=account, chat=CALLER),
        peer_kind=PeerKind.DM,
        sender=Sender(id=CALLER),
        text=body.text,
    )
    taken = await request.app[API].receive(message)
    if taken.refused is not None:
        status = 429 if taken.refused is Reason.LANE_FULL else 403
        return problem(status, taken.refused, f"Not taken: {taken.refused.sentence}.")
    item = taken.item
    answer = {
        "messageId": None if item is None else item.message_id,
        "key": None if item is None else str(item.key),
        "duplicate": taken.duplicate,
    }
    return web.json_response(answer, status=202)
