"""Turns over HTTP: by number, id or as the last; their texts in full behind the addresses they name."""

import uuid
from pathlib import Path

import pytest

from routing.errors import AgentFailed
from tests.fakes.api import Client, Live, configure, connected, started


@pytest.mark.req("S004-122")
async def test_a_turn(live: Live, client: Client) -> None:
    session = await client.create()
    await client.say(session, "one two three")
    await live.ended(session)
    turn = await client.get(f"/api/sessions/{session}/turns/1")
    here = f"/api/sessions/{session}/turns/{turn['id']}"
    assert uuid.UUID(turn["id"])
    assert turn == {
        "id": turn["id"],
        "sessionId": session,
        "sequenceNumber": 1,
        "status": "completed",
        "mode": "ask",
        "conversationId": session,
        "attempts": 1,
        "instructionSummary": "one two three",
        "fullInstructionUrl": f"{here}/instruction",
        "agentAnswerSummary": "You said: one two three",
        "fullAgentAnswerUrl": f"{here}/answer",
        "openAIModel": "builtin",
        "openAIResponseId": None,
        "previousOpenAIResponseId": None,
        "openAIChainExpiresDate": None,
        "inputTokens": 3,
        "cachedTokens": None,
        "outputTokens": 5,
        "reasoningTokens": None,
        "usageSource": "estimated",
        "costUsd": None,
        "warnings": [],
        "errors": [],
        "creationDate": turn["creationDate"],
        "openAIResponseReceivedDate": turn["statusTimeStamp"],
        "statusTimeStamp": turn["statusTimeStamp"],
    }
    assert turn["creationDate"] < turn["statusTimeStamp"]
    body = await client.get(f"/api/sessions/{session}")
    assert body["turns"] == [turn]
    assert (body["totalInputTokens"], body["totalOutputTokens"], body["lastModel"]) == (3, 5, "builtin")


@pytest.mark.req("S004-120", "S004-122", "S004-123")
async def test_turns_by_number_id_and_as_the_last(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    path = f"/api/sessions/{session}/turns"
    assert await client.get(path) == []
    assert (await client.refused(404, "GET", f"{path}/last"))["code"] == "unknown_turn"
    for number in range(3):
        await client.say(session, str(number))
        await live.puppet.asked.get()
        if number < 2:
            live.puppet.answer("yes") if number else live.puppet.say(AgentFailed("no."))
            await live.ended(session, number + 1)
    turns = await client.get(path)
    assert [turn["status"] for turn in turns] == ["failed", "completed", "pending"]
    assert (await client.get(f"/api/sessions/{session}"))["turns"] == turns
    for turn in turns:
        assert await client.get(f"{path}/{turn['id']}") == turn
        assert await client.get(f"{path}/{turn['sequenceNumber']}") == turn
    assert await client.get(f"{path}/last") == turns[2]


@pytest.mark.req("S004-122")
async def test_a_turn_is_found_in_its_own_session_only(live: Live, client: Client) -> None:
    one, two = await client.create(), await client.create()
    await client.say(one, "hello")
    await live.ended(one)
    turn = await client.get(f"/api/sessions/{one}/turns/1")
    for name in (turn["id"], "1", "0", "2", "-1", "999999999", "9" * 40, "last", "%00", "1%20", "LAST"):
        for more in ("", "/instruction", "/answer"):
            error = await client.refused(404, "GET", f"/api/sessions/{two}/turns/{name}{more}")
            assert error["code"] == "unknown_turn"


@pytest.mark.req("S004-59", "S004-60", "S004-61", "S004-88")
async def test_long_texts_are_cut_in_the_turn_and_whole_behind_its_addresses(live: Live, client: Client) -> None:
    instruction, answer = " wörds 🎉\r\n\0" * 400, "¶ antwort \n\n  🎉\t" * 400
    session = await client.create("puppet")
    await client.say(session, instruction)
    await live.puppet.asked.get()
    pending = await client.get(f"/api/sessions/{session}/turns/last")
    assert (pending["status"], pending["agentAnswerSummary"], pending["fullAgentAnswerUrl"]) == ("pending", None, None)
    assert (await client.ask("GET", pending["fullInstructionUrl"])).text == instruction
    error = await client.refused(404, "GET", f"/api/sessions/{session}/turns/last/answer")
    assert (error["code"], error["message"]) == ("no_answer", "Turn 1 has no answer: it is pending.")
    live.puppet.answer(answer)
    await live.ended(session)
    turn = await client.get(f"/api/sessions/{session}/turns/1")
    assert turn["instructionSummary"] == instruction[:1024]
    assert turn["agentAnswerSummary"] == answer[:1024]
    for path, text in ((turn["fullInstructionUrl"], instruction), (turn["fullAgentAnswerUrl"], answer)):
        got = await client.ask("GET", path)
        assert (got.status, got.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert got.text == text


@pytest.mark.req("S004-60", "S004-107")
async def test_a_failed_turn_has_no_answer(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    live.puppet.say("Half an ans")
    await live.until(session, lambda found: len(found.messages) == 2)
    live.puppet.say(AgentFailed("the model is down."))
    await live.ended(session)
    turn = await client.get(f"/api/sessions/{session}/turns/1")
    assert (turn["status"], turn["errors"]) == ("failed", ["the model is down."])
    assert (turn["agentAnswerSummary"], turn["fullAgentAnswerUrl"]) == (None, None)
    error = await client.refused(404, "GET", f"/api/sessions/{session}/turns/1/answer")
    assert (error["code"], error["message"]) == ("no_answer", "Turn 1 has no answer: it is failed.")
    assert (await client.ask("GET", turn["fullInstructionUrl"])).text == "go"


@pytest.mark.req("S004-59")
async def test_collected_messages_are_one_instruction(tmp_path: Path) -> None:
    config = configure(tmp_path, agents={"puppet": {"kind": "builtin", "queue": "collect"}})
    async with started(config) as live, connected(live) as client:
        session = await client.create("puppet")
        for number in range(4):
            await client.say(session, str(number))
            if number == 0:
                await live.puppet.asked.get()
        live.puppet.answer("one")
        assert (await live.puppet.asked.get()).text == "1\n2\n3"
        live.puppet.answer("two")
        await live.ended(session, 2)
        answer = await client.ask("GET", f"/api/sessions/{session}/turns/2/instruction")
        assert answer.text == "1\n2\n3"
