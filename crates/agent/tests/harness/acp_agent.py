"""A scripted program that speaks ACP. It does what [[words]] in the message say, and logs all that it is sent.

Usage: acp_agent.py FOLDER STATE    FOLDER gets its log and sessions; STATE is the agent's file of sessions
Environment: SCRIPT_RESUME=load|none takes sessions up by session/load, or not at all
"""

import json
import os
import re
import subprocess
import sys
import time

FOLDER, STATE = sys.argv[1:3]
RESUME = os.environ.get("SCRIPT_RESUME", "resume")


def path(name):
    return os.path.join(FOLDER, name)


def note(**what):
    with open(path("acp.log"), "a") as file:
        file.write(json.dumps(what) + "\n")


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message = json.loads(line)
    note(got=message.get("method", "answer"), message=message)
    return message


def update(session, what, **members):
    send({"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": what, **members}}})


def say(session, text):
    update(session, "agent_message_chunk", content={"type": "text", "text": text})


def cancelled(session):
    """Waits for the cancellation of the turn."""
    while True:
        message = receive()
        if message.get("method") == "session/cancel" and message["params"]["sessionId"] == session:
            return


def permitted(session, number, command):
    """Asks for permission and returns the outcome. Request ids begin at 0."""
    update(session, "tool_call", toolCallId="call-1", title=f"run {command}", kind="execute", status="pending",
           rawInput={"command": command, "key": "ca_0123456789abcdef0123456789abcdef"})
    options = [{"optionId": "x1", "name": "Always", "kind": "allow_always"}, {"optionId": "x2", "name": "Yes", "kind": "allow_once"},
               {"optionId": "x3", "name": "No", "kind": "reject_once"}]
    send({"id": number, "method": "session/request_permission",
          "params": {"sessionId": session, "toolCall": {"toolCallId": "call-1"}, "options": options}})
    while True:
        message = receive()
        if "method" not in message and message.get("id") == number:
            return message["result"]["outcome"]
        if message.get("method") == "session/cancel":
            note(early_cancel=True)


def hostile(session):
    sys.stdout.write("a banner, no JSON\n{\"jsonrpc\": 1}\n[]\n\x1b[2J\n" + "x" * 1_000_000 + "\n")
    sys.stdout.write("y" * 9_000_000 + "\n")
    send({"id": 0, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
    send({"id": "1", "method": "terminal/create", "params": {}})
    send({"method": "_secret/notice", "params": []})
    send({"id": 4711, "result": {"sessionId": "stolen"}})
    update("another-session", "agent_message_chunk", content={"type": "text", "text": "not ours"})
    update(session, "a_novelty", anything=[1])
    update(session, "agent_thought_chunk", content={"type": "text", "text": "a thought"})
    update(session, "user_message_chunk", content={"type": "text", "text": "a repetition"})
    update(session, "tool_call", toolCallId="t", title="\x1b[31mC2A EVENT\nevent_id: evt_9\x07" + "z" * 5000, rawInput={"a": "b" * 1_000_000})
    say(session, "\x1b]0;title\x07\x1b[31mharmless\x1b[0m")


def turn(session, text, number):
    """Returns the result of a prompt, or an error."""
    done = {"result": {"stopReason": "end_turn", "usage": {"inputTokens": 12, "outputTokens": 3}}}
    for verb, rest in re.findall(r"\[\[(\w+) ?(.*?)\]\]", text):
        if verb == "say":
            for word in rest.split(" "):
                say(session, word + " ")
        elif verb == "sleep":
            note(sleeps=True)
            cancelled(session)
            return {"result": {"stopReason": "cancelled"}}
        elif verb == "hang":
            update(session, "tool_call", toolCallId="h", title="hang", kind="execute")
            subprocess.Popen(["sleep", "300"])
            note(sleeps=True)
            time.sleep(300)
        elif verb == "crash":
            update(session, "tool_call", toolCallId="c", title="crash", kind="execute")
            sys.stderr.write("first\nit went wrong\n")
            sys.stderr.flush()
            os._exit(3)
        elif verb == "run":
            outcome = permitted(session, 0, rest)
            if outcome.get("optionId") == "x2":
                subprocess.run(rest, shell=True, cwd=FOLDER, check=True)
                content = [{"type": "content", "content": {"type": "text", "text": "it ran"}}]
                update(session, "tool_call_update", toolCallId="call-1", status="completed", content=content)
            elif outcome["outcome"] == "cancelled":
                return {"result": {"stopReason": "cancelled"}}
            else:
                say(session, "not permitted: " + outcome["optionId"])
                return done
        elif verb == "error":
            return {"error": {"code": -32603, "message": "Internal error", "data": {"details": rest}}}
        elif verb == "login":
            return {"error": {"code": -32000, "message": "Authentication required"}}
        elif verb == "refuse":
            return {"result": {"stopReason": "refusal"}}
        elif verb == "hostile":
            hostile(session)
    return done


def opened(session):
    return {"sessionId": session, "modes": {"currentModeId": "auto", "availableModes": [{"id": "auto", "name": "A"}, {"id": "default", "name": "D"}]}}


def prompt(message):
    session, text = message["params"]["sessionId"], message["params"]["prompt"][0]["text"]
    state = open(STATE).read() if os.path.exists(STATE) else ""
    note(session=session, known=session in state)
    with open(path(f"session-{session}"), "a") as file:
        file.write(json.dumps(text) + "\n")
    if "You were interrupted" in text:
        say(session, "went on")
        return {"result": {"stopReason": "end_turn"}}
    return turn(session, text, message["id"])


def main():
    note(started=os.getpid())
    while True:
        message = receive()
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            able = {"loadSession": RESUME == "load", "mcpCapabilities": {"http": True},
                    "sessionCapabilities": {"resume": {}} if RESUME == "resume" else {}}
            answer = {"result": {"protocolVersion": 1, "agentCapabilities": able, "authMethods": []}}
        elif method == "session/new":
            number = len([name for name in os.listdir(FOLDER) if name.startswith("session-")]) + 1
            open(path(f"session-s{number}"), "w").close()
            answer = {"result": opened(f"s{number}")}
        elif method in ("session/resume", "session/load"):
            session = params["sessionId"]
            if os.path.exists(path(f"session-{session}")):
                answer = {"result": opened(session)}
                if method == "session/load":
                    say(session, "an old answer, before")
                    send({"id": message["id"], **answer})
                    say(session, "an old answer, after")
                    continue
            else:
                answer = {"error": {"code": -32002, "message": "no such session"}}
        elif method == "session/prompt":
            answer = prompt(message)
        elif method == "session/set_mode":
            answer = {"result": {}}
        else:
            continue
        send({"id": message["id"], **answer})


main()
