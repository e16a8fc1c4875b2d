"""Session keys: one text per key, one key per text, one id per place."""

import dataclasses
import re
import unicodedata
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routing.errors import InvalidKey
from routing.keys import PeerKind, SessionKey, in_moved_chat, normalise_id, peer_id

FIELDS = ("agent_id", "channel", "account_id", "peer_kind", "peer_id")
TRICKY = st.text(alphabet=":%/@*+-0123AFaf \t\n\0\x7f\x85\u2028é\u0301٣", max_size=8)
TEXT = st.text() | TRICKY
KINDS = st.sampled_from(PeerKind)
KEYS = st.builds(SessionKey, TEXT, TEXT, TEXT, KINDS, TEXT)
IDS = TEXT.map(normalise_id)
PLACES = st.tuples(IDS, st.none() | IDS, st.none() | IDS)
SPACES = st.text(alphabet=" \t\n\u00a0\u2003", max_size=2)

Place = tuple[str, str | None, str | None]


def place_of(peer: str) -> Place:
    """What `peer_id` was given, read back by other means: where an inverse exists, no two share a peer."""
    where, at, member = peer.partition("@")
    chat, slash, thread = where.partition("/")
    return unquote(chat), unquote(thread) if slash else None, unquote(member) if at else None


@pytest.mark.req("S001-09")
@given(KEYS)
@example(SessionKey("", "", "", PeerKind.DM, ""))
@example(SessionKey(":", "%", "\n", PeerKind.GROUP, "\0"))
@example(SessionKey("%3A", "a:b", "%25", PeerKind.CHANNEL, "a b"))
def test_parse_is_the_inverse_of_str(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@pytest.mark.req("S001-09")
@given(KEYS)
def test_text_is_one_word_of_five_parts(key: SessionKey) -> None:
    text = str(key)
    assert text.count(":") == 4
    assert not [char for char in text if char <= " " or char == "\x7f"]


@pytest.mark.req("S001-09")
def test_text_of_an_ordinary_key_is_readable() -> None:
    key = SessionKey("helper", "telegram", "work", PeerKind.GROUP, "-100123/7")
    assert str(key) == "helper:telegram:work:group:-100123/7"


@pytest.mark.req("S001-09")
@given(st.lists(TRICKY, min_size=4, max_size=4), KINDS)
def test_parse_accepts_the_canonical_spelling_only(parts: list[str], kind: PeerKind) -> None:
    text = ":".join((*parts[:3], kind, parts[3]))
    try:
        key = SessionKey.parse(text)
    except InvalidKey:
        return
    assert str(key) == text


@pytest.mark.req("S001-09")
@given(KEYS, st.data())
def test_parse_refuses_a_needless_escape(key: SessionKey, data: st.DataObject) -> None:
    text = str(key)
    plain = [match.start() for match in re.finditer(r"(?<!%)(?<!%.)[A-Za-z]", text)]
    at = data.draw(st.sampled_from(plain))
    with pytest.raises(InvalidKey):
        SessionKey.parse(f"{text[:at]}%{ord(text[at]):02X}{text[at + 1 :]}")


@pytest.mark.req("S001-09")
@pytest.mark.parametrize(
    "text",
    [
        *["", ":", "a", "a:b:c:dm", "a:b:c:dm:e:f", ":::::", "::::"],
        *["a:b:c:robot:e", "a:b:c::e", "a:b:c:DM:e", "a:b:c:d%6D:e", "a:b:c: dm:e", "dm:a:b:c:e"],
        *["a:b:c:dm:%", "a:b:c:dm:%4", "a:b:c:dm:%GG", "a:b:c:dm:%3a", "a:b:c:dm:%61", "a:b:c:dm:%C3%A9"],
        *["a:b:c:dm:e f", "a:b:c:dm:e\n", "\ta:b:c:dm:e", "a:b:c:dm:\0", "a:b:c:dm:\x7f", "a:b:c:dm:%7f"],
        *["a:b:c:dm:\ud800", "\udfff:b:c:dm:e", "a:b:c:dm:\ud83d\ude00"],
    ],
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(InvalidKey):
        SessionKey.parse(text)


@pytest.mark.req("S001-09")
@given(KEYS)
def test_key_is_a_value(key: SessionKey) -> None:
    same = SessionKey(key.agent_id, key.channel, key.account_id, key.peer_kind, key.peer_id)
    assert same == key
    assert {key: "found"}[same] == "found"


@pytest.mark.req("S001-09")
@pytest.mark.parametrize("field", FIELDS)
def test_every_field_counts(field: str) -> None:
    key = SessionKey("a", "b", "c", PeerKind.DM, "d")
    other = dataclasses.replace(key, **{field: PeerKind.GROUP})
    assert other != key
    assert str(other) != str(key)


@pytest.mark.req("S001-09")
@pytest.mark.parametrize("field", FIELDS)
def test_key_is_frozen(field: str) -> None:
    key = SessionKey("a", "b", "c", PeerKind.DM, "d")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(key, field, "other")


@pytest.mark.req("S001-09")
def test_fields_are_strings() -> None:
    assert tuple(field.name for field in dataclasses.fields(SessionKey)) == FIELDS
    assert all(isinstance(value, str) for value in dataclasses.astuple(SessionKey.parse("a:b:c:dm:d")))


@pytest.mark.req("S001-10")
@pytest.mark.parametrize("kind", ["dm", "group", "channel"])
def test_peer_kind_is_one_of_three(kind: str) -> None:
    key = SessionKey("a", "b", "c", kind, "d")  # type: ignore[arg-type]
    assert key.peer_kind is PeerKind(kind)
    assert len(PeerKind) == 3


@pytest.mark.req("S001-10")
@pytest.mark.parametrize("kind", ["", "DM", "dm ", "thread", "guild", None, 1, ["dm"]])
def test_another_peer_kind_is_refused(kind: object) -> None:
    with pytest.raises(InvalidKey, match="peer_kind is dm, group or channel"):
        SessionKey("a", "b", "c", kind, "d")  # type: ignore[arg-type]


@pytest.mark.req("S001-09")
@given(st.characters(categories=["Cs"]), TEXT, st.sampled_from([0, 1, 2, 4]))
def test_lone_surrogates_are_refused(surrogate: str, text: str, field: int) -> None:
    fields = ["a", "b", "c", "dm", "d"]
    fields[field] = text + surrogate
    with pytest.raises(InvalidKey, match="not valid Unicode") as caught:
        SessionKey(fields[0], fields[1], fields[2], PeerKind.DM, fields[4])
    assert str(caught.value).isprintable()


@pytest.mark.req("R-20")
@given(TEXT)
def test_normalise_id_is_idempotent(text: str) -> None:
    assert normalise_id(normalise_id(text)) == normalise_id(text)


@pytest.mark.req("R-20")
@given(st.integers(), st.integers(0, 3), SPACES, SPACES)
def test_spellings_of_a_number_are_one_id(number: int, zeros: int, before: str, after: str) -> None:
    signs = [sign for sign, fits in (("-", number <= 0), ("+", number >= 0), ("", number >= 0)) if fits]
    spellings = {f"{before}{sign}{'0' * zeros}{abs(number)}{after}" for sign in signs}
    assert {normalise_id(spelling) for spelling in spellings} == {str(number)}


@pytest.mark.req("R-20")
@given(IDS, SPACES, SPACES, st.sampled_from(["NFC", "NFD"]))
def test_spellings_of_a_text_are_one_id(text: str, before: str, after: str, form: str) -> None:
    spelling = unicodedata.normalize("NFD", text) if form == "NFD" else text
    assert normalise_id(before + spelling + after) == text


@pytest.mark.req("R-20")
@pytest.mark.parametrize(
    "text", ["", "caf\u00e9", "٣", "+٣", "1e3", "1_000", "0x1", "--1", "+-1", "- 1", "07a", "1.0", "+"]
)
def test_what_is_no_number_stays_as_it_is(text: str) -> None:
    assert normalise_id(text) == text


def test_a_very_long_number_is_normalised_too() -> None:
    assert normalise_id("-" + "0" * 5000 + "7" * 5000) == "-" + "7" * 5000


@pytest.mark.req("S001-12", "R-20")
@given(PLACES)
@example(("1/2", None, None))
@example(("1", "2@3", None))
@example(("1%2F2", "%", "%40"))
def test_peer_holds_the_whole_place(place: Place) -> None:
    assert place_of(peer_id(*place)) == place


@pytest.mark.req("S001-12", "R-20")
@given(TEXT, TEXT, TEXT)
def test_thread_and_member_never_share_the_peer_of_the_chat(chat: str, thread: str, member: str) -> None:
    peers = [peer_id(chat), peer_id(chat, thread), peer_id(chat, None, member), peer_id(chat, thread, member)]
    assert len(set(peers)) == 4


@pytest.mark.req("S001-12", "R-20")
@given(TEXT, TEXT)
def test_member_never_collides_with_thread(chat: str, other: str) -> None:
    assert peer_id(chat, thread=other) != peer_id(chat, member=other)


@pytest.mark.req("R-20")
@pytest.mark.parametrize(
    ("peer", "expected"),
    [
        (peer_id("-100123"), "-100123"),
        (peer_id("-100123", "7"), "-100123/7"),
        (peer_id("-100123", None, "42"), "-100123@42"),
        (peer_id(" -0100123", "07", "+42"), "-100123/7@42"),
        (peer_id("a/b", "c@d", "50%"), "a%2Fb/c%40d@50%25"),
    ],
)
def test_peer_is_spelled(peer: str, expected: str) -> None:
    assert peer == expected


@pytest.mark.req("P16")
@given(TEXT, TEXT, st.none() | TEXT, st.none() | TEXT, st.sampled_from(PeerKind))
def test_a_key_follows_its_chat_with_thread_and_member(
    old: str, new: str, thread: str | None, member: str | None, kind: PeerKind
) -> None:
    key = SessionKey("main", "telegram", "bot", kind, peer_id(old, thread, member))
    moved = in_moved_chat(key, "telegram", "bot", old, new)
    if kind is PeerKind.DM:
        assert moved == key
    else:
        assert moved == SessionKey("main", "telegram", "bot", kind, peer_id(new, thread, member))


@given(TEXT, TEXT, TEXT, st.none() | TEXT)
def test_no_other_key_follows(old: str, other: str, new: str, thread: str | None) -> None:
    peer = peer_id(other, thread)
    kind = PeerKind.GROUP
    for channel, account in (("discord", "bot"), ("telegram", "second")):
        key = SessionKey("main", channel, account, kind, peer_id(old, thread))
        assert in_moved_chat(key, "telegram", "bot", old, new) == key
    if normalise_id(other) != normalise_id(old):
        key = SessionKey("main", "telegram", "bot", kind, peer)
        assert in_moved_chat(key, "telegram", "bot", old, new) == key


def test_a_chat_whose_id_begins_alike_is_another() -> None:
    key = SessionKey("main", "telegram", "bot", PeerKind.GROUP, "-55")
    assert in_moved_chat(key, "telegram", "bot", "-5", "-1005") == key
