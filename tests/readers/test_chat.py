"""The chat engine: what is a decision, what was seen before it, what was done."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcgpo_data.readers.chat import action_of_text, read_chat
from mcgpo_data.readers.messages import NotMessagesError, digest, dump


def call(name: str, arguments: Any, identity: str | None = "c1") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any = None, *calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **more}


def tool(text: Any, identity: str | None = "c1", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "content": text, **({"tool_call_id": identity} if identity else {}), **more}


TALK = [
    {"role": "system", "content": "policy"},
    user("find a flight"),
    assistant(None, call("search", '{"to": "SEA", "from": "JFK"}')),
    tool("two flights"),
    assistant("Which one?"),
    user("the first"),
]


def test_one_step_per_assistant_message_with_the_messages_it_adds():
    chat = read_chat(TALK)
    assert [[m["role"] for m in step.messages] for step in chat.steps] == [
        ["system", "user", "assistant"],
        ["tool", "assistant"],
    ]
    assert [step.prompt_from for step in chat.steps] == [0, 0]
    assert [step.observation for step in chat.steps] == ["find a flight", "two flights"]
    assert chat.final_observation == "the first"
    assert [m["role"] for m in chat.opening] == ["system", "user"]


def test_no_message_is_lost_or_repeated():
    chat = read_chat(TALK)
    stored = [(m["role"], m["content"]) for step in chat.steps for m in step.messages]
    assert stored == [(m["role"], m["content"]) for m in TALK[:-1]]


def test_tool_calls_become_sorted_compact_json():
    chat = read_chat(TALK)
    assert chat.steps[0].action_kind == "tool_call"
    assert chat.steps[0].action_text == '[{"arguments":{"from":"JFK","to":"SEA"},"name":"search"}]'
    assert chat.steps[0].messages[-1]["tool_calls"][0]["function"]["arguments"] == '{"to": "SEA", "from": "JFK"}'
    assert (chat.steps[1].action_text, chat.steps[1].action_kind) == ("Which one?", "message")


SAME_CALL = [
    call("f", '{"a":1}'),
    call("f", {"a": 1}),
    json.dumps(call("f", '{"a":1}')),
    {"id": "c1", "name": "f", "arguments": {"a": 1}},
    {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    {"id": "c1", "function": json.dumps({"name": "f", "arguments": {"a": 1}})},
]


@pytest.mark.parametrize(
    "spelling", SAME_CALL, ids=["string", "object", "whole-json", "flat", "anthropic", "half-json"]
)
def test_one_call_has_one_form_however_it_is_spelled(spelling):
    step = read_chat([user("go"), assistant(None, spelling), tool("ok")]).steps[0]
    assert step.action_text == '[{"arguments":{"a":1},"name":"f"}]'
    assert json.loads(step.messages[-1]["tool_calls"][0]["function"]["arguments"]) == {"a": 1}
    assert step.messages[-1]["tool_calls"][0]["id"] == "c1"


def test_parallel_calls_are_one_ordered_decision_and_results_follow_the_order_of_the_calls():
    messages = [
        user("go"),
        assistant(None, call("a", {}, "x"), call("b", {}, "y")),
        tool("from b", "y"),
        tool("from a", "x"),
        assistant("done"),
    ]
    chat = read_chat(messages)
    assert [c["name"] for c in json.loads(chat.steps[0].action_text)] == ["a", "b"]
    assert chat.steps[1].observation == "from a\n\nfrom b"
    assert [m["name"] for m in chat.steps[1].messages[:-1]] == ["a", "b"]
    assert not chat.remarks


@pytest.mark.parametrize("first, second", [(None, None), ("same", "same")])
def test_missing_or_reused_call_ids_join_by_order(first, second):
    messages = [
        user("go"),
        assistant(None, call("a", {}, first), call("b", {}, second)),
        tool("from a", first),
        tool("from b", second),
        assistant("done"),
    ]
    chat = read_chat(messages)
    assert [m["name"] for m in chat.steps[1].messages[:-1]] == ["a", "b"]
    assert chat.steps[1].observation == "from a\n\nfrom b"
    assert chat.remarks["tool call ids missing or reused: results joined by order"] == 1


def test_ids_of_messages_are_not_taken_for_ids_of_calls():
    result = {"role": "tool", "id": "msg_7", "content": "x"}
    chat = read_chat([user("go"), assistant(None, call("a", {}, "c9")), result, assistant("done")])
    assert chat.steps[1].messages[0]["tool_call_id"] == "c9"


def test_ids_reused_by_later_messages_still_join():
    turns = [user("go")]
    for name in ("a", "b"):
        turns += [assistant(None, call(name, {}, "again")), tool(f"from {name}", "again")]
    chat = read_chat([*turns, assistant("done")])
    assert [m["name"] for step in chat.steps for m in step.messages if m["role"] == "tool"] == ["a", "b"]
    assert not chat.remarks


def test_the_first_observation_joins_all_user_messages_and_no_system_message():
    chat = read_chat([{"role": "developer", "content": "rules"}, user("board"), user("your move"), assistant("e4")])
    assert chat.steps[0].observation == "board\n\nyour move"
    assert chat.steps[0].messages[0]["role"] == "system"


def test_a_later_system_message_is_seen():
    chat = read_chat([user("go"), assistant("a"), {"role": "system", "content": "hurry"}, assistant("b")])
    assert chat.steps[1].observation == "hurry"


def test_a_scripted_greeting_is_context():
    chat = read_chat([assistant("Hi! How can I help?"), user("refund"), assistant("Sure.")])
    assert len(chat.steps) == 1
    assert [m["content"] for m in chat.steps[0].messages] == ["Hi! How can I help?", "refund", "Sure."]
    assert chat.steps[0].observation == "refund"
    assert chat.remarks["greeting before any user message is no decision"] == 1


def test_an_action_before_any_user_message_is_a_decision():
    chat = read_chat([{"role": "system", "content": "play"}, assistant(None, call("look", {})), tool("a room")])
    assert chat.steps[0].action_kind == "tool_call"
    assert chat.final_observation == "a room"


@pytest.mark.parametrize("text", ["OK", "Ok.", "OK. I'll follow your instructions and try my best to solve the task."])
def test_a_first_acknowledgement_is_context(text):
    chat = read_chat([user("rules"), assistant(text), user("the task"), assistant("Action: look"), user("seen")])
    assert [step.action_text for step in chat.steps] == ["look"]
    assert chat.steps[0].observation == "the task"


def test_an_ok_later_on_is_a_decision():
    chat = read_chat([user("hi"), assistant("hello"), user("wait"), assistant("OK")])
    assert [step.action_text for step in chat.steps] == ["hello", "OK"]


@pytest.mark.parametrize(
    "mark", [{"sampled": False}, {"trainable": False}, {"loss": False}, {"is_demo": True}, {"is_copied_context": True}]
)
def test_marked_turns_are_context(mark):
    chat = read_chat([user("q"), assistant("example", **mark), user("real q"), assistant("mine")])
    assert [step.action_text for step in chat.steps] == ["mine"]
    assert [m["content"] for m in chat.steps[0].messages] == ["q", "example", "real q", "mine"]
    assert chat.remarks["scripted or demonstrated assistant message is no decision"] == 1


def test_a_separate_prompt_holds_no_decisions_and_what_follows_it_is_all_decisions():
    chat = read_chat([assistant("guess"), user("no")], prompt=[{"role": "system", "content": "play"}])
    assert [step.action_text for step in chat.steps] == ["guess"]
    shots = [user("1+1"), assistant("2"), user("2+2")]
    chat = read_chat([assistant("4")], prompt=shots)
    assert [step.action_text for step in chat.steps] == ["4"]
    assert chat.steps[0].observation == "2+2"


def test_calls_of_the_user_are_hidden_from_the_agent():
    messages = [
        user("my phone is dead"),
        assistant("Please toggle airplane mode."),
        {"role": "user", "content": None, "tool_calls": [call("toggle", {}, "u1") | {"requestor": "user"}]},
        {"role": "tool", "id": "u1", "content": "airplane mode off", "requestor": "user"},
        user("done"),
        assistant(None, call("check", {}, "a1") | {"requestor": "assistant"}),
        {"role": "tool", "id": "a1", "content": "connected", "requestor": "assistant"},
        assistant("All good."),
    ]
    chat = read_chat(messages)
    assert [step.observation for step in chat.steps] == ["my phone is dead", "done", "connected"]
    assert "airplane mode off" not in json.dumps([step.messages for step in chat.steps])
    assert chat.remarks["tool calls by the user left out"] == 1


def test_results_of_user_calls_are_hidden_even_without_requestor():
    messages = [
        user("hi"),
        assistant("try"),
        {"role": "user", "tool_calls": [call("f", {}, "u1")]},
        tool("secret", "u1"),
    ]
    chat = read_chat([*messages, user("did it"), assistant("ok then")])
    assert chat.steps[1].observation == "did it"


def test_several_results_in_one_entry_are_taken_apart():
    several = {"role": "tool", "tool_messages": [tool("one", "x"), tool("two", "y")]}
    chat = read_chat([user("go"), assistant(None, call("a", {}, "x"), call("b", {}, "y")), several, assistant("end")])
    assert chat.steps[1].observation == "one\n\ntwo"


def test_anthropic_blocks():
    chat = read_chat(
        [
            user([{"type": "text", "text": "weather?"}]),
            assistant(
                [
                    {"type": "thinking", "thinking": "need a tool"},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}},
                ]
            ),
            user([{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]}]),
            assistant([{"type": "text", "text": "It rains."}]),
        ]
    )
    assert chat.steps[0].thought == "need a tool"
    assert chat.steps[0].action_text == '[{"arguments":{"city":"Oslo"},"name":"weather"}]'
    assert chat.steps[0].messages[-1]["content"] == "Let me look."
    assert chat.steps[1].messages[0]["role"] == "tool"
    assert chat.steps[1].observation == "rain"


def test_gemini_parts_that_answer_calls_as_user():
    chat = read_chat(
        [
            {"role": "user", "parts": [{"text": "time?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "clock", "args": {"zone": "UTC"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "clock", "response": {"time": "12:00"}}}]},
            {"role": "model", "parts": [{"text": "Noon."}]},
        ]
    )
    assert chat.steps[0].action_text == '[{"arguments":{"zone":"UTC"},"name":"clock"}]'
    assert chat.steps[1].observation == '{"time":"12:00"}'


def test_sharegpt_turns_with_function_calls():
    chat = read_chat(
        [
            {"from": "system", "value": "tools"},
            {"from": "human", "value": "go"},
            {"from": "function_call", "value": '{"name": "look", "arguments": {"at": "door"}}'},
            {"from": "observation", "value": "open"},
            {"from": "gpt", "value": "It is open."},
        ]
    )
    assert chat.steps[0].action_text == '[{"arguments":{"at":"door"},"name":"look"}]'
    assert chat.steps[1].observation == "open"


def test_reasoning_apart_is_thought_and_reasoning_inside_stays_in_the_response():
    apart = read_chat([user("q"), assistant("answer", reasoning_content="hmm")]).steps[0]
    inside = read_chat([user("q"), assistant("<think>hmm</think>answer")]).steps[0]
    assert (apart.thought, apart.action_text) == ("hmm", "answer")
    assert (inside.thought, inside.action_text) == (None, "answer")
    assert inside.messages[-1]["content"] == "<think>hmm</think>answer"


def test_null_content_and_nothing_said_is_an_invalid_action():
    step = read_chat([user("q"), assistant(None)]).steps[0]
    assert (step.action_text, step.action_kind) == (None, "invalid")
    assert step.messages[-1]["content"] is None


def test_a_call_without_a_name_is_an_invalid_action():
    step = read_chat([user("q"), assistant(None, {"id": "c", "function": {"arguments": "{}"}})]).steps[0]
    assert (step.action_text, step.action_kind) == (None, "invalid")


def test_arguments_that_are_no_json_stay_text():
    step = read_chat([user("q"), assistant(None, call("sh", "ls -l {"))]).steps[0]
    assert step.action_text == '[{"arguments":"ls -l {","name":"sh"}]'


def test_images_are_told_apart_by_content():
    def see(data: str) -> str:
        parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": data}}]
        chat = read_chat([user(parts), assistant("a cat")])
        assert chat.remarks["image or other attachment replaced by its digest"] == 1
        return chat.steps[0].observation

    assert see("data:1") == see("data:1")
    assert see("data:1") != see("data:2")
    assert see("data:1").startswith("look\n[image_url ")


ACTIONS = [
    ("<think>go or stay</think><action>go north</action>", ("go north", "env_command")),
    ("<action>a</action> no, <action>b</action>", ("b", "env_command")),
    ("<think>maybe <action>x</action></think><action>y</action>", ("y", "env_command")),
    ("template opened it</think><action>z</action>", ("z", "env_command")),
    ("<action>go", (None, "invalid")),
    ("<action>  </action>", (None, "invalid")),
    ("Thought: hungry\nAction: eat apple", ("eat apple", "env_command")),
    ("Thought:\nhungry\n\nAction:\neat apple", ("eat apple", "env_command")),
    ("THOUGHT: x\n ACTION: look", ("look", "env_command")),
    ("Thought 3: x\nAction 3: Search[Oslo]", ("Search[Oslo]", "env_command")),
    ("**Action:** look", ("look", "env_command")),
    ("Action: a\nObservation: b\nAction: c", ("c", "env_command")),
    ("Action: search\nAction Input: Oslo", ("search Oslo", "env_command")),
    ("Action: Run\n```sql\nSELECT 1\nFROM t;\n```", ("Run\n```sql\nSELECT 1\nFROM t;\n```", "env_command")),
    ("Action:\n```bash\nls\n```\nthen wait", ("```bash\nls\n```", "env_command")),
    ("Action: look\n\nThat should do.", ("look", "env_command")),
    ("Action:", (None, "invalid")),
    ('<tool_call>\n{"name": "f", "arguments": {"b": 1, "a": 2}}\n</tool_call>',
     ('[{"arguments":{"a":2,"b":1},"name":"f"}]', "tool_call")),
    ('<tool_call>{"name": "f"}</tool_call>\n<tool_call>{"name": "g"}</tool_call>',
     ('[{"arguments":{},"name":"f"},{"arguments":{},"name":"g"}]', "tool_call")),
    ("<tool_call>{broken</tool_call>", (None, "invalid")),
    ("  plain words \n", ("plain words", "message")),
    ("", (None, "invalid")),
    ("<think>never closed", (None, "invalid")),
]  # fmt: skip


@pytest.mark.parametrize("text, expected", ACTIONS)
def test_action_of_text(text, expected):
    assert action_of_text(text) == expected


@pytest.mark.parametrize("raw", [None, 3, "no list", {"role": "user"}, ["text"], [None], [{"content": "x"}], [[]]])
def test_what_is_no_message_list_is_refused(raw):
    with pytest.raises(NotMessagesError):
        read_chat(raw)


def test_a_json_string_that_holds_the_messages_is_read():
    assert [s.action_text for s in read_chat(json.dumps(TALK)).steps] == [s.action_text for s in read_chat(TALK).steps]


def test_unknown_roles_are_read_as_user_and_counted():
    chat = read_chat([{"role": "critic", "content": "hm"}, assistant("a")])
    assert chat.steps[0].observation == "hm"
    assert chat.remarks["unknown role read as user"] == 1


def test_the_initial_hash_depends_on_the_first_prompt_alone():
    other_end = [*TALK[:4], assistant("The second.")]
    other_start = [TALK[0], user("find a train"), *TALK[2:]]
    assert read_chat(TALK).initial_hash == read_chat(other_end).initial_hash != read_chat(other_start).initial_hash


def test_numbers_that_json_cannot_hold_become_null():
    assert dump({"b": float("nan"), "a": [float("inf"), 1.5]}, sort=True) == '{"a":[null,1.5],"b":null}'


def test_digests_ignore_the_order_of_keys():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) != digest({"a": 1, "b": [3]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["role", "content", "tool_calls", "name", "arguments", "function", "type", "text", "value"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(JSON, max_size=4))
def test_any_json_is_read_or_refused_but_never_breaks(raw):
    try:
        chat = read_chat([user("q"), *raw, assistant("a")])
    except NotMessagesError:
        return
    assert all(step.messages[-1]["role"] == "assistant" for step in chat.steps)
