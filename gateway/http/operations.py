"""For operators: sessions out, in, away and elsewhere; backups; forgetting."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from aiohttp import web
from pydantic import Field

from gateway.http import views
from gateway.http.errors import BadRequest, problem
from gateway.http.sessions import API, Said, Strict, flag, read
from store.exchange_reader import Reader

#: The largest session that is taken in, in bytes.
LARGEST_IMPORT = 256 * 2**20
_CHUNK = 2**18

routes = web.RouteTableDef()


class Migration(Strict):
    to: Said
    #: Spelt `from` in JSON, which Python keeps for itself.
    source: Said | None = Field(default=None, alias="from")
    sessions: list[str] | None = Field(default=None, max_length=10_000)
    dryRun: bool = False


class Backup(Strict):
    path: Said


@routes.get("/api/admin/sessions/{id}/export", allow_head=False)
async def export(request: web.Request) -> web.StreamResponse:
    """One session as lines of JSON."""
    session_id = request.match_info["id"]
    lines = await request.app[API].operations.export(session_id)
    name = re.sub(r"[^0-9A-Za-z-]", "_", session_id)
    response = web.StreamResponse(
        headers={
            "Content-Type": "application/x-ndjson; charset=utf-8",
            "Content-Disposition": f'attachment; filename="session-{name}.jsonl"',
        }
    )
    await response.prepare(request)
    for chunk in _chunks(lines):
        await response.write(chunk)
    return response


@routes.post("/api/admin/sessions/import")
async def import_(request: web.Request) -> web.Response:
    """What `export` gave, with its ids or with new ones; all of it, or nothing."""
    new_ids = flag(request, "newIds")
    if (request.content_length or 0) > LARGEST_IMPORT:
        return _too_large()
    reader = Reader()
    size = 0
    async for line in _lines(request):
        size += len(line)
        if size > LARGEST_IMPORT:
            return _too_large()
        reader.feed(line)
    session = await request.app[API].operations.take_in(reader.finish(), new_ids=new_ids)
    return web.json_response(views.session(session), status=201)


@routes.post("/api/admin/sessions/migrate")
async def migrate(request: web.Request) -> web.Response:
    """Move sessions to another agent, or say what would be moved."""
    body = await read(request, Migration)
    if body.source is None and body.sessions is None:
        raise BadRequest(why="Say which sessions: name them in `sessions`, or an agent in `from`.")
    moves = await request.app[API].operations.move(body.to, body.source, body.sessions, dry_run=body.dryRun)
    return web.json_response(views.moves(moves, body.to, dry_run=body.dryRun))


@routes.delete("/api/admin/sessions/{id}")
async def remove(request: web.Request) -> web.Response:
    """Remove a session for good. (`DELETE /api/sessions/{id}` only cancels it.)"""
    session = await request.app[API].operations.remove(request.match_info["id"])
    return web.json_response(
        {
            "id": session.public_id,
            "removed": {
                "messages": session.message_count,
                "turns": session.turn_count,
                "compactions": session.compaction_count,
            },
        }
    )


@routes.post("/api/admin/backup")
async def backup(request: web.Request) -> web.Response:
    """A whole copy in a new file, while the daemon goes on."""
    body = await read(request, Backup)
    if "\0" in body.path:
        raise BadRequest(why="`path`: a path has no such characters.")
    size = await request.app[API].operations.backup(Path(body.path))
    return web.json_response({"path": body.path, "bytes": size}, status=201)


@routes.post("/api/admin/people/{person}/forget")
async def forget(request: web.Request) -> web.Response:
    """Remove all that belongs to a person: by id, by the name in the configuration, or as `channel:userid`."""
    name, really = request.match_info["person"], flag(request, "really")
    return web.json_response(views.forgetting(await request.app[API].operations.forget(name, really=really)))


def _too_large() -> web.Response:
    return problem(413, "request_entity_too_large", f"The import is larger than {LARGEST_IMPORT} bytes.")


def _chunks(lines: list[bytes]) -> Iterator[bytes]:
    """Lines together as far as they fit, because each write costs more than a line."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size > _CHUNK:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


async def _lines(request: web.Request) -> AsyncIterator[bytes]:
    """The lines of a body, of any length, as they come."""
    rest: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        *whole, last = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*rest, line])
            rest, size = [], 0
        rest.append(last)
        size += len(last)
        if size > LARGEST_IMPORT:
            break
    if size:
        yield b"".join(rest)
