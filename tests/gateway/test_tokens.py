"""The estimate, on texts that its weights were not set by; the counts are those of two real tokenizers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import tokens

SAMPLES = {
    "english": (
        "Could you look over the draft before Thursday? I rewrote the second half because the argument about rent "
        "controls wandered, and my sister, who edits for a living, said the ending felt rushed. The numbers come from "
        "last year's survey, so please don't quote them yet. If the train is late again I'll call you from the "
        "platform; otherwise let's meet at the bakery by the bridge around nine. Bring the blue folder, would you?"
    ),
    "german": (
        "Gestern Abend hat der Nachbar endlich die Hecke geschnitten, und jetzt sehen wir vom Küchenfenster aus wieder "
        "bis zum Kirchturm. Könntest du bitte die Rechnung der Werkstatt überprüfen? Mir kommt der Betrag für die "
        "Bremsbeläge ziemlich hoch vor. Außerdem müssen wir bis Ende des Monats die Kündigungsfrist der Versicherung "
        "klären, sonst verlängert sich der Vertrag stillschweigend um ein weiteres Jahr."
    ),
    "code": (
        "def merge(left: list[int], right: list[int]) -> list[int]:\n"
        "    result, i, j = [], 0, 0\n"
        "    while i < len(left) and j < len(right):\n"
        "        if left[i] <= right[j]:\n"
        "            result.append(left[i])\n"
        "            i += 1\n"
        "        else:\n"
        "            result.append(right[j])\n"
        "            j += 1\n"
        "    return result + left[i:] + right[j:]\n"
    ),
    "chinese": (
        "昨天下午我们在河边散步的时候遇到了一位老朋友,他刚从南方回来,带了很多茶叶和照片。大家坐在树下聊了很久,"
        "谈到孩子的学校、新的工作,还有明年春天的旅行计划。天黑以前我们一起去吃了面条,味道非常好。"
    ),
    "japanese": (
        "先週の日曜日、家族と一緒に山へハイキングに行きました。天気がとてもよくて、頂上からは海まで見えました。"
        "お弁当を食べたあと、子どもたちは川で遊び、私は木の下で本を読みました。帰りの電車ではみんな眠ってしまいました。"
    ),
    "emoji": (
        "We made it!! 🎉🎉🎉 so proud of you 😭❤️ see you at 8 🍕🍺 don't forget the tickets 🎟️ and bring 🐶 too 😂👍🏽"
    ),
    "json": (
        '{"order": {"id": 48213, "customer": "K. Lindqvist", "paid": true, "items": [{"sku": "TX-991-B", "qty": 2, '
        '"price": 19.95}, {"sku": "QR-104", "qty": 1, "price": 249.0}], "shipping": {"street": "Harbour Road 7", '
        '"zip": "90210", "country": "SE"}, "notes": null, "created": "2026-03-14T09:26:53Z"}}'
    ),
}

#: Tokens by o200k_base and by the older cl100k_base.
COUNTS = {
    "english": (87, 91),
    "german": (87, 112),
    "code": (90, 90),
    "chinese": (76, 121),
    "japanese": (83, 111),
    "emoji": (43, 56),
    "json": (122, 122),
}


@pytest.mark.req("P27")
@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_is_within_a_quarter(kind: str) -> None:
    """Of today's models; of older ones, whose tokens are shorter, within two fifths, which scaling makes good."""
    now, older = COUNTS[kind]
    assert tokens.estimate(SAMPLES[kind]) == pytest.approx(now, rel=0.25)
    assert tokens.estimate(SAMPLES[kind]) == pytest.approx(older, rel=0.4)


@given(st.text(), st.text())
def test_more_text_is_not_fewer_tokens(one: str, other: str) -> None:
    assert 1 <= tokens.estimate(one) <= tokens.estimate(one + other) <= tokens.estimate(one) + tokens.estimate(other)


@given(st.integers(1, 10**6), st.floats(0.0, 1000.0))
def test_a_scale_is_bounded(count: int, ratio: float) -> None:
    assert max(count // 2, 1) <= tokens.scaled(count, ratio) <= count * 2
