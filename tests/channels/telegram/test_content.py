"""Files and everything that is neither text nor file."""

from typing import Any

import pytest
from telegram import Message

from channels.telegram.content import WORDS
from channels.telegram.service import SERVICE
from routing.messages import Attachment, AttachmentKind
from tests.channels.telegram.host import HostDouble
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Chat

pytestmark = pytest.mark.usefixtures("channel")

IMAGE, AUDIO, VIDEO, DOCUMENT = AttachmentKind


async def only(host: HostDouble) -> Attachment:
    (found,) = (await host.one()).attachments
    return found


async def test_the_largest_photo_that_can_be_fetched(server: FakeTelegram, host: HostDouble, dm: Chat) -> None:
    small = {**server.file("s.jpg", b"s" * 10), "width": 90, "height": 60}
    large = {**server.file("l.jpg", b"l" * 900), "width": 900, "height": 600}
    huge = {**server.file("h.jpg", b"h"), "width": 9000, "height": 6000, "file_size": 21 * 1024 * 1024}
    dm.post(photo=[small, large, huge], caption="see here")
    taken = await host.one()
    assert taken.text == "see here"
    assert taken.attachments == (Attachment(kind=IMAGE, ref=large["file_id"], mime="image/jpeg", size=900),)


@pytest.mark.parametrize(
    ("field", "extra", "kind", "name", "mime"),
    [
        ("document", {"file_name": "a.pdf", "mime_type": "application/pdf"}, DOCUMENT, "a.pdf", "application/pdf"),
        ("document", {}, DOCUMENT, "", ""),
        ("document", {"file_name": "a.png", "mime_type": "image/png"}, IMAGE, "a.png", "image/png"),
        ("audio", {"duration": 3, "file_name": "a.mp3"}, AUDIO, "a.mp3", "audio/mpeg"),
        ("voice", {"duration": 3, "mime_type": "audio/ogg"}, AUDIO, "", "audio/ogg"),
        ("video", {"duration": 3, "width": 9, "height": 9, "file_name": "a.mp4"}, VIDEO, "a.mp4", "video/mp4"),
        ("video_note", {"duration": 3, "length": 9}, VIDEO, "", "video/mp4"),
        ("live_photo", {"duration": 3, "width": 9, "height": 9}, VIDEO, "", "video/mp4"),
        ("animation", {"duration": 3, "width": 9, "height": 9}, VIDEO, "", "video/mp4"),
    ],
)
async def test_files(
    server: FakeTelegram,
    host: HostDouble,
    dm: Chat,
    field: str,
    extra: dict[str, Any],
    kind: AttachmentKind,
    name: str,
    mime: str,
) -> None:
    file = server.file("x", b"12345")
    content: dict[str, Any] = {field: {**file, **extra}}
    dm.post(**content)
    assert await only(host) == Attachment(kind=kind, ref=file["file_id"], name=name, mime=mime, size=5)
    assert (await host.one()).text == ""


async def test_a_live_photo_is_a_picture(server: FakeTelegram, host: HostDouble, dm: Chat) -> None:
    still = {**server.file("s.jpg", b"still"), "width": 9, "height": 9}
    moving = {**server.file("m.mp4", b"moving"), "width": 9, "height": 9, "duration": 3}
    dm.post(live_photo={**moving, "photo": [still]})
    assert (await only(host)).ref == still["file_id"]


async def test_an_animation_is_one_file_though_telegram_says_it_twice(
    server: FakeTelegram, host: HostDouble, dm: Chat
) -> None:
    file = server.file("x", b"12345")
    dm.post(animation={**file, "duration": 3, "width": 9, "height": 9}, document=file)
    assert (await only(host)).kind is VIDEO


async def test_a_sticker_is_a_picture_if_it_stands_still(server: FakeTelegram, host: HostDouble, dm: Chat) -> None:
    file = server.file("x.webp", b"webp")
    sticker = {**file, "type": "regular", "width": 9, "height": 9, "emoji": "😀", "is_animated": False}
    dm.post(sticker={**sticker, "is_video": False})
    dm.post(sticker={**sticker, "is_video": True})
    still, moving = await host.messages(2)
    assert [one.text for one in (still, moving)] == ["[sticker 😀]"] * 2
    assert still.attachments == (Attachment(kind=IMAGE, ref=file["file_id"], mime="image/webp", size=4),)
    assert not moving.attachments


PLACE = {"latitude": 52.1, "longitude": 4.3}


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"location": PLACE}, "[location 52.1, 4.3]"),
        ({"location": PLACE, "venue": {"location": PLACE, "title": "Bar", "address": "Quay 1"}}, "[venue Bar, Quay 1]"),
        ({"contact": {"phone_number": "+31", "first_name": "Bob\nEvil"}}, "[contact Bob Evil +31]"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[dice 🎲 4]"),
        (
            {
                "poll": {
                    "id": "1",
                    "question": "Tea?",
                    "options": [{"text": one, "voter_count": 0, "persistent_id": one} for one in ("yes", "no")],
                    "total_voter_count": 0,
                    "is_closed": False,
                    "is_anonymous": True,
                    "type": "regular",
                    "allows_multiple_answers": False,
                    "allows_revoting": False,
                    "members_only": False,
                }
            },
            "[poll: Tea? / yes / no]",
        ),
        ({"game": {"title": "Chess", "description": "x", "photo": []}}, "[game Chess]"),
        ({"story": {"id": 1, "chat": {"id": 5, "type": "private"}}}, "[story]"),
        ({"checklist": {"title": "Do", "tasks": [{"id": 1, "text": "this"}]}}, "[checklist: Do / this]"),
        (
            {
                "invoice": {
                    "title": "Tea",
                    "description": "x",
                    "start_parameter": "",
                    "currency": "EUR",
                    "total_amount": 1,
                }
            },
            "[invoice Tea]",
        ),
        ({"paid_media": {"star_count": 1, "paid_media": []}}, "[paid media]"),
        ({"something_new": {"x": 1}}, "[a message of a kind that this gateway does not know]"),
    ],
)
async def test_everything_else_is_said_in_words(host: HostDouble, dm: Chat, fields: dict[str, Any], line: str) -> None:
    dm.post(**fields)
    taken = await host.one()
    assert taken.text == line
    assert not taken.attachments


def test_every_field_of_a_message_was_thought_of() -> None:
    """A new version of the library may bring new content: then this fails, and somebody decides what it is."""
    about = {
        *("author_signature", "business_connection_id", "caption", "caption_entities", "chat", "date", "edit_date"),
        *("direct_messages_topic", "effect_id", "entities", "external_reply", "forward_origin", "from_user"),
        *("guest_bot_caller_chat", "guest_bot_caller_user", "guest_query_id", "has_media_spoiler"),
        *("has_protected_content", "is_automatic_forward", "is_from_offline", "is_paid_post", "is_topic_message"),
        *("link_preview_options", "media_group_id", "message_id", "message_thread_id", "paid_star_count", "quote"),
        *("reply_markup", "reply_to_checklist_task_id", "reply_to_message", "reply_to_poll_option_id"),
        *("reply_to_story", "sender_boost_count", "sender_business_bot", "sender_chat", "sender_tag"),
        *("show_caption_above_media", "suggested_post_info", "text", "via_bot"),
    }
    files = {"animation", "audio", "document", "live_photo", "photo", "video", "video_note", "voice"}
    known = about | files | set(WORDS) | set(SERVICE)
    fields = {name for part in Message.__mro__ for name in getattr(part, "__slots__", ()) if not name.startswith("_")}
    assert fields - {"api_kwargs"} - known == set()
